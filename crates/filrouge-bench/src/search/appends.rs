//! The cost of a running feed for concurrent appends.

use std::ops::Range;

use anyhow::Result;
use tokio::sync::watch;

use super::ledger::IndexedEngine;
use crate::Setup;
use crate::product::Product;
use crate::report::{Line, Section, Target, progress};
use crate::sessions::{self, CallsPerTurn, Writer};
use crate::stats::{Leg, Series};

/// The turns of a leg to one session, full and with `--quick`: enough for some seconds, because a feed takes a step
/// about once a second.
const TURNS_OF_ONE: (usize, usize) = (12_000, 20);
/// The turns of a leg to each of 32 sessions, full and with `--quick`.
const TURNS_EACH: (usize, usize) = (1_200, 4);

/// Turns a second to a store with a running feed and to one without, alternating.
pub(super) async fn measure(
    setup: &Setup,
    name: &str,
    [fed, unfed]: [&Product; 2],
    indexed: &IndexedEngine,
    section: &mut Section,
) -> Result<()> {
    let turns_of_one = setup.size(TURNS_OF_ONE.0, TURNS_OF_ONE.1);
    let turns_each = setup.size(TURNS_EACH.0, TURNS_EACH.1);
    let mut first = 100_000;
    for (label, sessions, turns) in [
        ("1 session", 1, turns_of_one),
        ("32 sessions", 32, turns_each),
    ] {
        let with = Series::new(format!("{name}: appends to {label}, with a feed"));
        let without = Series::new(format!("{name}: appends to {label}, without a feed"));
        let mut both_series = [with, without];
        for pair in 0..setup.pairs.max(1) {
            // With and without the feed go first equally often.
            progress(format_args!(
                "{name}: appends to {label}, pair {}",
                pair + 1
            ));
            for is_fed in [pair % 2 == 0, pair % 2 == 1] {
                let new_sessions = first..first + sessions;
                let leg = if is_fed {
                    indexed.catch_up().await?;
                    let writer = (&indexed.engine, &fed.caller);
                    append_while_fed(indexed, writer, new_sessions, turns).await?
                } else {
                    append(unfed.writer(), new_sessions, turns).await?
                };
                first += sessions;
                let [with, without] = &mut both_series;
                let series = if is_fed { with } else { without };
                series.legs.push(leg);
            }
        }
        let line = format!("{name}: appends to {label} a second, with / without a feed");
        let [with, without] = both_series;
        let pair = (&with, &without);
        section
            .lines
            .push(Line::rate(&line, pair, Target::AtLeast(0.95)));
        section.series.extend([with, without]);
    }
    Ok(())
}

/// Like [`append`], while the feed runs.
async fn append_while_fed(
    indexed: &IndexedEngine,
    writer: Writer<'_>,
    new_sessions: Range<usize>,
    turns: usize,
) -> Result<Leg> {
    let (stop, stopping) = watch::channel(false);
    let feed = indexed.feed.clone();
    let feeding = tokio::spawn(async move { feed.run(stopping).await });
    let leg = append(writer, new_sessions, turns).await;
    stop.send_replace(true);
    feeding.await?;
    leg
}

/// Writes turns to new sessions concurrently.
async fn append(writer: Writer<'_>, new_sessions: Range<usize>, turns: usize) -> Result<Leg> {
    sessions::write(&[writer], new_sessions, turns, CallsPerTurn::One).await
}
