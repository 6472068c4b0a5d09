//! A durable turn, started and finalized, with and without Redis in front.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use filrouge_engine::Caller;
use filrouge_engine::scopes::{DurablePolicy, TieredLedger};
use filrouge_engine::{Engine, FinalizeTurn, StartTurn};
use filrouge_store::hot::{HotKey, HotStore};
use filrouge_testbed::Redis;
use filrouge_types::{IdentityId, JsonText, SessionId};
use tokio::sync::Barrier;

use super::TASKS;
use crate::Setup;
use crate::product::Product;
use crate::report::{Line, Target};
use crate::stats::{Leg, Series, cpu_seconds, median, micros};
use crate::workload::{Turns, requests, session};

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
const PLAIN: usize = 0;

/// The legs with each of [`FRONTS`], by one task and by many.
pub(super) struct Measured {
    one: Vec<Series>,
    many: Vec<Series>,
    /// CPU time per turn in the legs with many tasks, of this process and Redis, µs.
    cpu: [Vec<f64>; FRONTS.len()],
}

impl Default for Measured {
    fn default() -> Self {
        let series = |sessions: &str| {
            let named = |what: &str| Series::new(format!("{what}, {sessions}"));
            FRONTS.iter().map(|(_, what)| named(what)).collect()
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

/// How the legs were measured.
pub(super) fn notes(setup: &Setup) -> Vec<String> {
    let (one, many) = sizes(setup);
    vec![format!(
        "durable turns: two calls each, as an identity; {one} turns of one session, {many} of each of {TASKS}, each leg into a fresh store; the copies are checked after each leg"
    )]
}

/// Starts a turn and finalizes it.
async fn write_turn(
    engine: &Engine,
    caller: &Caller,
    id: &SessionId,
    request: StartTurn,
) -> Result<()> {
    let request_id = request.request_id.clone();
    let answer = request.answer_neutral.clone();
    let open = StartTurn {
        answer_neutral: None,
        ..request
    };
    let turn = engine.turns.start(caller, id.clone(), open).await?;
    let close = FinalizeTurn {
        request_id: Some(request_id),
        answer_neutral: answer.or_else(|| Some(JsonText::from_plain("none"))),
        ..FinalizeTurn::default()
    };
    engine
        .turns
        .finalize(caller, id.clone(), turn.turn_id, close)
        .await?;
    Ok(())
}

/// Writes turns to many sessions concurrently, as one leg.
async fn write_sessions(
    product: &Product,
    caller: &Caller,
    sessions: usize,
    turns: usize,
) -> Result<Leg> {
    let barrier = Arc::new(Barrier::new(sessions + 1));
    let mut tasks = Vec::new();
    for n in 0..sessions {
        let (engine, caller, barrier) = (product.engine.clone(), caller.clone(), barrier.clone());
        let (id, requests) = (session(n)?, requests(&Turns::new(n as u64).many(turns))?);
        tasks.push(tokio::spawn(async move {
            barrier.wait().await;
            let mut latencies = Vec::with_capacity(requests.len());
            for request in requests {
                let call = Instant::now();
                write_turn(&engine, &caller, &id, request).await?;
                latencies.push(micros(call));
            }
            Ok::<_, anyhow::Error>(latencies)
        }));
    }
    barrier.wait().await;
    let start = Instant::now();
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await??);
    }
    Ok(Leg::new(latencies, start.elapsed()))
}

/// Checks that every session has a complete copy in the hot store.
async fn check_copies(
    (product, tiered): (&Product, &TieredLedger),
    hot: &dyn HotStore,
    sessions: usize,
    turns: usize,
) -> Result<()> {
    tiered.settle().await;
    let tenant = product.caller.tenant();
    for n in 0..sessions {
        let key = HotKey::new(product.ledger.store_id(), tenant, &session(n)?);
        let held = hot.recent(&key, turns).await?.map(|r| r.turns.len() as u64);
        let expected = (turns as u64).min(hot.bounds().turns);
        ensure!(
            held == Some(expected),
            "a copy has {held:?} turns instead of {expected}"
        );
    }
    Ok(())
}

/// Runs one leg; returns also the CPU time per turn.
async fn leg(
    setup: &Setup,
    redis: &Redis,
    front: Option<DurablePolicy>,
    sessions: usize,
    turns: usize,
) -> Result<(Leg, f64)> {
    let dir = setup.dir()?;
    let hot = super::open(&redis.url(), Duration::from_secs(60))?;
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
    let leg = write_sessions(&product, &caller, sessions, turns).await?;
    if let Some(tiered) = &tiered {
        check_copies((&product, tiered), hot.as_ref(), sessions, turns).await?;
    }
    let cpu = cpu_micros(redis)? - before;
    product.close().await;
    Ok((leg, cpu / (sessions * turns) as f64))
}

/// The CPU time that this process and Redis have used so far, µs.
fn cpu_micros(redis: &Redis) -> Result<f64> {
    let own = cpu_seconds(std::process::id())?;
    let info = redis.cli(&["INFO", "cpu"]);
    let used = info
        .lines()
        .filter(|l| l.starts_with("used_cpu_sys:") || l.starts_with("used_cpu_user:"))
        .filter_map(|l| l.split(':').nth(1));
    let theirs: f64 = used
        .map(|n| n.trim().parse::<f64>())
        .sum::<Result<_, _>>()?;
    Ok((own + theirs) * 1e6)
}

impl Measured {
    /// Runs one leg with each of [`FRONTS`], starting with another one in each pair.
    pub(super) async fn pair(&mut self, setup: &Setup, redis: &Redis, pair: usize) -> Result<()> {
        let (one, many) = sizes(setup);
        for n in 0..FRONTS.len() {
            let n = (n + pair) % FRONTS.len();
            let front = FRONTS[n].0;
            let (leg_of_one, _) = leg(setup, redis, front, 1, one).await?;
            self.one[n].legs.push(leg_of_one);
            let (leg_of_many, cpu) = leg(setup, redis, front, TASKS, many).await?;
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
            lines.push(Line::series(
                &format!("a durable turn with Redis, {policy}, 1 session, p50"),
                (&self.one[n], &self.one[PLAIN]),
                |l| l.p50,
                Target::AtMost(1.15),
                "µs",
            ));
            lines.push(Line::series(
                &format!("durable turns a second with Redis, {policy}, 32 sessions"),
                (&self.many[n], &self.many[PLAIN]),
                |l| l.per_s,
                Target::AtLeast(1.0 / 1.15),
                "/s",
            ));
            let shown = |n: usize| format!("{:.0} µs", median(self.cpu[n].iter().copied()));
            lines.push(Line::pairs(
                &format!("CPU time of such a turn, {policy}, Redis included"),
                &self.cpu[n],
                &self.cpu[PLAIN],
                Target::Shown,
                (shown(n), shown(PLAIN)),
            ));
        }
        lines
    }

    pub(super) fn series(&self) -> Vec<Series> {
        [self.one.clone(), self.many.clone()].concat()
    }
}
