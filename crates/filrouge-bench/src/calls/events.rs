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

/// The number of events in the week.
const EVENTS: usize = 100_000;
/// The number of events in one call.
const EVENTS_PER_CALL: usize = 10;
/// The number of calls whose events are written concurrently.
const CONCURRENT_CALLS: usize = 64;
/// The microseconds within which the calls begin: less than a week, so that the figures of a week include all of them.
const SPAN_MICROS: i64 = 6 * 86_400 * 1_000_000;

pub(super) async fn measure(
    setup: &Setup,
    product: &Product,
    name: &str,
    section: &mut Section,
) -> Result<()> {
    let calls = setup.size(EVENTS, 200) / EVENTS_PER_CALL;
    let start = Instant::now();
    let caller = Caller::operator(product.caller.tenant().clone());
    let now = SystemClock.now().as_micros();
    let permits = Arc::new(Semaphore::new(CONCURRENT_CALLS));
    let mut tasks = tokio::task::JoinSet::new();
    for call in 0..calls {
        let (engine, caller) = (product.engine.clone(), caller.clone());
        let permit = permits.clone().acquire_owned().await?;
        // Ten calls overlap at any time, as on a busy day.
        let interval = SPAN_MICROS / calls as i64;
        let begin = now - SPAN_MICROS + interval * call as i64;
        tasks.spawn(async move {
            let _permit = permit;
            write_call(&engine, &caller, call, begin, interval).await
        });
    }
    while let Some(result) = tasks.join_next().await {
        result??;
    }
    let written_in = start.elapsed();
    let mut series = Series::new(format!(
        "{name}: technical-status of {} events",
        calls * EVENTS_PER_CALL
    ));
    for _ in 0..setup.pairs {
        let call_start = Instant::now();
        let status = product.engine.events.technical_status(&caller).await?;
        let duration = micros(call_start);
        ensure!(status.figures.calls == calls as u64, "{status:?}");
        series
            .legs
            .push(Leg::new(vec![duration], call_start.elapsed()));
    }
    let duration = series.median(|l| l.p50);
    section.lines.push(Line::number(
        &format!("{name}: technical-status, µs per event"),
        duration / (calls * EVENTS_PER_CALL) as f64,
        Target::Shown,
        format!("{:.0} ms for {}", duration / 1e3, calls * EVENTS_PER_CALL),
    ));
    section.notes.push(format!(
        "{name}: {calls} calls of {EVENTS_PER_CALL} events each, written in {:.1} s by {CONCURRENT_CALLS} callers",
        written_in.as_secs_f64()
    ));
    section.series.push(series);
    Ok(())
}

/// Writes the events of one call, `interval` microseconds apart.
async fn write_call(
    engine: &filrouge_engine::Engine,
    caller: &Caller,
    call: usize,
    begin: i64,
    interval: i64,
) -> Result<()> {
    let session = SessionId::new(format!("counted-{call:06}"))?;
    let new = CreateSession {
        session_id: Some(session.clone()),
        ..CreateSession::default()
    };
    engine.sessions.create(caller, new).await?;
    for n in 0..EVENTS_PER_CALL {
        let kind = match n {
            0 => "call_started",
            1 => "resume_from_pg",
            _ if n == EVENTS_PER_CALL - 1 => "call_ended",
            _ => "step",
        };
        let event = RecordEvent {
            key: EventKey::new(format!("event-{n}"))?,
            kind: kind.into(),
            at: Some(Timestamp::from_micros(begin + interval * n as i64)),
            detail: None,
        };
        engine.events.record(caller, session.clone(), event).await?;
    }
    Ok(())
}
