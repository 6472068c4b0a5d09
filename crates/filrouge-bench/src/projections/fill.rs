//! Items projected a second, from an existing ledger into an empty target.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use filrouge_engine::Engine;
use filrouge_projections::{Projection, Projector};
use filrouge_store::OsEntropy;
use filrouge_types::SystemClock;
use tokio::time::sleep;

use super::place::Place;
use super::recorded::RecordedLedger;
use crate::report::{Line, Section, Target, progress};

/// The least items a second.
const BAR: f64 = 2_000.0;
/// How often the progress is shown.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// A projector of the engine's ledger.
pub(super) fn projector(engine: &Arc<Engine>, projection: &Arc<Projection>) -> Result<Projector> {
    let (clock, entropy) = (Arc::new(SystemClock), Arc::new(OsEntropy));
    let projector = Projector::new(projection.clone(), engine.clone(), clock, entropy);
    Ok(projector?)
}

/// Fills a new projection from the ledger's beginning; returns it.
pub(super) async fn measure(
    ledger: &RecordedLedger,
    place: &Place,
    section: &mut Section,
) -> Result<Arc<Projection>> {
    let (kind, projection) = (place.kind, place.projection()?);
    let start = Instant::now();
    let mut filling =
        pin!(projector(&ledger.product.engine, &projection)?.catch_up(Duration::ZERO));
    let reason = loop {
        tokio::select! {
            reason = &mut filling => break reason?,
            () = sleep(PROGRESS_EVERY) => {
                progress(format_args!("{kind}: {} rows", projection.counts.values().rows));
            }
        }
    };
    let seconds = start.elapsed().as_secs_f64();
    if let Some(reason) = reason {
        bail!("{kind}: {reason}");
    }
    let counts = projection.counts.values();
    let refused = counts.refused + counts.dead_letters;
    ensure!(refused == 0, "{kind}: {refused} sessions were refused");
    let items = ledger.items();
    section.lines.push(Line::number(
        &format!("{kind}: items projected a second"),
        items as f64 / seconds,
        Target::AtLeast(BAR),
        format!("{items} items as {} rows in {seconds:.1} s", counts.rows),
    ));
    Ok(projection)
}
