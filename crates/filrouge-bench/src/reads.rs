//! `last20` and `readall`: one session of many turns, read from warm caches.

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Result, ensure};
use filrouge_engine::ListTurns;
use filrouge_types::{SessionId, TurnStatus};
use tempfile::TempDir;

use crate::Setup;
use crate::product::Product;
use crate::raw::{LAYOUTS, Layout, RawStore, RawTurn};
use crate::report::{Line, Section, Target};
use crate::stats::{Leg, Series, fastest, micros};
use crate::workload::{Turns, requests, session_id};

/// The same session in the product and in each raw layout.
pub(crate) struct Stores {
    pub(crate) product: Product,
    pub(crate) session: SessionId,
    pub(crate) raw_stores: Vec<RawStore>,
    pub(crate) turns: usize,
    _dirs: Vec<TempDir>,
}

/// Writes the same turns to the product and to each raw layout.
pub(crate) async fn write_stores(setup: &Setup, turns: usize) -> Result<Stores> {
    let texts = Turns::new(11).next_turns(turns);
    let mut dirs = vec![setup.dir()?];
    let product = Product::open(dirs[0].path(), false).await?;
    let session = session_id(0)?;
    for request in requests(&texts)? {
        product
            .engine
            .turns
            .start(&product.caller, session.clone(), request)
            .await?;
    }
    let mut raw_stores = Vec::new();
    for layout in LAYOUTS {
        let dir = setup.dir()?;
        let raw = RawStore::open(&dir.path().join("raw.db"), layout)?;
        dirs.push(dir);
        for text in &texts {
            raw.commit(&RawTurn::new(0, text))?;
        }
        raw_stores.push(raw);
    }
    Ok(Stores {
        product,
        session,
        raw_stores,
        turns,
        _dirs: dirs,
    })
}

/// Times `n` calls.
pub(crate) async fn time_calls<F: Future<Output = Result<()>>>(
    n: usize,
    call: impl Fn() -> F,
) -> Result<Leg> {
    time_prepared_calls(n, || std::future::ready(Ok(())), call).await
}

/// Times `n` calls, without the preparation before each.
async fn time_prepared_calls<P, F>(
    n: usize,
    prepare: impl Fn() -> P,
    call: impl Fn() -> F,
) -> Result<Leg>
where
    P: Future<Output = Result<()>>,
    F: Future<Output = Result<()>>,
{
    let mut latencies = Vec::with_capacity(n);
    let start = Instant::now();
    for _ in 0..n {
        prepare().await?;
        let call_start = Instant::now();
        call().await?;
        latencies.push(micros(call_start));
    }
    Ok(Leg::new(latencies, start.elapsed()))
}

impl Stores {
    async fn last_turns(&self, limit: usize) -> Result<()> {
        let status = Some(TurnStatus::Finalized);
        let query = ListTurns {
            status,
            limit,
            ..ListTurns::default()
        };
        let (turns, _) = self
            .product
            .engine
            .turns
            .list(&self.product.caller, &self.session, query)
            .await?;
        ensure!(
            turns.len() == limit,
            "{} turns instead of {limit}",
            turns.len()
        );
        black_box(turns);
        Ok(())
    }

    /// Reads the complete session, which evicts the newest pages from the cache of every connection; the kernel keeps
    /// them.
    async fn evict_newest(&self) -> Result<()> {
        for raw in &self.raw_stores {
            black_box(raw.contents(0)?);
        }
        self.all_items(self.turns * 4).await
    }

    /// Reads and parses all rows of each raw layout; adds a leg to each of `series`.
    pub(crate) async fn parse_rows(&self, series: &mut [Series]) -> Result<()> {
        for (series, raw) in series.iter_mut().zip(&self.raw_stores) {
            let call = || async {
                black_box(raw.parsed()?);
                Ok(())
            };
            series.legs.push(time_calls(3, call).await?);
        }
        Ok(())
    }

    async fn last_items(&self, limit: usize) -> Result<()> {
        let after = (self.turns * 4 - limit) as u64;
        let (items, _) = self
            .product
            .engine
            .turns
            .items(&self.product.caller, &self.session, after, limit)
            .await?;
        ensure!(
            items.len() == limit,
            "{} items instead of {limit}",
            items.len()
        );
        black_box(items);
        Ok(())
    }

