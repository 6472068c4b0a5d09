//! The log line of a request that reads a conversation.

use std::time::Instant;

use filrouge_engine::Caller;
use filrouge_types::SessionId;

/// What a request has read; `None` for what it does not count.
#[derive(Debug, Clone, Copy, Default)]
pub struct Load {
    /// The number of turns.
    pub turns: Option<usize>,
    /// The number of items.
    pub items: Option<usize>,
}

/// Logs `[RESTORE][LOAD]`: a request of `caller`, which began at `started_at`, has read a conversation as `format`.
/// Contexts are logged where they are restored.
pub fn log_load(
    caller: &Caller,
    session: &SessionId,
    format: &str,
    load: Load,
    started_at: Instant,
) {
    tracing::info!(
        tenant_id = %caller.tenant(),
        session_id = %session,
        %format,
        turns = load.turns,
        items = load.items,
        duration_us = u64::try_from(started_at.elapsed().as_micros()).unwrap_or(u64::MAX),
        "[RESTORE][LOAD]"
    );
}
