//! A durable turn, started and finalized, with and without Redis in front.

use std::time::Duration;

use anyhow::{Result, ensure};
use filrouge_engine::Caller;
use filrouge_engine::scopes::{DurablePolicy, TieredLedger};
use filrouge_store::hot::{HotKey, HotStore};
use filrouge_testbed::Redis;
use filrouge_types::IdentityId;

use super::TASKS;
use crate::Setup;
use crate::product::Product;
use crate::report::{Line, Target};
use crate::sessions::{self, CallsPerTurn};
use crate::stats::{Leg, Series, cpu_seconds, median};
use crate::workload::session_id;

/// The hot stores in front of SQLite.
const FRONTS: [(Option<DurablePolicy>, &str); 3] = [
    (None, "SQLite"),
    (Some(DurablePolicy::All), "Redis in front, durable = all"),
    (
        Some(DurablePolicy::Authenticated),
        "Redis in front, durable = authenticated",
    ),
];
/// The position of SQLite alone in `FRONTS`.
const SQLITE_ALONE: usize = 0;

/// The legs with each of [`FRONTS`], by one task and by many.
pub(super) struct DurableSeries {
    one: Vec<Series>,
    many: Vec<Series>,
    /// CPU time per turn in the legs with many tasks, of this process and Redis, µs.
    cpu: [Vec<f64>; FRONTS.len()],
}

impl Default for DurableSeries {
    fn default() -> Self {
        let series = |sessions: &str| {
            let named = |label: &str| Series::new(format!("{label}, {sessions}"));
            FRONTS.iter().map(|(_, label)| named(label)).collect()
        };
        Self {
            one: series("1 session"),
            many: series("32 sessions"),
            cpu: Default::default(),
        }
    }
}

/// The number of turns in a leg: of a single session, and of each of many.
fn sizes(setup: &Setup) -> (usize, usize) {
    (setup.size(1000, 10), setup.size(125, 3))
}

/// The notes on the measurement.
pub(super) fn notes(setup: &Setup) -> Vec<String> {
    let (one, many) = sizes(setup);
    vec![format!(
        "durable turns: two calls each, as an identity; {one} turns of one session, {many} of each of {TASKS}, each leg into a fresh store; the copies are checked after each leg"
    )]
}

/// Checks that every session has a complete copy in the hot store.
async fn check_copies(
    (product, tiered): (&Product, &TieredLedger),
    hot: &dyn HotStore,
    sessions: usize,
    turns: usize,
) -> Result<()> {
    tiered.flush().await;
    let tenant = product.caller.tenant();
    for n in 0..sessions {
        let key = HotKey::new(product.ledger.store_id(), tenant, &session_id(n)?);
        let copied_turns = hot.recent(&key, turns).await?.map(|r| r.turns.len() as u64);
        let expected = (turns as u64).min(hot.bounds().turns);
        ensure!(
            copied_turns == Some(expected),
            "a copy has {copied_turns:?} turns instead of {expected}"
        );
    }
    Ok(())
}

/// Runs one leg; returns also the CPU time per turn.
async fn run_leg(
    setup: &Setup,
    redis: &Redis,
    front: Option<DurablePolicy>,
    sessions: usize,
    turns: usize,
) -> Result<(Leg, f64)> {
    let dir = setup.dir()?;
    let hot = super::open_hot_store(&redis.url(), Duration::from_secs(60))?;
    let (product, tiered) = match front {
        None => (Product::open(dir.path(), true).await?, None),
        Some(durable) => {
            let (product, tiered) = Product::open_tiered(dir.path(), hot.clone(), durable).await?;
            (product, Some(tiered))
        }
    };
    let ann = Some(IdentityId::new("ann")?);
    let caller = Caller::local(product.caller.tenant().clone(), ann);
    let before = cpu_micros(redis)?;
    let writer = (&product.engine, &caller);
    let leg = sessions::write(&[writer], 0..sessions, turns, CallsPerTurn::Two).await?;
    if let Some(tiered) = &tiered {
        check_copies((&product, tiered), hot.as_ref(), sessions, turns).await?;
    }
    let cpu = cpu_micros(redis)? - before;
    product.close().await;
    Ok((leg, cpu / (sessions * turns) as f64))
}

/// The CPU time that this process and Redis have used so far, µs.
fn cpu_micros(redis: &Redis) -> Result<f64> {
    let own_seconds = cpu_seconds(std::process::id())?;
    let info = redis.cli(&["INFO", "cpu"]);
    let used = info
        .lines()
        .filter(|l| l.starts_with("used_cpu_sys:") || l.starts_with("used_cpu_user:"))
        .filter_map(|l| l.split(':').nth(1));
    let redis_seconds: f64 = used
        .map(|n| n.trim().parse::<f64>())
        .sum::<Result<_, _>>()?;
    Ok((own_seconds + redis_seconds) * 1e6)
}

impl DurableSeries {
    /// Runs one leg with each of [`FRONTS`], starting with another one in each pair.
    pub(super) async fn run_pair(
        &mut self,
        setup: &Setup,
        redis: &Redis,
        pair: usize,
    ) -> Result<()> {
        let (one, many) = sizes(setup);
        for n in 0..FRONTS.len() {
            let n = (n + pair) % FRONTS.len();
            let front = FRONTS[n].0;
            let (leg_of_one, _) = run_leg(setup, redis, front, 1, one).await?;
            self.one[n].legs.push(leg_of_one);
            let (leg_of_many, cpu) = run_leg(setup, redis, front, TASKS, many).await?;
            self.many[n].legs.push(leg_of_many);
            self.cpu[n].push(cpu);
        }
        Ok(())
    }

    pub(super) fn lines(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        for (n, (front, _)) in FRONTS.iter().enumerate() {
            let Some(policy) = front else {
                continue;
            };
            lines.push(Line::p50(
                &format!("a durable turn with Redis, {policy}, 1 session, p50"),
                (&self.one[n], &self.one[SQLITE_ALONE]),
                Target::AtMost(1.15),
            ));
            lines.push(Line::rate(
                &format!("durable turns a second with Redis, {policy}, 32 sessions"),
                (&self.many[n], &self.many[SQLITE_ALONE]),
                Target::AtLeast(1.0 / 1.15),
            ));
            let shown = |n: usize| format!("{:.0} µs", median(self.cpu[n].iter().copied()));
            lines.push(Line::pairs(
                &format!("CPU time of such a turn, {policy}, Redis included"),
                &self.cpu[n],
                &self.cpu[SQLITE_ALONE],
                Target::Shown,
                (shown(n), shown(SQLITE_ALONE)),
            ));
        }
        lines
    }

    pub(super) fn series(&self) -> Vec<Series> {
        [self.one.clone(), self.many.clone()].concat()
    }
}
