//! The port of a derived index of what was said (DESIGN §10): it narrows a search to documents that may hold what is
//! looked for, and keeps those documents, so that they can be looked through without their source.
//!
//! A document is one message of a session, or its title. What its bytes mean is the asker's affair; an index knows its
//! folded text alone. Everything in it comes from somewhere else and can be made again; what is told to be forgotten is
//! gone from its files before the call returns.
//!
//! Documents lie in shards, one for each owner: what is asked in one shard neither reads nor counts anything of another.

mod fold;
pub mod memory;
mod narrows;

pub use fold::{fold, place};
pub use narrows::{is_dense, narrows};

use std::sync::Arc;

use filrouge_types::Failure;

/// The number of a session in an index; never given again.
pub type SessionNo = u64;
/// The number of a document in an index; never given again, newer ones have greater ones.
pub type DocumentNo = u64;

/// The kind of the document that is a session's title; others are the asker's, below it.
pub const TITLE: u8 = 31;

/// Whose documents: a realm (a tenant; empty for foreign histories) and an owner within it, both opaque.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Shard {
    /// The realm.
    pub realm: Box<[u8]>,
    /// The owner.
    pub owner: Box<[u8]>,
}

/// Whose documents a question is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// One owner's.
    Shard(Shard),
    /// Those of all owners of a realm.
    Realm(Box<[u8]>),
}

impl Reach {
    /// Whether a shard's documents are among them.
    #[must_use]
    pub fn holds(&self, shard: &Shard) -> bool {
        match self {
            Self::Shard(own) => own == shard,
            Self::Realm(realm) => *realm == shard.realm,
        }
    }
}

/// A session as an index knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedSession {
    /// Its number.
    pub no: SessionNo,
    /// Where it lies.
    pub shard: Shard,
    /// What is known of it.
    pub entry: SessionEntry,
}

/// What is kept of a session beside its documents.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionEntry {
    /// Its id; unique in its realm.
    pub key: Box<str>,
    /// The state in which it was read; what the numbers mean is the feeder's affair.
    pub stamp: [u64; 2],
    /// When it last changed, milliseconds since 1970.
    pub updated: i64,
    /// Its project.
    pub project: Option<Box<str>>,
}

/// A document to be put into an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDocument {
    /// Its id; unique in its session.
    pub key: Box<str>,
    /// The part of the session that is read again as one when it changes; 0 where there is but one.
    pub unit: u64,
    /// What it is: a role, or [`TITLE`]; below 32.
    pub kind: u8,
    /// When it was said, milliseconds since 1970.
    pub created: i64,
    /// Tells whether a document has changed: equal for equal bodies.
    pub digest: u64,
    /// Its text, folded with [`fold`], runs of white space as one space: what is looked for in it.
    pub folded: String,
    /// What is given back; not interpreted.
    pub body: Vec<u8>,
}

/// A document that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownDocument {
    /// Its id in its session.
    pub key: Box<str>,
    /// [`NewDocument::unit`].
    pub unit: u64,
    /// [`NewDocument::digest`].
    pub digest: u64,
}

/// Which documents of a session go, beside those whose key is put anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gone {
    /// Those with these keys.
    Keys(Vec<Box<str>>),
    /// All of these units.
    Units(Vec<u64>),
    /// All.
    All,
}

/// What has become of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionUpdate {
    /// Where it lies now. In another shard than before all its documents go, whatever `gone` says.
    pub shard: Shard,
    /// What is known of it; it is made if it is not there.
    pub entry: SessionEntry,
    /// What goes.
    pub gone: Gone,
    /// What comes.
    pub documents: Vec<NewDocument>,
}

/// A change of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexUpdate {
    /// A session was read again.
    Session(SessionUpdate),
    /// A session is not there any more, by its realm and key.
    Gone(Box<[u8]>, Box<str>),
}

/// What a document must hold to be a candidate, and which are asked for.
#[derive(Debug, Clone)]
pub struct CandidateQuery<'a> {
    /// Whose.
    pub reach: &'a Reach,
    /// Only of these sessions.
    pub sessions: Option<&'a [SessionNo]>,
    /// A bit for each kind that is asked for.
    pub kinds: u32,
    /// Only documents at this time or later, milliseconds since 1970; titles always.
    pub since: Option<i64>,
    /// Only documents before this time; titles always.
    pub until: Option<i64>,
    /// All of these must be met, each by one of its literals, which are folded. What cannot be narrowed is not here.
    pub terms: &'a [Vec<String>],
    /// Whether `terms` are alternatives: one that is met is enough, and the best come first (see [`Candidate::met`]).
    pub any: bool,
}

/// A document that may hold what is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Its number.
    pub document: DocumentNo,
    /// Its session.
    pub session: SessionNo,
    /// [`NewDocument::kind`].
    pub kind: u8,
    /// [`NewDocument::created`].
    pub created: i64,
    /// A bit for each of the first 64 terms that it may hold.
    pub met: u64,
    /// Whether it is known to have all words of what is asked as whole words; an index that cannot tell says no.
    pub whole: bool,
}

/// How an index is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexStatus {
    /// The version of its format.
    pub format: u32,
    /// Sessions in it.
    pub sessions: u64,
    /// Documents in it.
    pub documents: u64,
    /// Bytes of their folded texts.
    pub text_bytes: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Documents that wait to be put into postings: they are looked through one by one.
    pub pending: u64,
    /// Documents with a vector, by embedder.
    pub vectors: Vec<(Box<str>, u64)>,
}

/// How an index was at a moment, for a change that must not be made over what came in between.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    /// [`TextIndex::position`].
    pub position: Option<Box<[u8]>>,
    /// How often [`TextIndex::forget`] and [`TextIndex::clear`] were called, whether or not something was there; never
    /// falls, also not when it is emptied.
    pub forgotten: u64,
}

