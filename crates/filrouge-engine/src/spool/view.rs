//! What a ledger with a spool reports (DESIGN §6, "Ledger down").

use std::time::Duration;

use filrouge_types::{Checkpoint, Item, Lease};

/// A session whose writes wait for the store, as this process knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The newest lease: of the store, or given here since under the same fence.
    pub lease: Lease,
    /// The newest checkpoint that this process has put or read; only for who asks for the tail.
    pub checkpoint: Option<Checkpoint>,
    /// The items that wait, oldest first; behind the newest checkpoint, when that waits as well. They have no seq yet.
    /// Only for who asks for the tail.
    pub items: Vec<Item>,
    /// Whether older ones wait as well, which are more than were asked for.
    pub trimmed: bool,
    /// The newest seq that this process has seen in the store.
    pub last_seq: u64,
    /// The session's state: the label of its newest checkpoint.
    pub state: Option<Box<str>>,
    /// How many writes wait.
    pub entries: u64,
    /// Whether the store does not answer, as far as this process knows.
    pub down: bool,
}

/// What has happened to spooled writes in this process since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpoolCounts {
    /// Writes that were put into the spool.
    pub spooled: u64,
    /// Writes that the store has taken since.
    pub drained: u64,
    /// Writes that the store has refused since: they are dead letters.
    pub refused: u64,
    /// Writes that found the spool full.
    pub full: u64,
    /// Frames of the spool's files that are not what was written.
    pub unreadable: u64,
}

/// A spool as the process that uses it sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpoolView {
    /// Writes that wait.
    pub entries: u64,
    /// Sessions that they are of.
    pub sessions: u64,
    /// Bytes that they take.
    pub bytes: u64,
    /// Bytes that they may take.
    pub bytes_max: u64,
    /// Since when the oldest one waits.
    pub oldest: Option<Duration>,
    /// Writes that the store has refused, and that nobody has looked after yet.
    pub dead_letters: u64,
    /// Why the store does not answer, if it does not.
    pub down: Option<String>,
    /// What has happened in this process.
    pub counts: SpoolCounts,
}
