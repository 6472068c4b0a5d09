//! What a ledger with a hot store in front reports (DESIGN §7).

use filrouge_store::hot::{EphemeralCounts, HotBounds};
use filrouge_types::{ErrorCode, Failure, SessionId};

/// A hot store as the process that uses it sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HotView {
    /// `memory` or `redis`.
    pub kind: &'static str,
    /// What bounds each key.
    pub bounds: HotBounds,
    /// Which sessions go to the ledger: `all`, or `authenticated` ones alone.
    pub durable: &'static str,
    /// Why it is not used at the moment, if it is not.
    pub failure: Option<String>,
    /// What has happened in this process.
    pub counts: ScopeCounts,
}

/// What has happened between a ledger and its hot store in this process since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScopeCounts {
    /// Recent turns that were answered from a copy.
    pub recent_hits: u64,
    /// Asked for where there was no copy, or none that reached as far as was asked.
    pub recent_absent: u64,
    /// Asked for where the copy was one of another history than the ledger's.
    pub recent_stale: u64,
    /// Asked for where the hot store failed, or gave what was never put there.
    pub recent_unreadable: u64,
    /// Answered from a copy because the ledger did not answer.
    pub recent_as_of: u64,
    /// Copies made anew from the ledger.
    pub recent_fills: u64,
    /// Writes whose steps the hot store has taken.
    pub steps_sent: u64,
    /// Writes whose steps it was not told of: their copies are not used until they are made anew.
    pub steps_dropped: u64,
    /// Steps that wait at the moment.
    pub steps_waiting: u64,
    /// Removals of what was redacted, linked or erased that did not reach the hot store at once.
    pub removals_failed: u64,
    /// Removals that are tried again at the moment.
    pub removals_waiting: u64,
    /// Requests that the hot store did not answer.
    pub hot_failures: u64,
    /// Ephemeral sessions that have gone into the ledger.
    pub logins: u64,
    /// Their turns.
    pub backfilled_turns: u64,
    /// Turns that came after their session was in the ledger already.
    pub late_turns: u64,
    /// Turns left behind because the ledger did not take them.
    pub late_refused: u64,
    /// What has happened to ephemeral sessions.
    pub ephemeral: EphemeralCounts,
}

filrouge_types::words!(
    /// What has become of a session's redacted or erased contents in the hot store.
    pub enum HotReceipt: "receipt" {
        /// They are not there.
        Erased => "erased",
        /// The store did not answer; it is told again, and what it has is not used meanwhile.
        Unreachable => "unreachable",
    }
);

/// The newest finalized turns of a session, out of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentTurns {
    /// Their public records as JSON, oldest first.
    pub turns: Vec<Vec<u8>>,
    /// The cursor of the page before them; `None` when there is none.
    pub next_cursor: Option<String>,
    /// The seq that the copy stands at, when the ledger did not answer and could not say whether it still does.
    pub as_of_seq: Option<u64>,
}

/// How a copy of recent turns stands to the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HotState {
    /// There is no copy.
    Absent,
    /// It is a copy of what the ledger has.
    Same,
    /// It is so many seqs behind.
    Behind(u64),
    /// It is a copy of something else.
    Other,
}

/// What needs the ledger is refused for a session that is not there (DESIGN §7).
#[must_use]
pub(crate) fn session_ephemeral(id: &SessionId) -> Failure {
    let what = format!("session {:?} is not in the ledger", id.as_str());
    Failure::new(ErrorCode::SessionEphemeral, what)
        .with_hint("log in, which takes it there; or run with durable = all")
}
