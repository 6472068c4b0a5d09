//! The suite that every [`TextIndex`] must pass. A backend's test file names a function that creates an
//! [`IndexFixture`]:
//!
//! ```text
//! fn index() -> filrouge_store::contract::text_index::IndexFixture { … }
//! filrouge_store::index_contract_tests!(index);
//! ```

pub mod life;
pub mod queries;
pub mod random;
pub mod vectors;

use std::any::Any;
use std::sync::Arc;

use crate::text_index::memory::MemoryIndex;
use filrouge_types::Failure;

use crate::text_index::{
    Candidate, CandidateFilter, CandidateQuery, Coverage, DocumentNo, IndexScope, IndexUpdate,
    IndexVersion, IndexedSession, NewDocument, SessionEntry, SessionSelection, SessionUpdate,
    Shard, TextIndex, fold,
};

/// Shorthands for tests of an index.
pub trait IndexTestExt: TextIndex {
    fn apply(&self, updates: &[IndexUpdate], position: Option<&[u8]>) -> Result<(), Failure> {
        assert!(self.change(None, updates, position)?);
        Ok(())
    }

    fn apply_if(
        &self,
        expected: &IndexVersion,
        updates: &[IndexUpdate],
        position: Option<&[u8]>,
    ) -> Result<bool, Failure> {
        self.change(Some(expected), updates, position)
    }

    fn version(&self) -> Result<IndexVersion, Failure> {
        Ok(self.state(SessionSelection::Named(&[]))?.seen)
    }

    fn position(&self) -> Result<Option<Box<[u8]>>, Failure> {
        Ok(self.version()?.position)
    }

    fn session(&self, realm: &[u8], key: &str) -> Result<Option<IndexedSession>, Failure> {
        let keys = [(realm.into(), key.into())];
        Ok(self
            .state(SessionSelection::Named(&keys))?
            .sessions
            .first()
            .cloned())
    }

    fn sessions(&self, reach: &IndexScope) -> Result<Vec<IndexedSession>, Failure> {
        Ok(self.state(SessionSelection::Within(reach))?.sessions)
    }

    fn unread(&self, limit: usize) -> Result<Vec<IndexedSession>, Failure> {
        Ok(self.state(SessionSelection::Unread(limit))?.sessions)
    }

    fn without_vector(
        &self,
        embedder: &str,
        kinds: u32,
        limit: usize,
    ) -> Result<Vec<DocumentNo>, Failure> {
        let reach = IndexScope::Realm(Box::default());
        let found = self.candidates(&CandidateQuery {
            kinds,
            wanted: CandidateFilter::WithoutVector(embedder, limit),
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
            wanted: CandidateFilter::Nearest(embedder, vector, limit),
            ..query.clone()
        });
        let split_product = |c: Candidate| (Candidate { near: 0, ..c }, c.near);
        Ok(found?.into_iter().map(split_product).collect())
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

impl<T: TextIndex + ?Sized> IndexTestExt for T {}

/// An index under test.
pub struct IndexFixture {
    pub index: Arc<dyn TextIndex>,
    /// Opens another handle on the same index, like another process.
    pub open_again: Box<dyn Fn() -> Arc<dyn TextIndex> + Send + Sync>,
    /// Resources that live until the test ends, such as a temporary directory.
    pub keep: Box<dyn Any + Send + Sync>,
}

/// Generates a `#[test]` from every test of the suite, over the indexes that `$make` creates.
#[macro_export]
macro_rules! index_contract_tests {
    ($make:ident) => {
        $crate::index_contract_tests! { @each $make;
            life {
                documents_are_added_and_removed, unchanged_documents_keep_their_numbers,
                a_session_moves_to_another_shard, changes_are_atomic_with_the_position,
                a_change_requires_the_expected_version, a_forgotten_session_is_deleted, a_cleared_index_is_empty,
                numbers_are_never_reused, the_status_counts_sessions_and_documents, two_handles_write_concurrently,
            }
            queries {
                kinds_times_and_sessions_are_filtered, any_met_term_suffices_and_the_best_come_first,
                bodies_are_read_in_the_requested_order, documents_are_named_in_the_requested_order, short_words_are_found, many_documents_are_found,
            }
            random { no_document_is_missed, other_owners_do_not_matter }
            vectors {
                the_nearest_documents_are_found, documents_without_vectors_are_found,
                vectors_are_removed_with_their_documents,
            }
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
    let shared = index.clone();
    IndexFixture {
        index,
        open_again: Box::new(move || shared.clone()),
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
    shard: &Shard,
    key: &str,
    coverage: Coverage,
    documents: Vec<NewDocument>,
) -> IndexUpdate {
    IndexUpdate::Session(SessionUpdate {
        shard: shard.clone(),
        entry: entry(key),
        coverage,
        documents,
    })
}

/// One session with these texts, whose keys count from 0.
pub fn texts(shard: &Shard, key: &str, texts: &[&str]) -> IndexUpdate {
    let numbered = texts.iter().enumerate();
    let documents = numbered.map(|(n, text)| document(&n.to_string(), n as u64, text));
    update(shard, key, Coverage::All, documents.collect())
}

/// Terms for a query that matches documents with all of these words.
pub fn all_words(words: &[&str]) -> Vec<Vec<String>> {
    let term = |word: &&str| vec![fold(word).into_owned()];
    words.iter().map(term).collect()
}

pub fn query<'a>(reach: &'a IndexScope, terms: &'a [Vec<String>]) -> CandidateQuery<'a> {
    CandidateQuery {
        reach,
        sessions: None,
        kinds: ALL_KINDS,
        since: None,
        until: None,
        wanted: CandidateFilter::All(terms),
    }
}

pub fn numbers(found: &[Candidate]) -> Vec<DocumentNo> {
    found.iter().map(|c| c.document).collect()
}

/// The bodies of the candidates as texts, newest first.
#[track_caller]
pub fn query_bodies(index: &dyn TextIndex, query: &CandidateQuery<'_>) -> Vec<String> {
    let found = index.candidates(query).unwrap();
    bodies(index, &numbers(&found))
}

#[track_caller]
pub fn bodies(index: &dyn TextIndex, numbers: &[DocumentNo]) -> Vec<String> {
    let mut texts = Vec::new();
    let mut push_text = |_: DocumentNo, body: &[u8]| {
        texts.push(String::from_utf8(body.to_vec()).unwrap());
        true
    };
    index.bodies(numbers, &mut push_text).unwrap();
    texts
}

/// The bodies in one shard that contain all of these words, verified.
#[track_caller]
pub fn matching_bodies(index: &dyn TextIndex, shard: &Shard, words: &[&str]) -> Vec<String> {
    let terms = all_words(words);
    let mut bodies = query_bodies(index, &query(&IndexScope::Shard(shard.clone()), &terms));
    bodies.retain(|body| {
        let text = fold(body.split_once('=').unwrap().1).into_owned();
        terms.iter().all(|term| text.contains(&term[0]))
    });
    bodies
}

/// Runs maintenance until no work is left.
#[track_caller]
pub fn tidy_fully(index: &dyn TextIndex) {
    for _ in 0..10_000 {
        if !index.tidy().unwrap() {
            return;
        }
    }
    panic!("maintenance never ends");
}
