//! The ledger port: the operations that every durable store implements (DESIGN §13).

use std::any::Any;

use async_trait::async_trait;
use filrouge_types::{Failure, SessionId};
use tokio::sync::watch;

use crate::command::{Command, Outcome, Scope, SlotCaller};
use crate::keyring::{Keyring, MAC_BYTES};
use crate::lane::{Lane, Lanes};
use crate::read::LedgerSnapshot;
use crate::rows::LogRow;

mod layer;
mod queries;

pub use layer::LedgerLayer;

/// The number and the link of a durable commit of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LanePosition {
    /// The commit's number in its lane; 0 before the first.
    pub commit_no: u64,
    /// The commit's link.
    pub link: [u8; MAC_BYTES],
}

impl LanePosition {
    /// The position of this commit; number 0 for `None`.
    pub fn of_commit(row: Option<&LogRow>) -> Self {
        row.map_or_else(Self::default, |row| Self {
            commit_no: row.commit_no,
            link: row.link,
        })
    }
}

/// A position in every lane of a store, as an anchor records it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Position {
    /// The position in each lane, by its number. Lanes that are missing at the end of the list are at
    /// their beginning.
    lanes: Vec<LanePosition>,
}

impl Position {
    /// The position of which this is the part in each lane, in the order of their numbers.
    pub const fn new(lanes: Vec<LanePosition>) -> Self {
        Self { lanes }
    }

    /// The position in a lane.
    pub fn lane(&self, lane: Lane) -> LanePosition {
        self.lanes.get(lane.index()).copied().unwrap_or_default()
    }

    /// The position in each lane.
    pub fn iter(&self) -> impl Iterator<Item = (Lane, LanePosition)> {
        (0..).map(Lane::new).zip(self.lanes.iter().copied())
    }

    /// Sets the position in a lane.
    pub fn set(&mut self, lane: Lane, position: LanePosition) {
        if self.lanes.len() <= lane.index() {
            self.lanes
                .resize_with(lane.index() + 1, LanePosition::default);
        }
        self.lanes[lane.index()] = position;
    }

    /// The number of commits up to this position, those of all lanes together.
    pub fn commit_count(&self) -> u64 {
        let numbers = self.lanes.iter().map(|lane| lane.commit_no);
        numbers.fold(0, u64::saturating_add)
    }
}

filrouge_types::words!(
    /// The failures that an acknowledged write survives (P1).
    pub enum Durability: "durability" {
        /// The write is on disk.
        Flushed => "flushed",
        /// The store has the write but has not flushed it: a power cut may lose it.
        Buffered => "buffered",
        /// The write is in the spool on local disk and waits for the store (DESIGN §6).
        Spooled => "spooled",
        /// The write is in memory only and is lost when the process ends.
        Ephemeral => "ephemeral",
    }
);

/// A store's health.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// The reason why the store refuses writes; `None` when it accepts them.
    pub read_only: Option<String>,
    /// The integrity error of the store, if one was found.
    pub integrity: Option<String>,
}

/// Counters of a store in this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreLoad {
    /// Statements executed since the process started.
    pub statements: u64,
    /// Writes in the queue.
    pub queued_writes: u64,
}

/// A small named value outside any session, written by compare-and-set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The number of times the note was written, from 1.
    pub version: u64,
    /// The note's value, at most [`crate::rows::NOTE_MAX`] bytes.
    pub value: Vec<u8>,
}

/// A query that runs on one verified snapshot of the store.
pub type SnapshotQuery = Box<dyn for<'a> FnOnce(&LedgerSnapshot<'a>) + Send>;

/// The subject of a query. A ledger uses it to decide where the query runs: in the hot store or in the ledger's store,
/// and on which connection.
#[derive(Debug, Clone, Copy)]
pub enum QuerySubject<'a> {
    /// The entire store, for the server itself.
    Store,
    /// The entire store, as the scope sees it.
    Listed(&'a Scope),
    /// One session, as the scope sees it.
    Session(&'a Scope, &'a SessionId),
    /// The server's own data, such as valid API keys. The query uses a reserved connection and never queues behind user
    /// reads.
    ServerData,
}

impl QuerySubject<'_> {
    /// What identifies the caller among those that wait for a connection.
    pub fn caller(&self) -> SlotCaller<'_> {
        match self {
            Self::Session(scope, _) | Self::Listed(scope) => scope.caller(),
            Self::Store | Self::ServerData => (None, None),
        }
    }
}

/// The result of a committed write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedWrite {
    /// The outcome.
    pub outcome: Outcome,
    /// The durability of the write.
    pub durability: Durability,
}

/// The kind of store that holds a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backend {
    /// `pg`, `sqlite` or `memory`, as in the log lines of live calls (DESIGN §12).
    pub kind: &'static str,
    /// The name and version of the store's software, such as `SQLite 3.51.3`; `None` for memory.
    pub version: Option<String>,
    /// The durability of an acknowledged write in this store.
    pub durability: Durability,
    /// Where bytes of erased contents always remain after the response, and until when; `None` if nowhere.
    pub remains: Option<&'static str>,
}

/// The durable record of sessions, turns and items. Every backend implements it.
///
/// A write returns once it is as durable as [`CommittedWrite::durability`] states (P1). All methods fail with codes of
/// [`filrouge_types::ErrorCode`]; no caller distinguishes failures by text.
#[async_trait]
pub trait Ledger: Any + Send + Sync {
    /// Executes one write in a transaction.
    async fn write(&self, command: Command) -> Result<CommittedWrite, Failure>;

    /// Runs `query` on one verified snapshot of the store.
    async fn inspect(&self, about: QuerySubject<'_>, query: SnapshotQuery) -> Result<(), Failure>;

    /// The backend.
    fn backend(&self) -> Backend;

    /// The store's lanes.
    fn lanes(&self) -> Lanes;

    /// The newest durable commit of each lane.
    fn position(&self) -> Position;

    /// The newest durable commit of each lane that an anchor must record, by default the newest of all: later commits
    /// contain only drafts.
    fn anchor_position(&self) -> Position {
        self.position()
    }

    /// Publishes the number of durable commits of all lanes, including those of other processes on the same store: these
    /// are published within a tenth of a second while a receiver exists. A commit may be published before its write
    /// returns.
    fn commits(&self) -> watch::Receiver<u64>;

    /// This process's name among the processes that record streams into the store and grant leases; empty if only one
    /// process may write.
    fn writer(&self) -> String {
        String::new()
    }

    /// Whether the process with this name ([`Self::writer`]) has exited. `false` if this cannot be known; then only the
    /// heartbeat of its recordings, and the end of its leases, show whether it is alive. The answer may be wrong about a
    /// process that has lost its connections to the store. So nothing that is written may depend on it alone: the fence
    /// refuses a process that has lost its lease, and a recording that was ended.
    async fn has_exited(&self, _writer: &str) -> bool {
        false
    }

    /// The store's id, assigned at creation. The store's anchor contains it.
    fn store_id(&self) -> &str;

    /// The keyring that authenticates the store's data, bound to the store ([`Keyring::for_store`]).
    fn keyring(&self) -> &Keyring;

    /// The store's health.
    fn health(&self) -> Health;

    /// The store's counters; zeros for a store that keeps none.
    fn load(&self) -> StoreLoad {
        StoreLoad::default()
    }

    /// Refuses all further reads and writes, because the store is older than its anchor. Failures and
    /// [`Self::health`] state the reason.
    fn distrust(&self, reason: String);

    /// Finishes pending work and releases the store.
    async fn close(&self) {}
}
