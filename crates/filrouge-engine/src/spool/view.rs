//! The state that a spool reports (DESIGN §6, "Ledger down").

use std::time::Duration;

use filrouge_types::{Checkpoint, Item, Lease};

/// A session with queued writes, as this process knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpooledSession {
    /// The newest lease, as the ledger or this server's spool granted it.
    pub lease: Lease,
    /// The newest checkpoint that this process has written or read. `None` also if the caller does not request the
    /// tail.
    pub checkpoint: Option<Checkpoint>,
    /// The queued items, oldest first. If the newest checkpoint is queued too, only the items after it. They have no
    /// seq yet. Empty if the caller does not request the tail.
    pub items: Vec<Item>,
    /// Whether older queued items were left out because there are more than the caller requested.
    pub trimmed: bool,
    /// The newest seq of the session that this process has seen in the ledger.
    pub last_seq: u64,
    /// The session's state: the label of its newest checkpoint.
    pub state: Option<Box<str>>,
    /// Number of queued writes.
    pub entries: u64,
    /// Whether the ledger is unavailable, as far as this process knows.
    pub down: bool,
}

/// Counts of spooled writes since this process started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpoolCounts {
    /// Writes that were queued in the spool.
    pub spooled: u64,
    /// Queued writes that the ledger has accepted.
    pub drained: u64,
    /// Queued writes that the ledger has refused; they became dead letters.
    pub refused: u64,
    /// Writes that were refused because the spool was full.
    pub full: u64,
    /// Pieces of the spool's files that failed verification, and folders that could not be used.
    pub unreadable: u64,
}

/// The state of a spool in the process that uses it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpoolView {
    /// Queued writes.
    pub entries: u64,
    /// Sessions with queued writes.
    pub sessions: u64,
    /// Bytes of the queued writes.
    pub bytes: u64,
    /// The maximum number of bytes of queued writes.
    pub bytes_max: u64,
    /// The age of the oldest queued write; `None` if nothing is queued.
    pub oldest: Option<Duration>,
    /// Dead letters in this process's folders, which wait for an operator.
    pub dead_letters: u64,
    /// Why the ledger is unavailable; `None` if it is not.
    pub down: Option<String>,
    /// Counts since this process started.
    pub counts: SpoolCounts,
}
