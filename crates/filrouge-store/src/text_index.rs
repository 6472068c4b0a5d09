//! The port of a derived index of conversation texts (DESIGN §10). It narrows a search to candidate documents. It can
//! also store a body of each document, so that documents can be scanned without their source.
//!
//! A document is one message of a session, or its title. The caller defines the meaning of a document's body; an index
//! reads only its folded text. All data of an index is derived and can be rebuilt. [`TextIndex::forget`] and
//! [`TextIndex::clear`] delete data from all files before they return.
//!
//! Documents are stored in shards, one per owner: a query in one shard neither reads nor counts documents of another.

mod candidate;
mod difference;
mod fold;
#[cfg(any(test, feature = "contract"))]
pub mod memory;
mod narrows;
mod seal;

pub use candidate::{Candidate, CandidateFilter, CandidateQuery, product};
pub use difference::StoredDocument;
pub use fold::{fold, unfolded_range};
pub use narrows::{can_narrow, is_dense};
pub use seal::{BODY_MAC_BYTES, IndexKey, Member, Members, SEAL_BYTES, SealedRow, content_hash};

use filrouge_types::Failure;

/// The number of a session in an index; never reused.
pub type SessionNo = u64;
/// The number of a document in an index; never reused, and greater for newer documents.
pub type DocumentNo = u64;

/// The kind of a document that is a session's title; callers define other kinds with lower numbers.
pub const TITLE: u8 = 31;

/// The owner of documents: a realm (a tenant; empty for the histories of other programs) and an owner within the realm.
/// An index compares both, and does not interpret them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Shard {
    /// The realm.
    pub realm: Box<[u8]>,
    /// The owner.
    pub owner: Box<[u8]>,
}

/// The owners whose documents a query may return.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum IndexScope {
    /// One owner.
    Shard(Shard),
    /// All owners of a realm.
    Realm(Box<[u8]>),
}

impl IndexScope {
    /// Whether this scope includes the documents of `shard`.
    pub fn contains(&self, shard: &Shard) -> bool {
        match self {
            Self::Shard(owner_shard) => owner_shard == shard,
            Self::Realm(realm) => *realm == shard.realm,
        }
    }
}

/// A session as indexed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedSession {
    /// The session's number.
    pub no: SessionNo,
    /// The session's shard.
    pub shard: Shard,
    /// Its metadata.
    pub entry: SessionEntry,
}

/// The metadata of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionEntry {
    /// Its id; unique in its realm.
    pub key: Box<str>,
    /// The version of the session that was indexed. The caller that feeds the index defines the meaning of the numbers,
    /// except `[0, 0]`: the session was forgotten and must be read again.
    pub stamp: [u64; 2],
    /// The time of its last change, in milliseconds since 1970.
    pub updated: i64,
    /// Its project.
    pub project: Option<Box<str>>,
}

/// A document to add to an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDocument {
    /// Its id; unique in its session.
    pub key: Box<str>,
    /// The number of the part of the session that has the document. A changed part is read again as a unit. 0 if the
    /// session has only one part.
    pub unit: u64,
    /// Its kind: a role, or [`TITLE`]; below 32.
    pub kind: u8,
    /// The time of its creation, in milliseconds since 1970.
    pub created: i64,
    /// A hash that detects changes: equal for equal bodies.
    pub digest: u64,
    /// Its text for searching, folded with [`fold`], with each run of white space as one space.
    pub folded: String,
    /// The body that [`TextIndex::bodies`] returns; not interpreted.
    pub body: Vec<u8>,
}

/// A document as indexed, without its text and body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedDocument {
    /// Its number.
    pub no: DocumentNo,
    /// Its session.
    pub session: Key,
    /// [`NewDocument::key`].
    pub key: Box<str>,
    /// [`NewDocument::unit`].
    pub unit: u64,
    /// [`NewDocument::digest`].
    pub digest: u64,
}

/// The stored documents of a session that an update covers. Covered documents that the update does not contain are
/// removed. A document that is stored unchanged (same key, unit and digest) keeps its number and its vectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Coverage {
    /// All documents.
    All,
    /// All documents of these units, and those whose key the update contains.
    Units(Vec<u64>),
}

/// An update of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionUpdate {
    /// Its current shard. If the shard has changed, all old documents are removed, regardless of `coverage`.
    pub shard: Shard,
    /// Its metadata; the session is created if it does not exist.
    pub entry: SessionEntry,
    /// The part of the session that was read.
    pub coverage: Coverage,
    /// The documents of that part. If several have the same key, the last one is used.
    pub documents: Vec<NewDocument>,
}

/// A change of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexUpdate {
    /// A session was re-read.
    Session(SessionUpdate),
    /// A session no longer exists.
    Removed(Key),
    /// Vectors of documents, by the embedder with this id. Vectors of removed documents are ignored. An empty vector
    /// records that the embedder yields none for this document.
    Vectors(Box<str>, Vec<(DocumentNo, Vec<i8>)>),
}

/// A session by its realm and key.
pub type Key = (Box<[u8]>, Box<str>);

/// The size of an index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexStatus {
    /// The version of its format.
    pub format: u32,
    /// The number of sessions.
    pub sessions: u64,
    /// The number of documents.
    pub documents: u64,
    /// The size of the documents' folded texts, in bytes.
    pub text_bytes: u64,
    /// The size on disk in bytes.
    pub bytes: u64,
    /// The number of documents without postings yet; a search scans them one by one.
    pub pending: u64,
    /// The number of documents with a vector, by embedder.
    pub vectors: Vec<(Box<str>, u64)>,
}

