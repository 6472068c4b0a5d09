//! The cost of a feed for concurrent appends.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use filrouge_engine::Caller;
use filrouge_engine::Engine;
use tokio::sync::watch;

use super::ledger::Fed;
use crate::Setup;
use crate::product::Product;
use crate::report::{Line, Section, Target};
use crate::stats::{Leg, Series, micros};
use crate::workload::{Turns, requests, session};

/// The turns of a leg: to one session, and to each of 32. Enough for some seconds: a feed takes a step about once a
/// second.
const ALONE: (usize, usize) = (12_000, 20);
const EACH: (usize, usize) = (1_200, 4);

/// Turns a second with and without a running feed, alternating.
pub(super) async fn measure(
    setup: &Setup,
    name: &str,
    product: &Product,
    fed: &Fed,
    section: &mut Section,
) -> Result<()> {
    let (alone, each) = (setup.size(ALONE.0, ALONE.1), setup.size(EACH.0, EACH.1));
    let mut first = 100_000;
    for (what, sessions, turns) in [("1 session", 1, alone), ("32 sessions", 32, each)] {
        let with = Series::new(format!("{name}: appends to {what}, fed"));
        let without = Series::new(format!("{name}: appends to {what}, not fed"));
        let mut runs = [with, without];
        for pair in 0..setup.pairs.max(1) {
            // Each one goes first equally often.
            for fed_now in [pair % 2 == 0, pair % 2 == 1] {
                fed.caught_up().await?;
                let leg = if fed_now {
                    appended_while_fed(fed, &product.caller, first, sessions, turns).await?
                } else {
                    appended(&product.engine, &product.caller, first, sessions, turns).await?
                };
                first += sessions;
                let [with, without] = &mut runs;
                let run = if fed_now { with } else { without };
                run.legs.push(leg);
            }
        }
        let line = format!("{name}: appends to {what} a second, fed / not fed");
        let rate: fn(&Leg) -> f64 = |leg| leg.per_s;
        let [with, without] = runs;
        let pair = (&with, &without);
        section
            .lines
            .push(Line::series(&line, pair, rate, Target::AtLeast(0.95), "/s"));
        section.series.extend([with, without]);
    }
    Ok(())
}

/// Like [`appended`], while the feed follows.
async fn appended_while_fed(
    fed: &Fed,
    caller: &Caller,
    first: usize,
    sessions: usize,
    turns: usize,
) -> Result<Leg> {
    let (stop, stopping) = watch::channel(false);
    let feed = fed.feed.clone();
    let feeding = tokio::spawn(async move { feed.run(stopping).await });
    let leg = appended(&fed.engine, caller, first, sessions, turns).await;
    stop.send_replace(true);
    feeding.await?;
    leg
}

/// Writes turns to new sessions concurrently, each a closed loop; the first session has the number `first`.
async fn appended(
    engine: &Arc<Engine>,
    caller: &Caller,
    first: usize,
    sessions: usize,
    turns: usize,
) -> Result<Leg> {
    let mut work = Vec::new();
    for n in first..first + sessions {
        work.push((session(n)?, requests(&Turns::new(n as u64).many(turns))?));
    }
    let (mut tasks, began) = (Vec::new(), Instant::now());
    for (id, requests) in work {
        let (engine, caller) = (engine.clone(), caller.clone());
        tasks.push(tokio::spawn(async move {
            let mut took = Vec::with_capacity(requests.len());
            for request in requests {
                let call = Instant::now();
                engine.turns.start(&caller, id.clone(), request).await?;
                took.push(micros(call));
            }
            anyhow::Ok(took)
        }));
    }
    let mut took = Vec::new();
    for task in tasks {
        took.extend(task.await??);
    }
    Ok(Leg::new(took, began.elapsed()))
}
