//! The suite every [`TextIndex`] has to pass. A backend's test file gives a function that makes an [`IndexFixture`]:
//!
//! ```text
//! fn index() -> filrouge_store::contract::text_index::IndexFixture { … }
//! filrouge_store::index_contract_tests!(index);
//! ```

pub mod asks;
pub mod life;
pub mod random;
pub mod vectors;

use std::any::Any;
use std::sync::Arc;

use crate::text_index::memory::MemoryIndex;
use filrouge_types::Failure;

use crate::text_index::{
    Candidate, CandidateQuery, Coverage, DocumentNo, IndexUpdate, IndexedSession, NewDocument,
    Reach, Seen, SessionEntry, SessionUpdate, Shard, TextIndex, Wanted, Which, fold,
};

/// How tests ask an index.
pub trait Asking: TextIndex {
    fn apply(&self, updates: &[IndexUpdate], position: Option<&[u8]>) -> Result<(), Failure> {
        assert!(self.change(None, updates, position)?);
        Ok(())
    }

    fn apply_if(
        &self,
        seen: &Seen,
        updates: &[IndexUpdate],
        position: Option<&[u8]>,
    ) -> Result<bool, Failure> {
        self.change(Some(seen), updates, position)
    }

    fn seen(&self) -> Result<Seen, Failure> {
        Ok(self.known(Which::Named(&[]))?.seen)
    }

    fn position(&self) -> Result<Option<Box<[u8]>>, Failure> {
        Ok(self.seen()?.position)
    }

    fn session(&self, realm: &[u8], key: &str) -> Result<Option<IndexedSession>, Failure> {
        let keys = [(realm.into(), key.into())];
        Ok(self.known(Which::Named(&keys))?.sessions.first().cloned())
    }

    fn sessions(&self, reach: &Reach) -> Result<Vec<IndexedSession>, Failure> {
        Ok(self.known(Which::Within(reach))?.sessions)
    }

    fn unread(&self, limit: usize) -> Result<Vec<IndexedSession>, Failure> {
        Ok(self.known(Which::Unread(limit))?.sessions)
    }

    fn without_vector(
        &self,
        embedder: &str,
        kinds: u32,
        limit: usize,
    ) -> Result<Vec<DocumentNo>, Failure> {
        let reach = Reach::Realm(Box::default());
        let found = self.candidates(&CandidateQuery {
            kinds,
            wanted: Wanted::WithoutVector(embedder, limit),
            ..query(&reach, &[])
        });
        Ok(numbers(&found?))
    }

    fn nearest(
        &self,
        embedder: &str,
        vector: &[i8],
        query: &CandidateQuery<'_>,
        limit: usize,
    ) -> Result<Vec<(Candidate, i32)>, Failure> {
        let found = self.candidates(&CandidateQuery {
            wanted: Wanted::Nearest(embedder, vector, limit),
            ..query.clone()
        });
        let apart = |c: Candidate| (Candidate { near: 0, ..c }, c.near);
        Ok(found?.into_iter().map(apart).collect())
    }

    fn put_vectors(
        &self,
        embedder: &str,
        vectors: &[(DocumentNo, Vec<i8>)],
    ) -> Result<(), Failure> {
        self.apply(
            &[IndexUpdate::Vectors(embedder.into(), vectors.to_vec())],
            None,
        )
    }
}

impl<T: TextIndex + ?Sized> Asking for T {}

/// An index under test.
pub struct IndexFixture {
    pub index: Arc<dyn TextIndex>,
    /// Another handle on the same index, as another process has it.
    pub again: Box<dyn Fn() -> Arc<dyn TextIndex> + Send + Sync>,
    /// Kept until the test ends, such as a temporary directory.
    pub keep: Box<dyn Any + Send + Sync>,
}

/// Makes a `#[test]` of every test of the suite, over the indexes that `$make` gives.
#[macro_export]
macro_rules! index_contract_tests {
    ($make:ident) => {
        $crate::index_contract_tests! { @each $make;
            life {
                documents_come_and_go, what_is_the_same_stays, a_session_moves, all_or_nothing_and_where, only_as_it_was_seen,
                forgotten_is_gone, emptied, numbers_are_not_given_again, how_it_is, two_handles,
            }
            asks { kinds_times_and_sessions, alternatives, bodies_in_order, short_words, many_documents }
            random { nothing_is_missed, others_are_not_seen }
            vectors { the_nearest, without_vectors, vectors_go_with_their_documents }
        }
    };
    (@each $make:ident; $($module:ident { $($test:ident),* $(,)? })*) => {
        $(mod $module {
            $(#[test]
            fn $test() {
                $crate::contract::text_index::$module::$test(&super::$make);
            })*
        })*
    };
}

