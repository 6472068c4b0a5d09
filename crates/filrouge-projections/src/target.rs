//! The port of a target: a store outside the ledger that holds rows derived from sessions.
//!
//! The projector calls [`Target::rows`] for each session that changed, or for the turns of it that changed, and gives the
//! rows to [`Target::write`]. The only other writer is a process that cleans a session after a redaction or an erasure.
//! All calls may be repeated: a row is identified by its table and id, and a row with a smaller version never replaces one
//! with a greater version.
//!
//! A target holds *generations*, which are complete sets of rows. Queries see one of them. A rebuild fills another one,
//! and [`Target::publish`] makes it the one that queries see.

use async_trait::async_trait;
use filrouge_types::{Checkpoint, IdentityId, Recorded, SessionEvent, SessionId, TenantId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A session by its tenant and id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey {
    /// The session's tenant.
    pub tenant: TenantId,
    /// The session's id.
    pub session: SessionId,
}

/// A session, or those of its turns that changed, as read from the ledger. What the projection's settings leave out or
/// mask is already left out and masked.
#[derive(Debug, Clone)]
pub struct SessionUpdate {
    /// The session.
    pub key: SessionKey,
    /// The number of the newest commit of the session's lane when the session was read. It only grows for a session.
    pub version: u64,
    /// Whether the update has the entire session. Then rows of the session that it lacks are deleted.
    pub is_entire: bool,
    /// The session and its turns and items.
    pub recorded: Recorded,
    /// The session's events, all of them, in the order in which they were recorded.
    pub events: Vec<SessionEvent>,
    /// The checkpoints that the session still has, oldest first.
    pub checkpoints: Vec<Checkpoint>,
}

/// A row of a target: a row of a table, a document of an index, an object of a collection.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The table, index or collection, without the prefix of the settings and without a generation.
    pub table: &'static str,
    /// The row's id, unique in its table.
    pub id: String,
    /// Its columns or fields, as the target returns them. Without the version.
    pub content: Map<String, Value>,
}

/// A change of the rows of a session.
#[derive(Debug, Clone)]
pub enum Update {
    /// Rows to write.
    Rows {
        /// The session.
        key: SessionKey,
        /// [`SessionUpdate::version`].
        version: u64,
        /// Whether other rows of the session that have a smaller version are deleted.
        is_entire: bool,
        /// The rows.
        rows: Vec<Row>,
    },
    /// All rows of the session are deleted: it was erased, or the settings no longer select it.
    Removed {
        /// The session.
        key: SessionKey,
        /// The number of the commit that erased it.
        version: u64,
    },
}

impl Update {
    /// The session.
    #[must_use]
    pub const fn key(&self) -> &SessionKey {
        match self {
            Self::Rows { key, .. } | Self::Removed { key, .. } => key,
        }
    }
}

/// An update that the target refused permanently, for example because a field has another type there. It becomes a
/// dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The session.
    pub key: SessionKey,
    /// The target's reason.
    pub reason: String,
}

/// The result of [`Target::clean`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cleaned {
    /// Where bytes of the rows may remain in the target's files, and until when; `None` if nowhere.
    pub remains: Option<&'static str>,
}

/// How far a generation is filled, as the target itself says. The ledger's note says the same: a stamp that is behind the
/// note is that of an older state of the target, such as a backup. Stamps of a generation that is filled from another
/// program's history are numbered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// The number of the ledger's commits up to the position, or the number of the stamp.
    pub commits: u64,
    /// The position in the ledger, as the projector writes it, or the number that the note had before.
    pub position: String,
}

/// A question for which similar turns are wanted.
#[derive(Debug, Clone)]
pub struct SimilarQuery {
    /// The tenant whose turns are compared.
    pub tenant: TenantId,
    /// Only turns of this owner's sessions; `None` for those of the entire tenant.
    pub owner: Option<IdentityId>,
    /// The question.
    pub text: String,
    /// Its vector, by the embedder of the projection's vectors.
    pub vector: Vec<f32>,
    /// The maximum number of turns.
    pub limit: usize,
}

