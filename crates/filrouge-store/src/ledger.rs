//! The ledger port: what the engine asks of a durable store (DESIGN §13).

use async_trait::async_trait;
use filrouge_types::{Checkpoint, Failure, SessionId};
use tokio::sync::watch;

use crate::command::{Command, Outcome, Scope};
use crate::hot::HotHealth;
use crate::keyring::{Keyring, MAC_BYTES};
use crate::read::Sight;
use crate::rows::View;

mod asks;
mod scopes;
mod spool;

pub use scopes::{HotReceipt, HotState, HotView, ScopeCounts, session_ephemeral};
pub use spool::{SpoolCounts, SpoolView, Waiting};

/// A commit that is durable: what an anchor remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The commit's number; 0 before the first.
    pub commit_no: u64,
    /// Its link.
    pub link: [u8; MAC_BYTES],
}

/// What an answered write has survived (P1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// It is on disk.
    Flushed,
    /// The store keeps it, and flushes it when it sees fit: a power cut may take it.
    Buffered,
    /// It is on this machine's disk, and waits for the store (DESIGN §6).
    Spooled,
    /// It is in memory and gone with the process.
    Ephemeral,
}

impl Durability {
    /// The word of the `Filrouge-Durability` header.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Flushed => "flushed",
            Self::Buffered => "buffered",
            Self::Spooled => "spooled",
            Self::Ephemeral => "ephemeral",
        }
    }
}

/// How a store is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// Why it takes no writes, if it does not.
    pub read_only: Option<String>,
    /// What is known not to be what was written.
    pub integrity: Option<String>,
}

/// What a store has done in this process, and what waits for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Statements put to the store since the process began.
    pub statements: u64,
    /// Writes that wait for their turn.
    pub queued_writes: u64,
}

/// A small named value of the store, outside of any session: written whole, compared and set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// How often it was put, from 1.
    pub version: u64,
    /// Its value, at most [`crate::rows::NOTE_MAX`] bytes.
    pub value: Vec<u8>,
}

/// The newest finalized turns of a session, as a copy tells them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentTurns {
    /// Their public records as JSON, oldest first.
    pub turns: Vec<Vec<u8>>,
    /// The cursor of the page before them; `None` when there is none.
    pub next_cursor: Option<String>,
    /// The seq that the copy stands at, when the store did not answer and could not say whether it still does.
    pub as_of_seq: Option<u64>,
}

/// A question put to one consistent sight of the store.
pub type Inspect = Box<dyn for<'a> FnOnce(&Sight<'a, dyn View + 'a>) + Send>;