/// A derived index. All methods block; they may be called from several threads and several processes at once.
///
/// # Errors
/// Every method: `unavailable` when the index cannot be read or written, `full_disk`-like codes as the store's. An index
/// whose format is another or whose file is damaged is emptied when it is opened: it can be made again.
pub trait TextIndex: Send + Sync {
    /// How far the feed has been read, as [`TextIndex::apply`] was told; `None` for an index that is new.
    ///
    /// # Errors
    /// As the trait says; so do all others.
    fn position(&self) -> Result<Option<Box<[u8]>>, Failure>;

    /// A session, by its realm and key.
    ///
    /// # Errors
    /// As the trait says.
    fn session(&self, realm: &[u8], key: &str) -> Result<Option<IndexedSession>, Failure>;

    /// All sessions within reach.
    ///
    /// # Errors
    /// As the trait says.
    fn sessions(&self, reach: &Reach) -> Result<Arc<Vec<IndexedSession>>, Failure>;

    /// The sessions with these numbers, in their order; those that are gone are left out.
    ///
    /// # Errors
    /// As the trait says.
    fn sessions_by_no(&self, numbers: &[SessionNo]) -> Result<Vec<IndexedSession>, Failure>;

    /// As [`TextIndex::sessions_by_no`], of sessions within reach: an index that remembers these need not read many one by
    /// one. In any order.
    ///
    /// # Errors
    /// As the trait says.
    fn sessions_within(
        &self,
        _reach: &Reach,
        numbers: &[SessionNo],
    ) -> Result<Vec<IndexedSession>, Failure> {
        self.sessions_by_no(numbers)
    }

    /// The documents of a session.
    ///
    /// # Errors
    /// As the trait says.
    fn documents(&self, session: SessionNo) -> Result<Vec<KnownDocument>, Failure>;

    /// Makes changes, all or none, and notes how far the feed has been read.
    ///
    /// # Errors
    /// As the trait says.
    fn apply(&self, updates: &[IndexUpdate], position: Option<&[u8]>) -> Result<(), Failure>;

    /// How it is at this moment.
    ///
    /// # Errors
    /// As the trait says.
    fn seen(&self) -> Result<Seen, Failure>;

    /// As [`TextIndex::apply`], if it is still as `seen`: what was read before something was forgotten is not put behind
    /// it, and of two feeders one makes the step. Whether the changes were made; looked at in their transaction.
    ///
    /// # Errors
    /// As the trait says.
    fn apply_if(
        &self,
        seen: &Seen,
        updates: &[IndexUpdate],
        position: Option<&[u8]>,
    ) -> Result<bool, Failure>;

    /// At most `limit` sessions that were forgotten and not read again (stamp `[0, 0]`), in any order.
    ///
    /// # Errors
    /// As the trait says.
    fn unread(&self, limit: usize) -> Result<Vec<IndexedSession>, Failure>;

    /// Removes all documents of a session from every file: no word of it, and nothing that tells of one, is left when this
    /// returns. The session stays known with stamp `[0, 0]`, so that it is read again. How many documents there were.
    ///
    /// # Errors
    /// As the trait says.
    fn forget(&self, realm: &[u8], key: &str) -> Result<u64, Failure>;

    /// Does a small step of what keeps questions fast (a few milliseconds to some tens); whether there is more to do.
    ///
    /// # Errors
    /// As the trait says.
    fn tidy(&self) -> Result<bool, Failure>;

    /// The documents that may hold what is looked for: all that do, and perhaps others; the newest number first. No
    /// terms: all that pass the rest.
    ///
    /// # Errors
    /// As the trait says.
    fn candidates(&self, query: &CandidateQuery<'_>) -> Result<Vec<Candidate>, Failure>;

    /// Shows `each` the bodies of these documents, in their order, until it says no; those that are gone are left out.
    ///
    /// # Errors
    /// As the trait says.
    fn bodies(
        &self,
        documents: &[DocumentNo],
        each: &mut dyn FnMut(DocumentNo, &[u8]) -> bool,
    ) -> Result<(), Failure>;

    /// At most `limit` documents of these kinds (a bit for each) that have no vector of this embedder yet, newest first.
    ///
    /// # Errors
    /// As the trait says.
    fn without_vector(
        &self,
        embedder: &str,
        kinds: u32,
        limit: usize,
    ) -> Result<Vec<DocumentNo>, Failure>;

    /// Puts vectors of an embedder; those of documents that are gone are left out. A vector without elements marks a
    /// document that has none.
    ///
    /// # Errors
    /// As the trait says.
    fn put_vectors(&self, embedder: &str, vectors: &[(DocumentNo, Vec<i8>)])
    -> Result<(), Failure>;

    /// The `limit` documents whose vectors have the greatest product with `vector`, the greatest first, of those that
    /// pass everything in `query` but its terms.
    ///
    /// # Errors
    /// As the trait says.
    fn nearest(
        &self,
        embedder: &str,
        vector: &[i8],
        query: &CandidateQuery<'_>,
        limit: usize,
    ) -> Result<Vec<(Candidate, i32)>, Failure>;

    /// Removes the vectors of all embedders but this one.
    ///
    /// # Errors
    /// As the trait says.
    fn keep_vectors_of(&self, embedder: Option<&str>) -> Result<(), Failure>;

    /// Empties it.
    ///
    /// # Errors
    /// As the trait says.
    fn clear(&self) -> Result<(), Failure>;

    /// How it is.
    ///
    /// # Errors
    /// As the trait says.
    fn status(&self) -> Result<IndexStatus, Failure>;
}
