//! The state that a tiered ledger reports (DESIGN §7). A *copy* is a session's recent turns in the hot store; a *step*
//! is the update that a write to the ledger causes in a copy.

use filrouge_store::hot::{EphemeralCounts, HotBounds};
use filrouge_types::{ErrorCode, Failure, SessionId};

/// The state of a hot store in the process that uses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HotView {
    /// `memory` or `redis`.
    pub kind: &'static str,
    /// The limits of each session in the hot store.
    pub bounds: HotBounds,
    /// The sessions that go to the ledger: `all`, or only `authenticated` ones.
    pub durable: &'static str,
    /// Why the hot store is not used now; `None` while it is used.
    pub failure: Option<String>,
    /// Counts since this process started.
    pub counts: TierCounts,
}

/// Counts of a ledger and its hot store since this process started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TierCounts {
    /// Requests for recent turns that a copy answered. The next five counts are of requests for recent turns as well.
    pub recent_hits: u64,
    /// Requests without a copy, or with one that had too few turns.
    pub recent_absent: u64,
    /// Requests whose copy did not match the ledger's history.
    pub recent_stale: u64,
    /// Requests where the hot store failed, or returned a record that fails verification.
    pub recent_unreadable: u64,
    /// Requests that a copy answered because the ledger did not.
    pub recent_as_of: u64,
    /// Copies rebuilt from the ledger.
    pub recent_fills: u64,
    /// Writes whose steps the hot store has accepted.
    pub steps_sent: u64,
    /// Writes whose steps the hot store did not receive. The copies of their sessions are not used until they are
    /// rebuilt.
    pub steps_dropped: u64,
    /// Steps that are queued now.
    pub steps_waiting: u64,
    /// Removals of redacted, linked or erased contents that did not reach the hot store at once.
    pub removals_failed: u64,
    /// Removals that are waiting for a retry now.
    pub removals_waiting: u64,
    /// Requests that the hot store did not answer.
    pub hot_failures: u64,
    /// Ephemeral sessions that were moved into the ledger.
    pub logins: u64,
    /// Turns that were moved with these sessions.
    pub backfilled_turns: u64,
    /// Turns that were moved after their session was already in the ledger.
    pub late_turns: u64,
    /// Turns that stayed in the hot store because the ledger refused them.
    pub late_refused: u64,
    /// Counts of ephemeral sessions.
    pub ephemeral: EphemeralCounts,
}

filrouge_types::words!(
    /// Whether a session's redacted or erased contents are still in the hot store.
    pub enum HotReceipt: "receipt" {
        /// The contents are not in the hot store.
        Erased => "erased",
        /// The hot store did not answer. The removal is retried, and the session's copy is not used meanwhile.
        Unreachable => "unreachable",
    }
);

/// The newest finalized turns of a session, from a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentTurns {
    /// The turns' public records as JSON, oldest first.
    pub turns: Vec<Vec<u8>>,
    /// The cursor of the page with the next older turns; `None` if there are none.
    pub next_cursor: Option<String>,
    /// The last seq that the copy covers, if the ledger did not answer, so that the copy may be outdated; otherwise
    /// `None`.
    pub as_of_seq: Option<u64>,
}

/// State of a copy of recent turns, compared with the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HotState {
    /// There is no copy.
    Absent,
    /// The copy covers the ledger's newest item.
    Same,
    /// The copy lags behind the ledger by this many seqs.
    Behind(u64),
    /// It is a copy of another history.
    Other,
}

/// The failure of an operation that needs the ledger, for an ephemeral session (DESIGN §7).
pub(crate) fn session_ephemeral(id: &SessionId) -> Failure {
    let what = format!("session {:?} is not in the ledger", id.as_str());
    Failure::new(ErrorCode::SessionEphemeral, what)
        .with_hint("log in, which moves it into the ledger; or run with durable = all")
}
