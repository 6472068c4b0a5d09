//! `last20` and `readall`: one session of many turns, read from warm caches.

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Result, ensure};
use filrouge_engine::ListTurns;
use filrouge_types::{SessionId, TurnStatus};
use tempfile::TempDir;

use crate::Setup;
use crate::product::Product;
use crate::raw::{LAYOUTS, RawStore, RawTurn};
use crate::report::{Line, Section, Target, load_average};
use crate::stats::{Leg, Series, micros};
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
    let mut latencies = Vec::with_capacity(n);
    let start = Instant::now();
    for _ in 0..n {
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

/// Times `n` calls, each after the newest pages were evicted.
async fn time_calls_after_eviction<F: Future<Output = Result<()>>>(
    stores: &Stores,
    n: usize,
    call: impl Fn() -> F,
) -> Result<Leg> {
    let mut latencies = Vec::with_capacity(n);
    let start = Instant::now();
    for _ in 0..n {
        stores.evict_newest().await?;
        let call_start = Instant::now();
        call().await?;
        latencies.push(micros(call_start));
    }
    Ok(Leg::new(latencies, start.elapsed()))
}

/// `last20`.
pub(crate) async fn last20(setup: &Setup) -> Result<Section> {
    let before = load_average();
    let stores = write_stores(setup, setup.size(5000, 60)).await?;
    let (newest, calls) = (20_usize, setup.size(200, 5));
    let mut limits: Vec<Series> = LAYOUTS.iter().map(|l| Series::new(l.name())).collect();
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
        evicted.legs.push(
            time_calls_after_eviction(&stores, 5, || raw_newest(&stores.raw_stores[1], newest))
                .await?,
        );
        evicted_turns
            .legs
            .push(time_calls_after_eviction(&stores, 5, || stores.last_turns(newest)).await?);
        turns
            .legs
            .push(time_calls(calls, || stores.last_turns(newest)).await?);
        items
            .legs
            .push(time_calls(calls, || stores.last_items(newest * 4)).await?);
    }
    let limit = limits
        .iter()
        .min_by(|a, b| a.median(|l| l.p50).total_cmp(&b.median(|l| l.p50)))
        .unwrap_or(&limits[0]);
    let lines = vec![
        Line::series(
            "last 20 turns, p50",
            (&turns, limit),
            |l| l.p50,
            Target::AtMost(2.0),
            "µs",
        ),
        Line::series(
            "last 80 items, p50",
            (&items, limit),
            |l| l.p50,
            Target::AtMost(2.0),
            "µs",
        ),
        Line::series(
            "last 20 turns, after other pages, p50",
            (&evicted_turns, &evicted),
            |l| l.p50,
            Target::AtMost(2.0),
            "µs",
        ),
        Line::series(
            "last 20 turns / a row per item, p50",
            (&turns, &limits[0]),
            |l| l.p50,
            Target::Shown,
            "µs",
        ),
        Line::series(
            "last 80 items / a row per item, p50",
            (&items, &limits[0]),
            |l| l.p50,
            Target::Shown,
            "µs",
        ),
    ];
    let notes = vec![format!(
        "{} turns in one session, {calls} calls per leg, warm; limit: 20 turn headers and their contents as bytes, best layout; the product verifies what it returns; after other pages: each call follows a read of the complete session",
        stores.turns
    )];
    let load = (before, load_average());
    stores.product.close().await;
    Ok(Section {
        name: "last20",
        lines,
        series: [vec![turns, items, evicted_turns, evicted], limits].concat(),
        notes,
        load,
    })
}

/// `readall`.
pub(crate) async fn readall(setup: &Setup) -> Result<Section> {
    let before = load_average();
    let stores = write_stores(setup, setup.size(5000, 60)).await?;
    let mut limits: Vec<Series> = LAYOUTS
        .iter()
        .map(|l| Series::new(format!("{}, parsed", l.name())))
        .collect();
    let mut paged = Series::new("library, pages of 500");
    let mut one_page = Series::new("library, one page");
    for _ in 0..setup.pairs {
        for (series, raw) in limits.iter_mut().zip(&stores.raw_stores) {
            let call = || async {
                black_box(raw.parsed()?);
                Ok(())
            };
            series.legs.push(time_calls(3, call).await?);
        }
        paged
            .legs
            .push(time_calls(3, || stores.all_items(500)).await?);
        one_page
            .legs
            .push(time_calls(3, || stores.all_items(stores.turns * 4)).await?);
    }
    let limit = limits
        .iter()
        .min_by(|a, b| a.median(|l| l.p50).total_cmp(&b.median(|l| l.p50)))
        .unwrap_or(&limits[0]);
    let lines = vec![
        Line::series(
            "pages of 500",
            (&paged, limit),
            |l| l.p50,
            Target::AtMost(1.5),
            "µs",
        ),
        Line::series(
            "one page",
            (&one_page, limit),
            |l| l.p50,
            Target::AtMost(1.5),
            "µs",
        ),
    ];
    let notes = vec![format!(
        "{} items of {} turns, each verified; limit: one thread reads the rows, parses each to serde_json::Value and keeps all",
        stores.turns * 4,
        stores.turns
    )];
    let load = (before, load_average());
    stores.product.close().await;
    Ok(Section {
        name: "readall",
        lines,
        series: [vec![paged, one_page], limits].concat(),
        notes,
        load,
    })
}
