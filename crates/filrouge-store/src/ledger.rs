//! The ledger port: what the engine asks of a durable store (DESIGN §13).

use std::any::Any;

use async_trait::async_trait;
use filrouge_types::{Failure, SessionId};
use tokio::sync::watch;

use crate::command::{Command, Outcome, Scope};
use crate::keyring::{Keyring, MAC_BYTES};
use crate::read::Sight;
use crate::rows::View;

mod asks;
mod layer;

pub use layer::Layer;

/// A commit that is durable: what an anchor remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The commit's number; 0 before the first.
    pub commit_no: u64,
    /// Its link.
    pub link: [u8; MAC_BYTES],
}

filrouge_types::words!(
    /// What an answered write has survived (P1).
    pub enum Durability: "durability" {
        /// It is on disk.
        Flushed => "flushed",
        /// The store keeps it, and flushes it when it sees fit: a power cut may take it.
        Buffered => "buffered",
        /// It is on this machine's disk, and waits for the store (DESIGN §6).
        Spooled => "spooled",
        /// It is in memory and gone with the process.
        Ephemeral => "ephemeral",
    }
);

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

/// A question put to one consistent sight of the store.
pub type Inspect = Box<dyn for<'a> FnOnce(&Sight<'a, dyn View + 'a>) + Send>;

/// What an inspection is about: a backend chooses by it where to read.
#[derive(Debug, Clone, Copy)]
pub enum About<'a> {
    /// The whole store.
    Store,
    /// One session, as the scope sees it.
    Session(&'a Scope, &'a SessionId),
    /// What a server itself has to know, such as which keys are good: never behind the questions of callers.
    Apart,
}

/// A write that was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// What it put.
    pub outcome: Outcome,
    /// Where it went.
    pub durability: Durability,
}

/// What keeps a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backend {
    /// `pg`, `sqlite` or `memory`, as the lines of live calls say it (DESIGN §12).
    pub kind: &'static str,
    /// Its name and version, such as `SQLite 3.51.3`; `None` for memory.
    pub version: Option<String>,
    /// What an answered write survives there.
    pub durability: Durability,
}

/// The durable record of sessions, turns and items: what every backend does.
///
/// A write is answered once it is as durable as [`Stored::durability`] states (P1). All methods fail with codes of
/// [`filrouge_types::ErrorCode`]; none tells failures apart by text.
#[async_trait]
pub trait Ledger: Any + Send + Sync {
    /// Does one write in a transaction.
    async fn write(&self, command: Command) -> Result<Stored, Failure>;

    /// Shows one consistent sight of the store to `question`.
    async fn inspect(&self, about: About<'_>, question: Inspect) -> Result<(), Failure>;

    /// What keeps it.
    fn backend(&self) -> Backend;

    /// The newest durable commit.
    fn position(&self) -> Position;

    /// The newest durable commit that an anchor has to remember: behind it nothing but drafts have grown.
    fn witnessed(&self) -> Position;

    /// The number of the newest durable commit as it grows, also by other processes of the same store: those are
    /// seen within a tenth of a second while somebody holds a receiver. A commit may be reported before the write that
    /// made it is answered.
    fn commits(&self) -> watch::Receiver<u64>;

    /// The name of this process among those that record streams into the store; empty in a store of one process.
    fn writer(&self) -> String;

    /// Whether a process that has recorded streams is certain not to be there any more; of one that is not known
    /// its signs of life decide.
    fn is_gone(&self, writer: &str) -> bool;

    /// The store's own name, given when it was made; names its anchor.
    fn store_id(&self) -> &str;

    /// The keys that its data is authenticated with.
    fn keyring(&self) -> &Keyring;

    /// How the store is.
    fn health(&self) -> Health;

    /// What it has done and has waiting; zeros for a store that counts nothing.
    fn load(&self) -> Load;

    /// Refuses everything from now on: the store is older than its anchor.
    fn distrust(&self, what: String);

    /// Finishes what is under way and releases the store.
    async fn close(&self);
}
