//! `hot`: Redis in front of SQLite. The newest 20 turns compared with a plain LRANGE of them, durable turns with and
//! without Redis, and memory while anonymous sessions come and go.

mod durable;
mod growth;
mod newest;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use filrouge_redis::{Options, RedisHot};
use filrouge_store::hot::HotBounds;
use filrouge_testbed::Redis;

use crate::Setup;
use crate::report::Section;

pub(crate) use growth::child as growth_child;

/// Default number of turns of anonymous sessions.
pub(crate) const TURNS: u64 = 150_000;
/// The number of concurrent sessions.
const TASKS: usize = 32;

/// A part of the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// The newest 20 turns, compared with LRANGE
    Newest,
    /// Durable turns with Redis and without
    Durable,
    /// Anonymous sessions, and memory
    Memory,
}

/// A hot store configured as in `serve`, except for the lifetime of its keys.
fn open_hot_store(url: &str, ttl: Duration) -> Result<Arc<RedisHot>> {
    let bounds = HotBounds {
        ttl,
        ..HotBounds::default()
    };
    let options = Options {
        bounds,
        ..Options::new(url)
    };
    Ok(Arc::new(RedisHot::open(&options)?))
}

/// Runs `hot`, or only `part`.
pub(crate) async fn hot(setup: &Setup, turns: u64, part: Option<Part>) -> Result<Section> {
    let redis = tokio::task::spawn_blocking(Redis::start).await?;
    let is_selected = |candidate: Part| part.is_none_or(|part| part == candidate);
    let mut newest = newest::NewestSeries::default();
    let mut durable = durable::DurableSeries::default();
    let copies = newest::Copies::write(setup, &redis).await?;
    for pair in 0..setup.pairs {
        if is_selected(Part::Newest) {
            copies.run_pair(setup, &mut newest).await?;
        }
        if is_selected(Part::Durable) {
            durable.run_pair(setup, &redis, pair).await?;
        }
    }
    let mut section = Section::new("hot");
    if is_selected(Part::Newest) {
        section.lines.extend(newest.lines());
        section.series.extend(newest.series());
        section.notes.extend(copies.notes());
    }
    copies.close().await;
    if is_selected(Part::Durable) {
        section.lines.extend(durable.lines());
        section.series.extend(durable.series());
        section.notes.extend(durable::notes(setup));
    }
    if is_selected(Part::Memory) {
        redis.cli(&["FLUSHALL"]);
        let growth = growth::measure(setup, &redis, turns)?;
        section.lines.extend(growth.lines());
        section.notes.extend(growth.notes());
    }
    Ok(section)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn every_leg_has_results() {
        let setup = Setup::quick();
        let redis = tokio::task::spawn_blocking(Redis::start).await.unwrap();
        let copies = newest::Copies::write(&setup, &redis).await.unwrap();
        let (mut newest, mut durable) = Default::default();
        copies.run_pair(&setup, &mut newest).await.unwrap();
        durable::DurableSeries::run_pair(&mut durable, &setup, &redis, 0)
            .await
            .unwrap();
        copies.close().await;
        for series in [newest.series(), durable.series()].concat() {
            let [leg] = series.legs.as_slice() else {
                panic!("{series:?}")
            };
            assert!(leg.per_s > 0.0 && leg.p50 > 0.0, "{series:?}");
        }
        for line in [newest.lines(), durable.lines()].concat() {
            assert!(line.ratio > 0.0, "{line:?}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn memory_is_measured_while_anonymous_sessions_expire() {
        let redis = tokio::task::spawn_blocking(Redis::start).await.unwrap();
        // One session of 20 turns for each of the 32 tasks.
        let growth = growth_child(&Setup::quick(), &redis.url(), 640)
            .await
            .unwrap();
        assert_eq!(growth.marks.len(), 10);
        assert!(growth.marks.iter().all(|mark| mark.redis_bytes > 0));
        assert!(growth.lines().iter().all(|line| line.ratio > 0.0));
    }
}
