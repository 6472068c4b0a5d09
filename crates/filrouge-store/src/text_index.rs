//! The port of a derived index of what was said (DESIGN §10): it narrows a search to documents that may hold what is
//! looked for, and keeps those documents, so that they can be looked through without their source.
//!
//! A document is one message of a session, or its title. What its bytes mean is the asker's affair; an index knows its
//! folded text alone. Everything in it comes from somewhere else and can be made again; what is told to be forgotten is
//! gone from its files before the call returns.
//!
//! Documents lie in shards, one for each owner: what is asked in one shard neither reads nor counts anything of another.

mod fold;
#[cfg(any(test, feature = "contract"))]
pub mod memory;
mod narrows;

pub use fold::{fold, place};
pub use narrows::{is_dense, narrows};

use std::collections::HashMap;
use std::ptr;

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

/// Which documents of a session an update speaks of: those of them that it does not bring go. A document that it brings as
/// it is there (key, unit and digest) stays, with its number and its vectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Coverage {
    /// All.
    Whole,
    /// All of these units, and those whose key is put anew.
    Units(Vec<u64>),
}

/// What has become of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionUpdate {
    /// Where it lies now. In another shard than before all its documents go, whatever `coverage` says.
    pub shard: Shard,
    /// What is known of it; it is made if it is not there.
    pub entry: SessionEntry,
    /// What was read of it.
    pub coverage: Coverage,
    /// The documents of that; of several with one key the last one counts.
    pub documents: Vec<NewDocument>,
}

/// A document that is there: its key, unit and digest.
pub type There<'t> = (&'t str, u64, u64);

impl SessionUpdate {
    /// The places of those documents that go, of those that are there, and the documents that come.
    #[must_use]
    pub fn difference<'t>(
        &self,
        there: impl Iterator<Item = There<'t>>,
    ) -> (Vec<usize>, Vec<&NewDocument>) {
        let mut last: HashMap<&str, &NewDocument> =
            self.documents.iter().map(|d| (&*d.key, d)).collect();
        let mut going = Vec::new();
        for (at, (key, unit, digest)) in there.enumerate() {
            match last.get(key) {
                Some(new) if (new.unit, new.digest) == (unit, digest) => drop(last.remove(key)),
                None if !self.coverage.holds(unit) => {}
                _ => going.push(at),
            }
        }
        let comes = |d: &&NewDocument| last.get(&*d.key).is_some_and(|last| ptr::eq(*last, *d));
        (going, self.documents.iter().filter(comes).collect())
    }
}

impl Coverage {
    fn holds(&self, unit: u64) -> bool {
        match self {
            Self::Whole => true,
            Self::Units(units) => units.contains(&unit),
        }
    }
}

/// A change of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexUpdate {
    /// A session was read again.
    Session(SessionUpdate),
    /// A session is not there any more.
    Gone(Key),
    /// Vectors of an embedder, by its id; those of documents that are gone are left out. A vector without elements marks a
    /// document that has none.
    Vectors(Box<str>, Vec<(DocumentNo, Vec<i8>)>),
}

/// A session by its realm and key.
pub type Key = (Box<[u8]>, Box<str>);

/// Which documents are asked for.
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
    /// What they must hold, and which come first.
    pub wanted: Wanted<'a>,
}

/// What makes a document a candidate. A term is met by one of its literals, which are folded; terms that cannot narrow are
/// not among them.
#[derive(Debug, Clone, Copy)]
pub enum Wanted<'a> {
    /// All terms are met; without terms, every document is one. The newest number first.
    All(&'a [Vec<String>]),
    /// A term is met. Those that meet the most come first, of equal ones the newest.
    Any(&'a [Vec<String>]),
    /// So many whose vectors of an embedder have the greatest product with this one, the greatest first.
    Nearest(&'a str, &'a [i8], usize),
    /// So many that have no vector of this embedder yet, the newest first; whose they are does not count.
    WithoutVector(&'a str, usize),
}

impl<'a> Wanted<'a> {
    /// The terms that are looked for.
    #[must_use]
    pub const fn terms(&self) -> &'a [Vec<String>] {
        match self {
            Self::All(terms) | Self::Any(terms) => terms,
            Self::Nearest(..) | Self::WithoutVector(..) => &[],
        }
    }

    /// Whether one term is enough.
    #[must_use]
    pub const fn is_any(&self) -> bool {
        matches!(self, Self::Any(_))
    }
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
    /// The product of its vector, where nearest ones were asked for.
    pub near: i32,
}

impl CandidateQuery<'_> {
    /// Whether a document passes everything that is asked but whose it is and the terms.
    #[must_use]
    pub fn takes(&self, candidate: &Candidate) -> bool {
        let bit = 1_u32.checked_shl(u32::from(candidate.kind)).unwrap_or(0);
        let title = candidate.kind == TITLE;
        self.kinds & bit != 0
            && (title || self.since.is_none_or(|since| candidate.created >= since))
            && (title || self.until.is_none_or(|until| candidate.created < until))
            && self
                .sessions
                .is_none_or(|sessions| sessions.contains(&candidate.session))
    }
}

