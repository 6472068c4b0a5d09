//! `open`: the time to open a store of many sessions.

use std::time::Instant;

use anyhow::Result;
use filrouge_engine::CreateSession;
use filrouge_types::SessionId;
use tokio::task::JoinSet;

use crate::Setup;
use crate::postgres::server::DurableServer;
use crate::product::Product;
use crate::report::{Line, Section, Target};
use crate::stats::{Leg, Series, micros};

/// The number of sessions.
const SESSIONS: usize = 100_000;
/// The number of callers that create them.
const CALLERS: usize = 64;

/// Creates sessions without turns.
async fn create_sessions(product: &Product, sessions: usize) -> Result<()> {
    let mut tasks = JoinSet::new();
    for first in 0..CALLERS {
        let (engine, caller) = (product.engine.clone(), product.caller.clone());
        tasks.spawn(async move {
            for n in (first..sessions).step_by(CALLERS) {
                let new = CreateSession {
                    session_id: Some(SessionId::new(format!("opened-{n:06}"))?),
                    ..CreateSession::default()
                };
                engine.sessions.create(&caller, new).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(result) = tasks.join_next().await {
        result??;
    }
    Ok(())
}

/// Opens a store, and closes it; only the opening is timed.
async fn time_open(open: impl Future<Output = Result<Product>>) -> Result<Leg> {
    let start = Instant::now();
    let product = open.await?;
    let (duration, wall_time) = (micros(start), start.elapsed());
    product.close().await;
    Ok(Leg::new(vec![duration], wall_time))
}

/// `open`.
pub(crate) async fn open(setup: &Setup) -> Result<Section> {
    let sessions = setup.size(SESSIONS, 200);
    let sqlite_dir = setup.dir()?;
    let product = Product::open(sqlite_dir.path(), true).await?;
    create_sessions(&product, sessions).await?;
    product.close().await;
    let server = DurableServer::start(setup).await?;
    let store = server.store();
    let (url, postgres_dir) = (store.url(), store.anchor_dir()?);
    let product = Product::open_postgres(&url, postgres_dir.path()).await?;
    create_sessions(&product, sessions).await?;
    product.close().await;
    let mut sqlite = Series::new("SQLite: open a store");
    let mut postgres = Series::new("PostgreSQL: open a store");
    for _ in 0..setup.pairs {
        let opening = Product::open(sqlite_dir.path(), true);
        sqlite.legs.push(time_open(opening).await?);
        let opening = Product::open_postgres(&url, postgres_dir.path());
        postgres.legs.push(time_open(opening).await?);
    }
    let line = |series: &Series| {
        let millis = series.median(|l| l.p50) / 1e3;
        let label = format!("{} of {sessions} sessions, ms", series.name);
        Line::of_builds(
            &label,
            millis,
            Target::AtMost(1.2),
            format!("{millis:.0} ms"),
        )
    };
    Ok(Section {
        name: "open",
        lines: vec![line(&sqlite), line(&postgres)],
        series: vec![sqlite, postgres],
        notes: vec![
            "a store that a process has closed, in the cache, with an anchor; the sessions have no turns".to_owned(),
        ],
        ..Section::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn both_stores_are_opened_again() {
        let setup = Setup::quick();
        let section = open(&setup).await.unwrap();
        assert_eq!(section.lines.len(), 2);
        assert!(section.lines.iter().all(|line| line.ratio > 0.0));
    }
}