/// A turn that is similar to a question.
#[derive(Debug, Clone, PartialEq)]
pub struct SimilarTurn {
    /// The turn's session.
    pub session: SessionId,
    /// The turn's number in its session.
    pub ordinal: u64,
    /// How similar it is, from 0 to 1.
    pub score: f64,
}

/// Why a target cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The target does not answer, or asks to try again. Repeating the call can help.
    #[error("{0}")]
    Unavailable(String),
    /// The target's structure is not the one that filrouge created: an index or a table is missing, or a field has
    /// another type. Only a rebuild helps.
    #[error("{0}")]
    Altered(String),
    /// The target refuses the call: wrong credentials, no permission, a version that is not supported.
    #[error("{0}")]
    Refused(String),
}

/// A store outside the ledger.
#[async_trait]
pub trait Target: Send + Sync {
    /// The rows of a session, or of its turns in the update. Depends only on the update.
    fn rows(&self, update: &SessionUpdate) -> Vec<Row>;

    /// The generation that queries see; `None` if none was published.
    ///
    /// # Errors
    /// [`TargetError`], as for all methods.
    async fn published(&self) -> Result<Option<u64>, TargetError>;

    /// Creates an empty generation. One with this number that exists already is kept if it has the structure that this
    /// version creates.
    ///
    /// # Errors
    /// [`TargetError::Altered`] if it exists in another structure.
    async fn create(&self, generation: u64) -> Result<(), TargetError>;

    /// Applies updates to a generation. When it returns, the changes are durable; queries may see them a moment later.
    /// Returns the updates that were refused; all others were applied.
    ///
    /// # Errors
    /// Any part of the updates may have been applied.
    async fn write(
        &self,
        generation: u64,
        updates: Vec<Update>,
    ) -> Result<Vec<Refused>, TargetError>;

    /// The stamp of a generation; `None` if it has none.
    ///
    /// # Errors
    /// For a generation that does not exist, either [`TargetError::Altered`] or `None`.
    async fn stamp(&self, generation: u64) -> Result<Option<Stamp>, TargetError>;

    /// Stores the stamp of a generation beside its rows, so that a copy of the rows has it too. Queries do not see it. A
    /// stamp with fewer commits replaces none. When it returns, the stamp is durable.
    ///
    /// # Errors
    /// [`TargetError::Altered`] if the generation does not exist.
    async fn set_stamp(&self, generation: u64, stamp: &Stamp) -> Result<(), TargetError>;

    /// Makes a generation the one that queries see, at one moment, and deletes all others.
    ///
    /// # Errors
    /// [`TargetError::Altered`] if the generation does not exist.
    async fn publish(&self, generation: u64) -> Result<(), TargetError>;

    /// Deletes all rows of a session with a version up to `version` from all generations, so that no query returns them
    /// any more, and asks the target to delete their bytes as far as it can.
    ///
    /// # Errors
    /// [`TargetError`].
    async fn clean(&self, key: &SessionKey, version: u64) -> Result<Cleaned, TargetError>;

    /// Sessions that have rows in a generation, in the order of their keys, after `after`; at most `limit`.
    ///
    /// # Errors
    /// [`TargetError`].
    async fn sessions(
        &self,
        generation: u64,
        after: Option<&SessionKey>,
        limit: usize,
    ) -> Result<Vec<SessionKey>, TargetError>;

    /// The rows of a session in a generation, in any order, as they are stored.
    ///
    /// # Errors
    /// [`TargetError`].
    async fn stored(&self, generation: u64, key: &SessionKey) -> Result<Vec<Row>, TargetError>;

    /// The turns that are the most similar to a question, the best first, in the generation that queries see. `None` if
    /// the target has no vectors of this length, or none was published.
    ///
    /// # Errors
    /// [`TargetError`].
    async fn similar(
        &self,
        _query: &SimilarQuery,
    ) -> Result<Option<Vec<SimilarTurn>>, TargetError> {
        Ok(None)
    }
}
