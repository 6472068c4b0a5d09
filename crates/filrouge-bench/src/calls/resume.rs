//! Resuming a long and a short call through the library.

use std::time::Instant;

use anyhow::{Result, ensure};
use filrouge_engine::ResumeSession;
use filrouge_types::SessionId;

use super::write_session;
use crate::Setup;
use crate::product::Product;
use crate::report::{Line, Section, Target};
use crate::stats::{Leg, Series, micros};

/// The number of items in the long and in the short session.
const LONG_ITEMS: usize = 10_000;
const SHORT_ITEMS: usize = 10;

pub(super) async fn measure(
    setup: &Setup,
    product: &Product,
    name: &str,
    section: &mut Section,
) -> Result<()> {
    let sizes = [setup.size(LONG_ITEMS, 300), SHORT_ITEMS];
    let mut sessions = Vec::new();
    for size in sizes {
        let session = SessionId::new(format!("call-of-{size:05}-items"))?;
        let last_seq = write_session(product, &session, size).await?;
        ensure!(last_seq >= size as u64, "{last_seq} items of {size}");
        sessions.push((session, last_seq));
    }
    let mut series = sizes.map(|size| Series::new(format!("{name}: resume of {size} items")));
    for pair in 0..setup.pairs {
        let mut times = [Vec::new(), Vec::new()];
        let start = Instant::now();
        // Alternating, so that a disturbance affects both.
        for round in 0..setup.size(200, 5) {
            for (n, (session, last_seq)) in sessions.iter().enumerate() {
                let holder = format!("holder-{pair}-{round}");
                times[n].push(resume_once(product, session, &holder, *last_seq).await?);
            }
        }
        let wall_time = start.elapsed();
        for (series, times) in series.iter_mut().zip(times) {
            series.legs.push(Leg::new(times, wall_time));
        }
    }
    let [long, short] = &series;
    section.lines.push(Line::p50(
        &format!("{name}: resume, {} items / {SHORT_ITEMS}, p50", sizes[0]),
        (long, short),
        Target::AtMost(1.5),
    ));
    section.series.extend(series);
    Ok(())
}

/// Times one resume by a caller that knows nothing of the session: lease and event in one commit, then checkpoint and
/// tail. The lease is released afterwards, untimed.
async fn resume_once(
    product: &Product,
    session: &SessionId,
    holder: &str,
    last_seq: u64,
) -> Result<f64> {
    let (engine, caller) = (&product.engine, &product.caller);
    let request = ResumeSession {
        create: false,
        ..ResumeSession::new(holder)
    };
    let call_start = Instant::now();
    let resumed = engine.calls.resume(caller, session, request).await?;
    let duration = micros(call_start);
    ensure!(
        resumed.last_seq == last_seq && resumed.tail.is_empty(),
        "{resumed:?}"
    );
    ensure!(
        resumed.checkpoint.is_some(),
        "the resumed session has no checkpoint"
    );
    engine
        .calls
        .release(caller, session, holder, Some(resumed.fence))
        .await?;
    Ok(duration)
}
