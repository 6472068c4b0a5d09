//! The state that a tiered ledger reports (DESIGN §7).

use filrouge_store::hot::{EphemeralCounts, HotBounds};
use filrouge_types::{ErrorCode, Failure, SessionId};

/// The state of a hot store in the process that uses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HotView {
    /// `memory` or `redis`.
    pub kind: &'static str,
    /// Bounds of each key.
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
    /// Requests for recent turns that a copy answered.
    pub recent_hits: u64,
    /// Requests without a copy, or with one that had too few turns.
    pub recent_absent: u64,
    /// Requests whose copy was of another history than the ledger's.
    pub recent_stale: u64,
    /// Requests where the hot store failed, or returned a record that fails verification.
    pub recent_unreadable: u64,
    /// Requests that a copy answered because the ledger did not.
    pub recent_as_of: u64,
    /// Copies rebuilt from the ledger.
    pub recent_fills: u64,
    /// Writes whose steps the hot store has accepted.
    pub steps_sent: u64,
    /// Writes whose steps it did not receive: their copies are not used until they are rebuilt.
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
    /// Turns of these sessions.
    pub backfilled_turns: u64,
    /// Turns that were moved after their session was already in the ledger.
    pub late_turns: u64,
    /// Turns that stayed in the hot store because the ledger refused them.
    pub late_refused: u64,
    /// Counts of ephemeral sessions.
    pub ephemeral: EphemeralCounts,
}

filrouge_types::words!(
    /// State of a session's redacted or erased contents in the hot store.
    pub enum HotReceipt: "receipt" {
        /// They are not in the hot store.
        Erased => "erased",
        /// The store did not answer; the removal is retried, and its copy is not used meanwhile.
        Unreachable => "unreachable",
    }
);

/// The newest finalized turns of a session, from a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentTurns {
    /// Their public records as JSON, oldest first.
    pub turns: Vec<Vec<u8>>,
    /// The cursor of the previous page; `None` if there is none.
    pub next_cursor: Option<String>,
    /// The seq of the copy, if the ledger did not answer and could not confirm that the copy is current.
    pub as_of_seq: Option<u64>,
}

/// State of a copy of recent turns, compared with the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HotState {
    /// There is no copy.
    Absent,
    /// It equals the ledger's history.
    Same,
    /// It lags the ledger by this many seqs.
    Behind(u64),
    /// It is a copy of another history.
    Other,
}

/// The refusal of an operation that needs the ledger, for a session that is not in it (DESIGN §7).
#[must_use]
pub(crate) fn session_ephemeral(id: &SessionId) -> Failure {
    let what = format!("session {:?} is not in the ledger", id.as_str());
    Failure::new(ErrorCode::SessionEphemeral, what)
        .with_hint("log in, which moves it into the ledger; or run with durable = all")
}
