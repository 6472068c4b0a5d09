//! The hot store port: recent conversations in memory or Redis, with a time to live (DESIGN §7).
//!
//! It stores two kinds of values, each under one key, so that eviction removes a value as a unit:
//! - an *ephemeral session*: all rows of a session that exists nowhere else;
//! - the *recent turns* of a session in the ledger: a copy, with the version of the history that it copies.
//!
//! A hot store is never authoritative. Each operation is atomic; the reader decides whether a value is usable.

use async_trait::async_trait;
use filrouge_types::{Failure, SessionId, TenantId, TurnId};
use serde::Serialize;

use crate::chain::Link;

mod ephemeral;
mod keep;
mod memory;
mod rows;
#[cfg(feature = "contract")]
pub mod suite;

pub use ephemeral::{
    EphemeralCounts, EphemeralSessions, FieldRetention, Gate, ItemRetention, OpenGate,
};
pub use keep::INTERNAL_MEMBERS;
pub use memory::{MemoryCounts, MemoryHot};

/// A session's name in a hot store: a hash of the ids of ledger, tenant and session. It includes the ledger because
/// several ledgers can use one server. A hash is short for ids of any length and alphabet. In a Redis cluster, the name
/// is the hash tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HotKey(pub [u8; 16]);

impl HotKey {
    /// The name of a session of the ledger called `store`.
    pub fn new(store: &str, tenant: &TenantId, session: &SessionId) -> Self {
        use sha2::{Digest, Sha256};
        let mut hash = Sha256::new();
        for piece in [store, tenant.as_str(), session.as_str()] {
            hash.update((piece.len() as u64).to_be_bytes());
            hash.update(piece.as_bytes());
        }
        let mut name = [0; 16];
        name.copy_from_slice(&hash.finalize()[..16]);
        Self(name)
    }
}

impl std::fmt::Display for HotKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The version of an ephemeral session. A session that is created again, after it expired or was removed, is a new
/// incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Edition {
    /// A number that is chosen when the session is created. A later incarnation has a greater number.
    pub incarnation: u64,
    /// The number of commits of this incarnation, from 1.
    pub version: u64,
    /// A new number for each commit. It distinguishes two histories with the same incarnation and version.
    pub nonce: u64,
}

impl Edition {
    /// The version after a commit to the version `previous`, or after the first commit of a new session, which gets
    /// `incarnation`.
    pub fn after(previous: Option<Self>, incarnation: u64, nonce: u64) -> Self {
        Self {
            incarnation: previous.map_or(incarnation, |last| last.incarnation),
            version: previous.map_or(1, |last| last.version.saturating_add(1)),
            nonce,
        }
    }
}

/// A field of an ephemeral session: one stored row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The field's name, which encodes the row's key; at most 300 bytes.
    pub name: Vec<u8>,
    /// The encoded row.
    pub value: Vec<u8>,
}

/// An ephemeral session as loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HotSession {
    /// The version.
    pub edition: Edition,
    /// All its fields, in no particular order.
    pub fields: Vec<Field>,
}

/// The changes of a commit. Fields are removed first, so that a full store can still free space.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldChanges {
    /// Names of the fields to remove.
    pub removes: Vec<Vec<u8>>,
    /// Fields to write, replacing old values.
    pub puts: Vec<Field>,
}

/// A version of a session's history: the newest item's seq and link. Histories with equal links are identical,
/// including redactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryVersion {
    /// The newest item's seq.
    pub seq: u64,
    /// The newest item's link.
    pub link: Link,
}

/// A finalized turn in a copy of recent turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HotTurn {
    /// The turn's ordinal.
    pub ordinal: u64,
    /// The turn's public record as JSON.
    pub record: Vec<u8>,
}

/// The change that one ledger write makes to a session's recent turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentUpdate {
    /// The history before the write. A copy of any other version becomes invalid.
    pub before: HistoryVersion,
    /// The history after the write.
    pub after: HistoryVersion,
    /// Ordinals of the turns to remove, because they were redacted or replaced.
    pub removes: Vec<u64>,
    /// The turn to write, if any. It replaces a turn with the same ordinal.
    pub puts: Option<HotTurn>,
}

/// A new copy of a session's recent turns, read from the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentFill {
    /// The version of the history that it copies.
    pub as_of: HistoryVersion,
    /// The newest visible finalized turns, oldest first.
    pub turns: Vec<HotTurn>,
    /// Whether the copy contains all finalized turns of the session.
    pub all: bool,
}

/// The newest turns of a copy, as read from the hot store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recent {
    /// The version of the history that it copies.
    pub as_of: HistoryVersion,
    /// At most the requested number, oldest first.
    pub turns: Vec<HotTurn>,
    /// Whether `turns` contains all finalized turns of the session.
    pub all: bool,
}

