//! Key figures of a week of many events.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use filrouge_engine::Caller;
use filrouge_engine::{CreateSession, RecordEvent};
use filrouge_types::{Clock, EventKey, SessionId, SystemClock, Timestamp};
use tokio::sync::Semaphore;

use crate::Setup;
use crate::product::Product;
use crate::report::{Line, Section, Target};
use crate::stats::{Leg, Series, micros};

/// The number of events in the week, and in one call.
const EVENTS: usize = 100_000;
const OF_A_CALL: usize = 10;
/// The number of calls whose events are written concurrently.
const AT_ONCE: usize = 64;
/// The calls begin within this many microseconds: less than a week, so that all are in the window.
const SPAN: i64 = 6 * 86_400 * 1_000_000;

pub(super) async fn measure(
    setup: &Setup,
    product: &Product,
    name: &str,
    section: &mut Section,
) -> Result<()> {
    let calls = setup.size(EVENTS, 200) / OF_A_CALL;
    let begun = Instant::now();
    let caller = Caller::operator(product.caller.tenant().clone());
    let now = SystemClock.now().as_micros();
    let room = Arc::new(Semaphore::new(AT_ONCE));
    let mut tasks = tokio::task::JoinSet::new();
    for call in 0..calls {
        let (engine, caller) = (product.engine.clone(), caller.clone());
        let permit = room.clone().acquire_owned().await?;
        // Ten calls overlap at any time, as on a busy day.
        let begins = now - SPAN + SPAN / calls as i64 * call as i64;
        tasks.spawn(async move {
            let _permit = permit;
            write_event(&engine, &caller, call, begins, SPAN / calls as i64).await
        });
    }
    while let Some(reported) = tasks.join_next().await {
        reported??;
    }
    let filled = begun.elapsed();
    let mut series = Series::new(format!(
        "{name}: technical-status of {} events",
        calls * OF_A_CALL
    ));
    for _ in 0..setup.pairs {
        let call = Instant::now();
        let status = product.engine.events.technical_status(&caller).await?;
        let took = micros(call);
        ensure!(status.figures.calls == calls as u64, "{status:?}");
        series.legs.push(Leg::new(vec![took], call.elapsed()));
    }
    let took = series.median(|l| l.p50);
    section.lines.push(Line::number(
        &format!("{name}: technical-status, µs an event"),
        took / (calls * OF_A_CALL) as f64,
        Target::Shown,
        format!("{:.0} ms for {}", took / 1e3, calls * OF_A_CALL),
    ));
    section.notes.push(format!(
        "{name}: {calls} calls of {OF_A_CALL} events each, written in {:.1} s by {AT_ONCE} callers",
        filled.as_secs_f64()
    ));
    section.series.push(series);
    Ok(())
}

async fn write_event(
    engine: &filrouge_engine::Engine,
    caller: &Caller,
    call: usize,
    begins: i64,
    apart: i64,
) -> Result<()> {
    let session = SessionId::new(format!("counted-{call:06}"))?;
    let new = CreateSession {
        session_id: Some(session.clone()),
        ..CreateSession::default()
    };
    engine.sessions.create(caller, new).await?;
    for n in 0..OF_A_CALL {
        let kind = match n {
            0 => "call_started",
            1 => "resume_from_pg",
            _ if n == OF_A_CALL - 1 => "call_ended",
            _ => "step",
        };
        let event = RecordEvent {
            key: EventKey::new(format!("event-{n}"))?,
            kind: kind.into(),
            at: Some(Timestamp::from_micros(begins + apart * n as i64)),
            detail: None,
        };
        engine.events.record(caller, session.clone(), event).await?;
    }
    Ok(())
}
