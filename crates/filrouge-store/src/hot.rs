//! The hot store port: what is kept of recent conversations in memory or in Redis, under a time to live (DESIGN §7).
//!
//! Two things lie there, under one key each, so that whatever takes a key away takes all of it:
//! - an *ephemeral session*: all its rows, for a session that is nowhere else;
//! - the *recent turns* of a session that is in the ledger: a copy that says which history it is a copy of.
//!
//! A hot store decides nothing. It compares, puts and forgets, each in one atomic step, and whoever reads says whether what
//! was read may be used.

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

pub use ephemeral::{EphemeralCounts, EphemeralSessions, Gate, Keep, KeepItems, OpenGate};
pub use keep::OWN_MEMBERS;
pub use memory::{MemoryCounts, MemoryHot};

/// The name of a session in a hot store: a hash of ledger, tenant and session, so that stores can share a server and ids
/// of any length and alphabet are short words. It is the hash tag in a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HotKey(pub [u8; 16]);

impl HotKey {
    /// The name of a session of the ledger called `store`.
    #[must_use]
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

/// Which state of an ephemeral session: of two with one `incarnation`, the one with the greater `version` is newer. Of two
/// incarnations, the greater one began later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Edition {
    /// Drawn when the session was put where there was none.
    pub incarnation: u64,
    /// Counts its commits, from 1.
    pub version: u64,
    /// Drawn by each commit: two histories that counted to one version are told apart by it.
    pub word: u64,
}

/// A named piece of an ephemeral session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its name: one of [`crate::hot`]'s own, at most 300 bytes.
    pub name: Vec<u8>,
    /// Its bytes.
    pub value: Vec<u8>,
}

/// An ephemeral session as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// Which state.
    pub edition: Edition,
    /// All its fields, in no order.
    pub fields: Vec<Field>,
}

/// What a commit changes. Fields are removed first, so that a store that is full can still be told to forget.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// Names of fields that go.
    pub removes: Vec<Vec<u8>>,
    /// Fields that are put, new or over the old.
    pub puts: Vec<Field>,
}

/// Which history a copy of recent turns is a copy of: the newest item's seq and link. Two histories of one link are the
/// same down to the last byte, redactions included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AsOf {
    /// The newest item's seq.
    pub seq: u64,
    /// Its link.
    pub link: Link,
}

/// A finalized turn in a copy of recent turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HotTurn {
    /// Its ordinal.
    pub ordinal: u64,
    /// Its public record as JSON.
    pub record: Vec<u8>,
}

/// What one write of the ledger means to the copy of the session's recent turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The history that the write found: a copy of any other one is no use any more.
    pub before: AsOf,
    /// The history that it left.
    pub after: AsOf,
    /// The turns that are no longer shown, by ordinal: redacted, or replaced.
    pub removes: Vec<u64>,
    /// The turn that is shown from now on, over any other of its ordinal.
    pub puts: Option<HotTurn>,
}

/// A copy made anew from the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fill {
    /// The history.
    pub as_of: AsOf,
    /// Its newest finalized turns that are shown, oldest first.
    pub turns: Vec<HotTurn>,
    /// Whether these are all there are.
    pub all: bool,
}

/// The newest of a copy's turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recent {
    /// The history.
    pub as_of: AsOf,
    /// At most so many as were asked for, oldest first.
    pub turns: Vec<HotTurn>,
    /// Whether no turn lies before them.
    pub all: bool,
}

/// How a hot store is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct HotHealth {
    /// Why it is not used at the moment, if it is not.
    pub unavailable: Option<String>,
    /// Its version, as it tells.
    pub version: Option<String>,
    /// Why it takes no writes at the moment; reads and removals may be served.
    pub refuses_writes: Option<String>,
    /// Bytes it holds, as it tells.
    pub used_bytes: Option<u64>,
    /// Whether nothing but the machine bounds these bytes.
    #[serde(skip)]
    pub unbounded: bool,
    /// Whether it makes no room by forgetting what will expire: once it is full it refuses writes.
    #[serde(skip)]
    pub evicts_nothing: bool,
    /// Connections, or nodes of a cluster, that are in use.
    pub nodes: u64,
}

/// What bounds each key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HotBounds {
    /// How long a key lives after it was last written to.
    pub ttl: std::time::Duration,
    /// Most turns of a session.
    pub turns: u64,
    /// Most bytes of a session's values. A copy of recent turns drops its oldest ones; an ephemeral session, too, and
    /// takes no turn that is larger by itself.
    pub bytes: u64,
}

impl Default for HotBounds {
    /// A day, 500 turns (DESIGN §7), 8 MiB.
    fn default() -> Self {
        Self {
            ttl: std::time::Duration::from_secs(24 * 60 * 60),
            turns: 500,
            bytes: 8 << 20,
        }
    }
}

/// A store of recent conversations. Every method is one atomic step, sets the time to live of the key that it writes in
/// that step, and looks at no other key.
///
/// All fail with `hot_unavailable` when the store does not answer, has no room, or answers what was never put; a
/// write that failed may have happened.
#[async_trait]
pub trait HotStore: Send + Sync {
    /// `memory` or `redis`.
    fn kind(&self) -> &'static str;

    /// What bounds each key.
    fn bounds(&self) -> HotBounds;

    /// Which state an ephemeral session is in; `None` when there is none.
    async fn edition(&self, key: &HotKey) -> Result<Option<Edition>, Failure>;

    /// An ephemeral session.
    async fn load(&self, key: &HotKey) -> Result<Option<Loaded>, Failure>;

    /// Changes an ephemeral session that is in the state `expected`, or makes one where there is none; `incarnation` is
    /// what a new one gets. `None`, and nothing is changed, when it is in another state.
    async fn commit(
        &self,
        key: &HotKey,
        expected: Option<Edition>,
        incarnation: u64,
        change: Change,
    ) -> Result<Option<Edition>, Failure>;

    /// Forgets an ephemeral session, with `expected` only in that state; whether it is gone.
    async fn forget(&self, key: &HotKey, expected: Option<Edition>) -> Result<bool, Failure>;

    /// The newest `limit` turns of a copy; `None` when there is none, or it is known to be no use.
    async fn recent(&self, key: &HotKey, limit: usize) -> Result<Option<Recent>, Failure>;

    /// Takes writes into the copies, in order.
    ///
    /// A step that begins where a copy ends takes it on. Steps behind it change nothing. Any other one leaves a copy that
    /// is no use, and no older step or fill makes it one again: the newest seq that was ever told is kept with it. Where
    /// there is no copy, a step that begins at seq 0 makes one.
    async fn advance(&self, steps: Vec<(HotKey, Step)>) -> Result<(), Failure>;

    /// Takes a copy made anew, unless a newer history is known there.
    async fn fill(&self, key: &HotKey, fill: Fill) -> Result<(), Failure>;

    /// Forgets a copy; nothing older than `seq` is taken in its place.
    async fn forget_recent(&self, key: &HotKey, seq: u64) -> Result<(), Failure>;

    /// How it is: asks the store.
    async fn health(&self) -> HotHealth;

    /// Why it is not used at the moment, without asking it.
    fn failure(&self) -> Option<String> {
        None
    }
}

/// Names what was asked of an ephemeral session that is not there any more, or never was: what the hot store has
/// forgotten it cannot tell from what it never knew.
#[must_use]
pub fn turn_expired(id: &TurnId) -> Failure {
    let what = format!("turn {id} is no longer kept");
    Failure::new(filrouge_types::ErrorCode::TurnExpired, what).with_hint(
        "a session without an identity is kept for a while after it was last written to: start the turn again",
    )
}