/// A hot store's health.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct HotHealth {
    /// The reason why filrouge currently does not use the store; `None` when it does.
    pub unavailable: Option<String>,
    /// The version that the store reports.
    pub version: Option<String>,
    /// The reason why the store currently refuses writes; reads and removals may still work.
    pub refuses_writes: Option<String>,
    /// The memory use in bytes that the store reports.
    pub used_bytes: Option<u64>,
    /// Whether the store has no memory limit of its own.
    #[serde(skip)]
    pub unbounded: bool,
    /// Whether the store never evicts values to free space, and so refuses writes once it is full.
    #[serde(skip)]
    pub evicts_nothing: bool,
    /// The number of connections, or of cluster nodes, in use.
    pub nodes: u64,
}

/// The limits of each key of a hot store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HotBounds {
    /// The time to live after the last write.
    pub ttl: std::time::Duration,
    /// The maximum number of turns of a session.
    pub turns: u64,
    /// The maximum size of a session's values in bytes. A copy of recent turns and an ephemeral session drop their
    /// oldest turns to stay within it. An ephemeral session refuses a single turn that is larger.
    pub bytes: u64,
}

impl Default for HotBounds {
    /// The defaults: one day, 500 turns (DESIGN §7), 8 MiB.
    fn default() -> Self {
        Self {
            ttl: std::time::Duration::from_secs(24 * 60 * 60),
            turns: 500,
            bytes: 8 << 20,
        }
    }
}

/// A store of recent conversations. Every method, and every update of [`Self::advance`], is atomic, touches one key,
/// and restarts the time to live of a key that it writes.
///
/// All methods fail with `hot_unavailable` when the store does not answer, is full, or returns data that was never
/// written. A failed write may have taken effect.
#[async_trait]
pub trait HotStore: Send + Sync {
    /// The kind of store: `memory` or `redis`.
    fn kind(&self) -> &'static str;

    /// The limits of each key.
    fn bounds(&self) -> HotBounds;

    /// The version of an ephemeral session; `None` when it does not exist.
    async fn edition(&self, key: &HotKey) -> Result<Option<Edition>, Failure>;

    /// Loads an ephemeral session.
    async fn load(&self, key: &HotKey) -> Result<Option<HotSession>, Failure>;

    /// Changes an ephemeral session whose version is `expected`, or creates it if `expected` is `None`; a new session
    /// gets `incarnation`. Returns `None` and changes nothing when the version differs.
    async fn commit(
        &self,
        key: &HotKey,
        expected: Option<Edition>,
        incarnation: u64,
        change: FieldChanges,
    ) -> Result<Option<Edition>, Failure>;

    /// Removes an ephemeral session; if `expected` is given, only if it has that version. Returns whether the session
    /// is absent afterwards.
    async fn forget(&self, key: &HotKey, expected: Option<Edition>) -> Result<bool, Failure>;

    /// The newest `limit` turns of a copy; `None` when it does not exist or is invalid.
    async fn recent(&self, key: &HotKey, limit: usize) -> Result<Option<Recent>, Failure>;

    /// Applies updates to the copies, in order.
    ///
    /// An update whose `before` is the copy's version advances the copy. An older update changes nothing. Any other
    /// update invalidates the copy. The store keeps the newest seq that it has seen, so that no older update or fill
    /// makes the copy valid again. If no copy exists, an update that starts at seq 0 creates one.
    async fn advance(&self, updates: Vec<(HotKey, RecentUpdate)>) -> Result<(), Failure>;

    /// Stores a fresh copy, unless the store has seen a newer version.
    async fn fill(&self, key: &HotKey, fill: RecentFill) -> Result<(), Failure>;

    /// Removes a copy. Afterwards fills and updates that are older than `seq` are rejected.
    async fn forget_recent(&self, key: &HotKey, seq: u64) -> Result<(), Failure>;

    /// Records that contents were erased, which may remain in files of the store.
    fn note_erasure(&self) {}

    /// Asks the store to rewrite the files in which erased contents may remain. Does nothing if nothing was erased
    /// since it was asked, or if it was asked less than a minute ago.
    async fn rewrite_if_due(&self) {}

    /// Where erased contents may remain, and until when; `None` if nowhere, or if the store is rewriting its files.
    fn remains(&self) -> Option<&'static str> {
        None
    }

    /// Queries the store's health.
    async fn health(&self) -> HotHealth;

    /// The reason why filrouge currently does not use the store, if any. Does not query the store.
    fn failure(&self) -> Option<String> {
        None
    }
}

/// The failure for a turn of an ephemeral session that expired or never existed; the hot store cannot distinguish the
/// two.
pub fn turn_expired(id: &TurnId) -> Failure {
    let detail = format!("turn {id} is no longer kept");
    Failure::new(filrouge_types::ErrorCode::TurnExpired, detail).with_hint(
        "a session without an identity is kept for a while after it was last written to: start the turn again",
    )
}