/// A durable store of sessions, turns and items.
///
/// A write that is answered is on disk (P1). All methods fail with codes of
/// [`filrouge_types::ErrorCode`]; none tells failures apart by text.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// Does one write in a transaction and answers once it is flushed.
    async fn write(&self, command: Command) -> Result<Outcome, Failure>;

    /// Shows one consistent sight of the store to `question`.
    async fn inspect(&self, question: Inspect) -> Result<(), Failure>;

    /// As [`Self::inspect`], but never behind the questions of callers: for the small ones that a server has itself,
    /// such as which keys are good.
    async fn inspect_apart(&self, question: Inspect) -> Result<(), Failure> {
        self.inspect(question).await
    }

    /// As [`Self::inspect`], for a question about one session: a store of several scopes shows the one that the session
    /// is in.
    async fn inspect_in(
        &self,
        scope: &Scope,
        session: &SessionId,
        question: Inspect,
    ) -> Result<(), Failure> {
        let _ = (scope, session);
        self.inspect(question).await
    }

    /// The newest finalized turns of a session that are shown, when a copy of them is at hand that is known to be what
    /// the store would answer; `None` sends to the store.
    ///
    /// # Errors
    /// `session_not_found`, `integrity_error`, and the store's.
    async fn recent(
        &self,
        scope: &Scope,
        session: &SessionId,
        limit: usize,
    ) -> Result<Option<RecentTurns>, Failure> {
        let _ = (scope, session, limit);
        Ok(None)
    }

    /// What a write to this session has survived once it is answered.
    async fn durability_in(&self, scope: &Scope, session: &SessionId) -> Durability {
        let _ = (scope, session);
        self.durability()
    }

    /// Whether a write to this session, asked now, goes to the hot store and nowhere else.
    ///
    /// # Errors
    /// The store's.
    async fn is_ephemeral(&self, scope: &Scope, session: &SessionId) -> Result<bool, Failure> {
        let _ = (scope, session);
        Ok(false)
    }

    /// Whether the session is in the hot store and nowhere else. No commit of [`Self::commits`] tells of it then.
    ///
    /// # Errors
    /// The store's.
    async fn in_hot(&self, scope: &Scope, session: &SessionId) -> Result<bool, Failure> {
        let _ = (scope, session);
        Ok(false)
    }

    /// The hot store in front, if there is one; asks nothing.
    fn hot(&self) -> Option<HotView> {
        None
    }

    /// How the hot store is: asks it.
    async fn hot_health(&self) -> Option<HotHealth> {
        None
    }

    /// Once a redaction or an erasure is answered: what has become of the session's copy in the hot store.
    fn hot_receipt(&self, scope: &Scope, session: &SessionId) -> Option<HotReceipt> {
        let _ = (scope, session);
        None
    }

    /// Compares a session's copy in the hot store with the store: asks both.
    ///
    /// # Errors
    /// `session_not_found`, `hot_unavailable`, and the store's.
    async fn compare_hot(&self, scope: &Scope, session: &SessionId) -> Result<HotState, Failure> {
        let _ = (scope, session);
        Ok(HotState::None)
    }

    /// What is known of a session whose writes wait for a store that does not answer, without its contents; `None` when
    /// none do, and for who may not see it.
    fn waiting(&self, scope: &Scope, session: &SessionId) -> Option<Waiting> {
        let _ = (scope, session);
        None
    }

    /// As [`Self::waiting`], with the newest checkpoint and at most `most` of the items that wait behind it: the newest.
    fn waiting_tail(&self, scope: &Scope, session: &SessionId, most: usize) -> Option<Waiting> {
        let _ = (scope, session, most);
        None
    }

    /// Tells of a session that somebody goes on with under a lease, as it was read: what is known then is enough to go on
    /// while the store does not answer.
    fn resumed(
        &self,
        scope: &Scope,
        session: &SessionId,
        checkpoint: Option<&Checkpoint>,
        last_seq: u64,
        state: Option<&str>,
    ) {
        let _ = (scope, session, checkpoint, last_seq, state);
    }

    /// The spool that writes wait in while the store does not answer, if there is one; asks nothing.
    fn spool(&self) -> Option<SpoolView> {
        None
    }

    /// What an answered write has survived.
    fn durability(&self) -> Durability {
        Durability::Flushed
    }

    /// In one word what the store is: `pg`, `sqlite` or `memory`, as the lines of live calls say it (DESIGN §12).
    fn kind(&self) -> &'static str {
        "memory"
    }

    /// What the store is kept by, with its version, such as `SQLite 3.51.3`.
    fn version(&self) -> Option<String> {
        None
    }

    /// The newest durable commit.
    fn position(&self) -> Position;

    /// The newest durable commit that an anchor has to remember: behind it nothing but drafts have grown.
    fn witnessed(&self) -> Position {
        self.position()
    }

    /// The number of the newest durable commit as it grows, also by other processes of the same store: those are
    /// seen within a tenth of a second while somebody holds a receiver. A commit may be told before the write that
    /// made it is answered.
    fn commits(&self) -> watch::Receiver<u64>;

    /// This process among those that record streams into the store. One of one process alone needs no name.
    fn writer(&self) -> String {
        String::new()
    }

    /// Whether a process that has recorded streams is certain not to be there any more; of one that is not known
    /// its signs of life tell.
    fn is_gone(&self, writer: &str) -> bool {
        let _ = writer;
        false
    }

    /// The store's own name, given when it was made; names its anchor.
    fn store_id(&self) -> &str;

    /// The keys that its data is authenticated with.
    fn keyring(&self) -> &Keyring;

    /// How the store is.
    fn health(&self) -> Health;

    /// What it has done and has waiting; zeros for a store that counts nothing.
    fn load(&self) -> Load {
        Load::default()
    }

    /// Refuses everything from now on: the store is older than its anchor.
    fn distrust(&self, what: String);

    /// Finishes what is under way and releases the store.
    async fn close(&self);
}