/// The version of an index. [`TextIndex::change`] can require the version that its caller has read, and then applies
/// nothing if data was forgotten or another caller recorded a position in between.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IndexVersion {
    /// The feed position last given to [`TextIndex::change`]; `None` for a new index.
    pub position: Option<Box<[u8]>>,
    /// The number of calls of [`TextIndex::forget`] and [`TextIndex::clear`], even of those without effect; never
    /// decreases, even when the index is emptied.
    pub forgotten: u64,
}

/// A selection of sessions.
#[derive(Debug, Clone, Copy)]
pub enum SessionSelection<'a> {
    /// All sessions in this scope, ordered by number.
    Within(&'a IndexScope),
    /// The sessions in this scope with these numbers, in any order; missing ones are omitted.
    Numbers(&'a IndexScope, &'a [SessionNo]),
    /// The sessions with these realms and keys, in any order; missing ones are omitted.
    Named(&'a [Key]),
    /// At most this many sessions that were forgotten and not re-read (stamp `[0, 0]`), in any order.
    Unread(usize),
    /// The sessions whose stamp has this second number, in any order.
    Stamped(u64),
}

/// The state of an index at one moment.
#[derive(Debug, Clone, Default)]
pub struct IndexState {
    /// Its version.
    pub seen: IndexVersion,
    /// The selected sessions.
    pub sessions: Vec<IndexedSession>,
}

/// A derived index. All methods block; they may be called from several threads and several processes at once.
///
/// # Errors
/// Every method fails with `unavailable` when the index cannot be read or written, and with the store's codes for a
/// full disk. An index with another format or a damaged file is emptied when it is opened, because it can be rebuilt.
pub trait TextIndex: Send + Sync {
    /// Reads the version of the index and the selected sessions in one snapshot.
    ///
    /// # Errors
    /// As stated at the trait; likewise for all other methods.
    fn state(&self, selection: SessionSelection<'_>) -> Result<IndexState, Failure>;

    /// Applies updates atomically and records the feed position; `None` keeps the recorded one. Returns whether the
    /// updates were applied.
    ///
    /// With `expected`, they are applied only if the index still has this version. So data that was read before a
    /// `forget` is not written after it, and of two callers that feed the index concurrently only one succeeds.
    ///
    /// # Errors
    /// As stated at the trait.
    fn change(
        &self,
        expected: Option<&IndexVersion>,
        updates: &[IndexUpdate],
        position: Option<&[u8]>,
    ) -> Result<bool, Failure>;

    /// Deletes all documents of a session from every file; when it returns, no file contains the text or data derived
    /// from it, except what [`TextIndex::remains`] says. The session keeps an entry with stamp `[0, 0]`, so that it is re-read. Returns the number of deleted
    /// documents.
    ///
    /// # Errors
    /// As stated at the trait.
    fn forget(&self, realm: &[u8], key: &str) -> Result<u64, Failure>;

    /// Empties the index, as thoroughly as [`TextIndex::forget`].
    ///
    /// # Errors
    /// As stated at the trait.
    fn clear(&self) -> Result<(), Failure>;

    /// The candidates of a query: all documents that match, and possibly others.
    ///
    /// # Errors
    /// As stated at the trait.
    fn candidates(&self, query: &CandidateQuery<'_>) -> Result<Vec<Candidate>, Failure>;

    /// These documents, in the order of `numbers`; missing ones are omitted.
    ///
    /// # Errors
    /// As stated at the trait.
    fn documents(&self, numbers: &[DocumentNo]) -> Result<Vec<IndexedDocument>, Failure>;

    /// Calls `visit` with the number and the body of each of these documents, in the order of `documents`, until
    /// `visit` returns `false`. Missing documents are skipped.
    ///
    /// # Errors
    /// As stated at the trait.
    fn bodies(
        &self,
        documents: &[DocumentNo],
        visit: &mut dyn FnMut(DocumentNo, &[u8]) -> bool,
    ) -> Result<(), Failure>;

    /// Runs one maintenance step that keeps queries fast (a few to some tens of milliseconds); returns whether more
    /// work is left.
    ///
    /// # Errors
    /// As stated at the trait.
    fn tidy(&self) -> Result<bool, Failure>;

    /// Compares the sessions and documents of a scope with their seals, unless nothing has changed them since they were
    /// compared. Sessions with other documents than those that were written are forgotten. Damage that concerns no
    /// single session empties the index. Does nothing without a key of the seals.
    ///
    /// # Errors
    /// `unavailable` when the index was emptied. As stated at the trait.
    fn verify(&self, _scope: &IndexScope) -> Result<(), Failure> {
        Ok(())
    }

    /// Where bytes of forgotten text remain after [`TextIndex::forget`], and until when; `None` if nowhere.
    fn remains(&self) -> Option<&'static str> {
        None
    }

    /// The number of damages that were found since the index was opened: of sessions, or of the index.
    fn damaged(&self) -> u64 {
        0
    }

    /// The size of the index.
    ///
    /// # Errors
    /// As stated at the trait.
    fn status(&self) -> Result<IndexStatus, Failure>;
}