    async fn all_items(&self, page: usize) -> Result<()> {
        let (mut after, mut read) = (0, 0);
        loop {
            let (items, next) = self
                .product
                .engine
                .turns
                .items(&self.product.caller, &self.session, after, page)
                .await?;
            read += items.len();
            after = items.last().map_or(after, |i| i.seq);
            black_box(items);
            if next.is_none() {
                break;
            }
        }
        ensure!(
            read == self.turns * 4,
            "{read} items of {} turns",
            self.turns
        );
        Ok(())
    }
}

async fn raw_newest(raw: &RawStore, turns: usize) -> Result<()> {
    let newest = raw.newest(turns as i64)?;
    ensure!(
        newest.headers.len() == turns && newest.contents.len() >= turns,
        "{} turns instead of {turns}",
        newest.headers.len()
    );
    black_box(newest);
    Ok(())
}

/// `last20`.
pub(crate) async fn last20(setup: &Setup) -> Result<Section> {
    let stores = write_stores(setup, setup.size(5000, 60)).await?;
    let (newest, calls) = (20_usize, setup.size(200, 5));
    let mut limits = Layout::series("");
    let mut turns = Series::new("library, last 20 finalized turns");
    let mut items = Series::new("library, last 80 items");
    let mut evicted = Series::new("raw, packed rowid, a row per turn, after reading all");
    let mut evicted_turns = Series::new("library, last 20 finalized turns, after reading all");
    for _ in 0..setup.pairs {
        for (series, raw) in limits.iter_mut().zip(&stores.raw_stores) {
            series
                .legs
                .push(time_calls(calls, || raw_newest(raw, newest)).await?);
        }
        let evict = || stores.evict_newest();
        let call = || raw_newest(&stores.raw_stores[1], newest);
        let leg = time_prepared_calls(5, evict, call).await?;
        evicted.legs.push(leg);
        let leg = time_prepared_calls(5, evict, || stores.last_turns(newest)).await?;
        evicted_turns.legs.push(leg);
        turns
            .legs
            .push(time_calls(calls, || stores.last_turns(newest)).await?);
        items
            .legs
            .push(time_calls(calls, || stores.last_items(newest * 4)).await?);
    }
    let limit = fastest(&limits)?;
    let lines = vec![
        Line::p50("last 20 turns, p50", (&turns, limit), Target::AtMost(2.0)),
        Line::p50("last 80 items, p50", (&items, limit), Target::AtMost(2.0)),
        Line::p50(
            "last 20 turns, after other pages, p50",
            (&evicted_turns, &evicted),
            Target::AtMost(2.0),
        ),
        Line::p50(
            "last 20 turns / a row per item, p50",
            (&turns, &limits[0]),
            Target::Shown,
        ),
        Line::p50(
            "last 80 items / a row per item, p50",
            (&items, &limits[0]),
            Target::Shown,
        ),
    ];
    let notes = vec![format!(
        "{} turns in one session, {calls} calls per leg, warm; limit: 20 turn headers and their contents as bytes, best layout; the product verifies what it returns; after other pages: each call follows a read of the complete session",
        stores.turns
    )];
    stores.product.close().await;
    Ok(Section {
        name: "last20",
        lines,
        series: [vec![turns, items, evicted_turns, evicted], limits].concat(),
        notes,
        ..Section::default()
    })
}

/// `readall`.
pub(crate) async fn readall(setup: &Setup) -> Result<Section> {
    let stores = write_stores(setup, setup.size(5000, 60)).await?;
    let mut limits = Layout::series(", parsed");
    let mut paged = Series::new("library, pages of 500");
    let mut one_page = Series::new("library, one page");
    for _ in 0..setup.pairs {
        stores.parse_rows(&mut limits).await?;
        paged
            .legs
            .push(time_calls(3, || stores.all_items(500)).await?);
        one_page
            .legs
            .push(time_calls(3, || stores.all_items(stores.turns * 4)).await?);
    }
    let limit = fastest(&limits)?;
    let lines = vec![
        Line::p50("pages of 500", (&paged, limit), Target::AtMost(1.5)),
        Line::p50("one page", (&one_page, limit), Target::AtMost(1.5)),
    ];
    let notes = vec![format!(
        "{} items of {} turns, each verified; limit: one thread reads the rows, parses each to serde_json::Value and keeps all",
        stores.turns * 4,
        stores.turns
    )];
    stores.product.close().await;
    Ok(Section {
        name: "readall",
        lines,
        series: [vec![paged, one_page], limits].concat(),
        notes,
        ..Section::default()
    })
}