/// The index in memory.
pub fn memory() -> IndexFixture {
    let index = Arc::new(MemoryIndex::default());
    let same = index.clone();
    IndexFixture {
        index,
        again: Box::new(move || same.clone()),
        keep: Box::new(()),
    }
}

pub const ALL_KINDS: u32 = u32::MAX;

pub fn shard(realm: &str, owner: &str) -> Shard {
    Shard {
        realm: realm.as_bytes().into(),
        owner: owner.as_bytes().into(),
    }
}

pub fn entry(key: &str) -> SessionEntry {
    SessionEntry {
        key: key.into(),
        stamp: [1, 2],
        updated: 3,
        project: Some("p".into()),
    }
}

/// A document whose body is its key and its text.
pub fn document(key: &str, unit: u64, text: &str) -> NewDocument {
    let folded = fold(text).into_owned();
    NewDocument {
        key: key.into(),
        unit,
        kind: 1,
        created: 1000,
        digest: folded
            .bytes()
            .fold(7, |d: u64, b| d.wrapping_mul(31).wrapping_add(u64::from(b))),
        body: format!("{key}={text}").into_bytes(),
        folded,
    }
}

pub fn update(
    of: &Shard,
    key: &str,
    coverage: Coverage,
    documents: Vec<NewDocument>,
) -> IndexUpdate {
    IndexUpdate::Session(SessionUpdate {
        shard: of.clone(),
        entry: entry(key),
        coverage,
        documents,
    })
}

/// One session with these texts, whose keys count from 0.
pub fn texts(of: &Shard, key: &str, texts: &[&str]) -> IndexUpdate {
    let each = texts.iter().enumerate();
    let documents = each.map(|(n, text)| document(&n.to_string(), n as u64, text));
    update(of, key, Coverage::Whole, documents.collect())
}

/// A question for all that holds every one of these.
pub fn all_of(words: &[&str]) -> Vec<Vec<String>> {
    let term = |word: &&str| vec![fold(word).into_owned()];
    words.iter().map(term).collect()
}

pub fn query<'a>(reach: &'a Reach, terms: &'a [Vec<String>]) -> CandidateQuery<'a> {
    CandidateQuery {
        reach,
        sessions: None,
        kinds: ALL_KINDS,
        since: None,
        until: None,
        wanted: Wanted::All(terms),
    }
}

pub fn numbers(found: &[Candidate]) -> Vec<DocumentNo> {
    found.iter().map(|c| c.document).collect()
}

/// The bodies of what is found, as texts, the newest first.
#[track_caller]
pub fn shown(index: &dyn TextIndex, query: &CandidateQuery<'_>) -> Vec<String> {
    let found = index.candidates(query).unwrap();
    bodies(index, &numbers(&found))
}

#[track_caller]
pub fn bodies(index: &dyn TextIndex, numbers: &[DocumentNo]) -> Vec<String> {
    let mut shown = Vec::new();
    let mut each = |_: DocumentNo, body: &[u8]| {
        shown.push(String::from_utf8(body.to_vec()).unwrap());
        true
    };
    index.bodies(numbers, &mut each).unwrap();
    shown
}

/// What is found by words in one shard, verified: those whose body holds them.
#[track_caller]
pub fn found(index: &dyn TextIndex, of: &Shard, words: &[&str]) -> Vec<String> {
    let terms = all_of(words);
    let mut shown = shown(index, &query(&Reach::Shard(of.clone()), &terms));
    shown.retain(|body| {
        let text = fold(body.split_once('=').unwrap().1).into_owned();
        terms.iter().all(|term| text.contains(&term[0]))
    });
    shown
}

/// Lets it tidy up for as long as it has something to do.
#[track_caller]
pub fn tidied(index: &dyn TextIndex) {
    for _ in 0..10_000 {
        if !index.tidy().unwrap() {
            return;
        }
    }
    panic!("there is no end of tidying");
}
