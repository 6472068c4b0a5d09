//! Whoever searches puts the same questions to the index, and is answered the same, whatever others have said.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use filrouge_search::{Ask, LedgerSearch, Mode, Results, Searcher};
use filrouge_sources::Library;
use filrouge_store::text_index::memory::MemoryIndex;
use filrouge_store::text_index::{
    Candidate, CandidateQuery, DocumentNo, IndexStatus, IndexUpdate, Known, Seen, TextIndex, Which,
};
use filrouge_types::{Clock as _, Failure};

use super::world::*;

/// An index that notes what it is asked.
#[derive(Default)]
struct Noting {
    inner: MemoryIndex,
    notes: Mutex<Vec<String>>,
}

impl Noting {
    fn note(&self, what: &str, of: impl Debug) {
        self.notes.lock().unwrap().push(format!("{what} {of:?}"));
    }

    fn noted(&self) -> Vec<String> {
        std::mem::take(&mut self.notes.lock().unwrap())
    }
}

impl TextIndex for Noting {
    fn known(&self, which: Which<'_>) -> Result<Known, Failure> {
        self.note("known", which);
        self.inner.known(which)
    }

    fn change(
        &self,
        expected: Option<&Seen>,
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
        self.note("candidates", query);
        self.inner.candidates(query)
    }

    fn bodies(
        &self,
        documents: &[DocumentNo],
        each: &mut dyn FnMut(DocumentNo, &[u8]) -> bool,
    ) -> Result<(), Failure> {
        self.note("bodies", documents.len());
        self.inner.bodies(documents, each)
    }

    fn tidy(&self) -> Result<bool, Failure> {
        self.inner.tidy()
    }

    fn status(&self) -> Result<IndexStatus, Failure> {
        self.inner.status()
    }
}

/// A ledger in which ada has spoken, and others have if `others` says so, in one index.
fn spoken(others: bool) -> (World, Arc<Noting>) {
    let index = Arc::new(Noting::default());
    let world = World::over(ledger(), index.clone());
    let talk = |name: &str, sessions: usize| {
        for n in 0..sessions {
            let session = format!("{name}-{n}");
            world.make(&user(name), &session, Some("the gate"));
            for request in ["one", "two"] {
                let asked = (session.as_str(), request);
                world.ask(
                    &user(name),
                    asked,
                    "is the gate green",
                    Some("a gate of stone"),
                );
            }
        }
    };
    talk("ada", 3);
    world.catch_up();
    if others {
        talk("bob", 9);
        world.catch_up();
    }
    (world, index)
}

fn ask(world: &World, name: &str, ask: &Ask) -> Results {
    let (engine, feed) = (world.engine.clone(), world.feed.clone());
    let runtime = world.runtime.handle().clone();
    let ledger = LedgerSearch::new(engine, feed, user(name), runtime);
    let library = Library::new(Vec::new(), 0);
    let searcher = Searcher::new(library).with_ledger(ledger);
    let now = Some(clock().now().as_millis());
    let ask = Ask { now, ..ask.clone() };
    searcher.search(&ask, &|| false).unwrap()
}

fn questions() -> Vec<Ask> {
    let of = |query: &str| Ask {
        query: query.to_owned(),
        ..Ask::default()
    };
    let mut all: Vec<Ask> = [
        "gate",
        "\"the gate\" -stone",
        "a",
        "/g[ae]t\\w/",
        "role:user gate",
        "project:none gate",
        "session:ada-1 gate",
        "gate -session:bob-1",
        "unheard",
    ]
    .map(of)
    .into();
    all.push(Ask {
        limit: 1,
        ..of("gate")
    });
    all.push(Ask {
        mode: Mode::Both,
        ..of("gate")
    });
    all.push(Ask {
        similar: Some("which gate".to_owned()),
        ..Ask::default()
    });
    all
}

#[test]
fn what_others_said_is_neither_answered_nor_asked_for() {
    let ((alone, alone_index), (among, among_index)) = (spoken(false), spoken(true));
    assert_eq!(ask(&among, "bob", &questions()[0]).total_sessions, 9);
    for question in questions() {
        drop((alone_index.noted(), among_index.noted()));
        let (one, other) = (ask(&alone, "ada", &question), ask(&among, "ada", &question));
        assert_eq!(one, other, "{question:?}");
        let (one, other) = (alone_index.noted(), among_index.noted());
        assert_eq!(one, other, "{question:?}");
        assert!(!one.is_empty(), "{question:?}");
    }
}

/// Theirs and one that never was: the same questions, the same answer.
#[test]
fn a_session_of_somebody_else_is_none() {
    let (world, index) = spoken(true);
    for form in ["session:NAME gate", "gate -session:NAME"] {
        let asked = |name: &str| {
            let query = form.replace("NAME", name);
            drop(index.noted());
            let (engine, feed) = (world.engine.clone(), world.feed.clone());
            let runtime = world.runtime.handle().clone();
            let ledger = LedgerSearch::new(engine, feed, user("ada"), runtime);
            let searcher = Searcher::new(Library::new(Vec::new(), 0));
            let searcher = searcher.with_ledger(ledger);
            let ask = Ask {
                query,
                now: Some(clock().now().as_millis()),
                ..Ask::default()
            };
            let answer = format!("{:?}", searcher.search(&ask, &|| false));
            (answer.replace(name, "NAME"), index.noted())
        };
        assert_eq!(asked("bob-1"), asked("nob-1"), "{form}");
    }
}
