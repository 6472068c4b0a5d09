//! Restores a session as a provider's context in one call, and logs it (DESIGN §5).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use filrouge_engine::Caller;
use filrouge_engine::Engine;
use filrouge_engine::restore::RestoreQuery;
use filrouge_types::{Failure, SessionId};

use crate::format::Format;
use crate::render::{Context, render};

/// Restores a session's context in `format`. Logs `[RESTORE][LOAD]` with the number of kept items, the numbers of
/// left-out items by reason, and the times of reading and rendering. The log contains no content.
///
/// # Errors
/// Those of [`filrouge_engine::Context::restore`].
pub async fn restore(
    engine: &Engine,
    caller: &Caller,
    session: &SessionId,
    format: Format,
    query: RestoreQuery,
) -> Result<Context, Failure> {
    let start = Instant::now();
    let plan = engine.context.restore(caller, session, query).await?;
    let read_time = start.elapsed();
    let context = render(plan, format);
    let render_time = start.elapsed().saturating_sub(read_time);
    let report = &context.report;
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for dropped in &report.dropped {
        *reasons.entry(dropped.reason).or_default() += 1;
    }
    let reasons: Vec<String> = reasons.iter().map(|(r, n)| format!("{r}:{n}")).collect();
    tracing::info!(
        tenant_id = %caller.tenant(),
        session_id = %session,
        %format,
        turns = report.window.turns,
        kept = report.kept,
        dropped = report.dropped.len(),
        adapted = report.adapted.len(),
        reasons = reasons.join(","),
        cut = report.window.cut,
        bytes = context.messages.as_str().len(),
        read_us = micros(read_time),
        render_us = micros(render_time),
        "[RESTORE][LOAD]"
    );
    Ok(context)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
