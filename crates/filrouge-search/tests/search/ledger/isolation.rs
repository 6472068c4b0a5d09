//! Sessions of other owners change neither the results of a search nor the queries that it sends to the index.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use filrouge_search::{LedgerSearch, Mode, Results, SearchRequest, Searcher};
use filrouge_sources::Library;
use filrouge_store::text_index::memory::MemoryIndex;
use filrouge_store::text_index::{
    Candidate, CandidateQuery, DocumentNo, IndexState, IndexStatus, IndexUpdate, IndexVersion,
    IndexedDocument, SessionSelection, TextIndex,
};
use filrouge_types::{Clock as _, Failure};

use super::world::*;

/// An index that records the queries it receives.
#[derive(Default)]
struct QueryRecorder {
    inner: MemoryIndex,
    queries: Mutex<Vec<String>>,
}

impl QueryRecorder {
    fn record(&self, call: &str, arguments: impl Debug) {
        self.queries
            .lock()
            .unwrap()
            .push(format!("{call} {arguments:?}"));
    }

    fn take_queries(&self) -> Vec<String> {
        std::mem::take(&mut self.queries.lock().unwrap())
    }
}

impl TextIndex for QueryRecorder {
    fn state(&self, selection: SessionSelection<'_>) -> Result<IndexState, Failure> {
        self.record("state", selection);
        self.inner.state(selection)
    }

    fn change(
        &self,
        expected: Option<&IndexVersion>,
        updates: &[IndexUpdate],
        position: Option<&[u8]>,
    ) -> Result<bool, Failure> {
        self.inner.change(expected, updates, position)
    }

    fn forget(&self, realm: &[u8], key: &str) -> Result<u64, Failure> {
        self.inner.forget(realm, key)
    }

    fn clear(&self) -> Result<(), Failure> {
        self.inner.clear()
    }

    fn candidates(&self, query: &CandidateQuery<'_>) -> Result<Vec<Candidate>, Failure> {
        self.record("candidates", query);
        self.inner.candidates(query)
    }

    fn documents(&self, numbers: &[DocumentNo]) -> Result<Vec<IndexedDocument>, Failure> {
        self.record("documents", numbers.len());
        self.inner.documents(numbers)
    }

    fn bodies(
        &self,
        documents: &[DocumentNo],
        each: &mut dyn FnMut(DocumentNo, &[u8]) -> bool,
    ) -> Result<(), Failure> {
        self.record("bodies", documents.len());
        self.inner.bodies(documents, each)
    }

    fn tidy(&self) -> Result<bool, Failure> {
        self.inner.tidy()
    }

    fn status(&self) -> Result<IndexStatus, Failure> {
        self.inner.status()
    }
}

/// A ledger with sessions of ada and, if `with_others` is set, of bob, all in one index.
fn recorded_world(with_others: bool) -> (LedgerWorld, Arc<QueryRecorder>) {
    let index = Arc::new(QueryRecorder::default());
    let world = LedgerWorld::from_parts(ledger(), index.clone());
    let record_sessions = |name: &str, sessions: usize| {
        for n in 0..sessions {
            let session = format!("{name}-{n}");
            world.create_session(&user(name), &session, Some("the gate"));
            for request in ["one", "two"] {
                let turn = (session.as_str(), request);
                world.start_turn(
                    &user(name),
                    turn,
                    "is the gate green",
                    Some("a gate of stone"),
                );
            }
        }
    };
    record_sessions("ada", 3);
    world.catch_up();
    if with_others {
        record_sessions("bob", 9);
        world.catch_up();
    }
    (world, index)
}

fn search(world: &LedgerWorld, name: &str, request: &SearchRequest) -> Results {
    let (engine, feed) = (world.engine.clone(), world.feed.clone());
    let runtime = world.runtime.handle().clone();
    let ledger = LedgerSearch::new(engine, feed, user(name), runtime);
    let library = Library::new(Vec::new(), 0);
    let searcher = Searcher::new(library).with_ledger(ledger);
    let now = Some(clock().now().as_millis());
    let request = SearchRequest {
        now,
        ..request.clone()
    };
    searcher.search(&request, &|| false).unwrap()
}

/// Searches with every kind of condition.
fn search_requests() -> Vec<SearchRequest> {
    let request = |query: &str| SearchRequest {
        query: query.to_owned(),
        ..SearchRequest::default()
    };
    let mut all: Vec<SearchRequest> = [
        "gate",
        "\"the gate\" -stone",
        "a",
        "/g[ae]t\\w/",
        "role:user gate",
        "project:none gate",
        "session:ada-1 gate",
        "gate -session:bob-1",
        "unmentioned",
    ]
    .map(request)
    .into();
    all.push(SearchRequest {
        limit: 1,
        ..request("gate")
    });
    all.push(SearchRequest {
        mode: Mode::Both,
        ..request("gate")
    });
    all.push(SearchRequest {
        similar: Some("which gate".to_owned()),
        ..SearchRequest::default()
    });
    all
}

#[test]
fn sessions_of_others_change_neither_results_nor_queries() {
    let ((alone, alone_index), (shared, shared_index)) =
        (recorded_world(false), recorded_world(true));
    assert_eq!(
        search(&shared, "bob", &search_requests()[0]).total_sessions,
        9
    );
    for request in search_requests() {
        drop((alone_index.take_queries(), shared_index.take_queries()));
        let (alone_results, shared_results) = (
            search(&alone, "ada", &request),
            search(&shared, "ada", &request),
        );
        assert_eq!(alone_results, shared_results, "{request:?}");
        let (alone_queries, shared_queries) =
            (alone_index.take_queries(), shared_index.take_queries());
        assert_eq!(alone_queries, shared_queries, "{request:?}");
        assert!(!alone_queries.is_empty(), "{request:?}");
    }
}

/// A session of another owner and one that never existed (`nob-1`) cause the same queries and the same answer.
#[test]
fn a_session_of_another_owner_is_like_a_missing_one() {
    let (world, index) = recorded_world(true);
    for form in ["session:NAME gate", "gate -session:NAME"] {
        let search_and_queries = |name: &str| {
            let query = form.replace("NAME", name);
            drop(index.take_queries());
            let (engine, feed) = (world.engine.clone(), world.feed.clone());
            let runtime = world.runtime.handle().clone();
            let ledger = LedgerSearch::new(engine, feed, user("ada"), runtime);
            let searcher = Searcher::new(Library::new(Vec::new(), 0));
            let searcher = searcher.with_ledger(ledger);
            let request = SearchRequest {
                query,
                now: Some(clock().now().as_millis()),
                ..SearchRequest::default()
            };
            let answer = format!("{:?}", searcher.search(&request, &|| false));
            (answer.replace(name, "NAME"), index.take_queries())
        };
        assert_eq!(
            search_and_queries("bob-1"),
            search_and_queries("nob-1"),
            "{form}"
        );
    }
}