/// The product of two vectors of one length; there is none of others, nor of such without elements.
#[must_use]
pub fn product(a: &[i8], b: &[i8]) -> Option<i32> {
    if a.is_empty() || a.len() != b.len() {
        return None;
    }
    let each = a.iter().zip(b);
    Some(each.map(|(a, b)| i32::from(*a) * i32::from(*b)).sum())
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
    /// How far the feed has been read, as [`TextIndex::change`] was given it; `None` for an index that is new.
    pub position: Option<Box<[u8]>>,
    /// How often [`TextIndex::forget`] and [`TextIndex::clear`] were called, whether or not something was there; never
    /// falls, also not when it is emptied.
    pub forgotten: u64,
}

/// Which sessions are asked for.
#[derive(Debug, Clone, Copy)]
pub enum Which<'a> {
    /// All within reach, in the order of their numbers.
    Within(&'a Reach),
    /// Those with these numbers within reach, in any order; those that are gone are left out.
    Numbers(&'a Reach, &'a [SessionNo]),
    /// Those with these realms and keys, in any order; those that are not there are left out.
    Named(&'a [Key]),
    /// At most so many that were forgotten and not read again (stamp `[0, 0]`), in any order.
    Unread(usize),
}

/// What an index knows at one moment.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// How it is.
    pub seen: Seen,
    /// The sessions that were asked for.
    pub sessions: Vec<IndexedSession>,
}

/// A derived index. All methods block; they may be called from several threads and several processes at once.
///
/// # Errors
/// Every method: `unavailable` when the index cannot be read or written, `full_disk`-like codes as the store's. An index
/// whose format is another or whose file is damaged is emptied when it is opened: it can be made again.
pub trait TextIndex: Send + Sync {
    /// How it is, and what it knows of sessions, at one moment.
    ///
    /// # Errors
    /// As the trait says; so do all others.
    fn known(&self, which: Which<'_>) -> Result<Known, Failure>;

    /// Makes changes, all or none, and notes how far the feed has been read. With `expected` only if the index is still so:
    /// what was read before something was forgotten is not put behind it, and of two feeders one makes the step. Whether the
    /// changes were made.
    ///
    /// # Errors
    /// As the trait says.
    fn change(
        &self,
        expected: Option<&Seen>,
        updates: &[IndexUpdate],
        position: Option<&[u8]>,
    ) -> Result<bool, Failure>;

    /// Removes all documents of a session from every file: no word of it, and nothing that one could be learned from, is left
    /// when this returns. The session stays known with stamp `[0, 0]`, so that it is read again. How many documents there
    /// were.
    ///
    /// # Errors
    /// As the trait says.
    fn forget(&self, realm: &[u8], key: &str) -> Result<u64, Failure>;

    /// Empties it, as [`TextIndex::forget`] does.
    ///
    /// # Errors
    /// As the trait says.
    fn clear(&self) -> Result<(), Failure>;

    /// The documents that may hold what is looked for: all that do, and perhaps others.
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

    /// Does a small step of what keeps questions fast (a few milliseconds to some tens); whether there is more to do.
    ///
    /// # Errors
    /// As the trait says.
    fn tidy(&self) -> Result<bool, Failure>;

    /// How large it is.
    ///
    /// # Errors
    /// As the trait says.
    fn status(&self) -> Result<IndexStatus, Failure>;
}
