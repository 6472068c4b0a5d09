//! The latency of appends, with and without a projection that runs and is behind.

use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::sync::watch;
use tokio::time::sleep;

use super::fill::projector;
use super::place::Place;
use super::recorded::RecordedLedger;
use crate::Setup;
use crate::report::{Line, Section, Target, progress};
use crate::stats::{Leg, Series};

/// The greatest ratio of the 99th percentiles.
const BAR: f64 = 1.2;
/// The turns of a leg to one session, full and with `--quick`.
const TURNS_OF_ONE: (usize, usize) = (2_000, 20);
/// The turns of a leg to each of 32 sessions, full and with `--quick`.
const TURNS_EACH: (usize, usize) = (60, 4);
/// How long a projection may take until it writes its first rows.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Appends with and without a projection, alternating.
pub(super) async fn measure(
    setup: &Setup,
    ledger: &mut RecordedLedger,
    place: &Place,
    section: &mut Section,
) -> Result<()> {
    let kind = place.kind;
    for (label, sessions, turns) in [
        ("1 session", 1, TURNS_OF_ONE),
        ("32 sessions", 32, TURNS_EACH),
    ] {
        let turns = setup.size(turns.0, turns.1);
        let name = |projected: &str| format!("{kind}: appends to {label}, {projected}");
        let mut with = Series::new(name("with a projection that is behind"));
        let mut without = Series::new(name("without"));
        for pair in 0..setup.pairs {
            progress(name(&format!("pair {}", pair + 1)));
            // With and without the projection go first equally often.
            for is_projected in [pair % 2 == 0, pair % 2 == 1] {
                let new_sessions = ledger.new_sessions(sessions);
                if is_projected {
                    let leg = append_while_behind(setup, ledger, place, new_sessions, turns);
                    with.legs.push(leg.await?);
                } else {
                    without.legs.push(ledger.append(new_sessions, turns).await?);
                }
            }
        }
        let label = format!("{kind}: appends to {label}, p99 with a projection / without");
        let line = Line::p99(&label, (&with, &without), Target::AtMost(BAR));
        section.lines.push(line);
        section.series.extend([with, without]);
    }
    Ok(())
}

/// Appends while a new projection is filled from the ledger's beginning.
async fn append_while_behind(
    setup: &Setup,
    ledger: &RecordedLedger,
    place: &Place,
    new_sessions: Range<usize>,
    turns: usize,
) -> Result<Leg> {
    let projection = place.projection()?;
    let (stop, stopping) = watch::channel(false);
    let projector = projector(&ledger.product.engine, &projection)?;
    let projecting = tokio::spawn(projector.run(stopping));
    let start = Instant::now();
    while projection.counts.values().rows == 0 {
        let counts = projection.counts.values();
        ensure!(start.elapsed() < START_LIMIT, "no rows: {counts:?}");
        sleep(Duration::from_millis(5)).await;
    }
    let leg = ledger.append(new_sessions, turns).await;
    let lag = projection.counts.values().lag_commits;
    stop.send_replace(true);
    projecting.await?;
    // The ledger of a quick run is small.
    ensure!(
        setup.quick || lag > 0,
        "the projection was up to date before the appends ended: more --items are needed"
    );
    leg
}
