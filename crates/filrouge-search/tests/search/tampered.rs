//! Searches in a ledger in which a record was tampered with.

use std::process::Command;
use std::time::Duration;

use filrouge_engine::Caller;
use filrouge_engine::{CreateSession, Engine, ImportedTurn, Settings};
use filrouge_search::ledger::{FeedCounts, LedgerFeed};
use filrouge_search::{LedgerSearch, Results, SearchRequest, Searcher};
use filrouge_sources::ledger::LedgerSource;
use filrouge_sources::{Library, ReadError, Source};
use filrouge_sqlite::text_index::SqliteIndex;
use filrouge_sqlite::{Options, SqliteLedger};
use filrouge_store::text_index::TextIndex;
use filrouge_store::text_index::memory::MemoryIndex;
use filrouge_store::{Keyring, OsEntropy};
use filrouge_types::{ItemBody, SessionId, SystemClock, TenantId, TurnStatus};

use serde_json::json;
use tokio::runtime::Runtime;

use super::*;

/// A ledger with its engine, on a separate runtime, because the test must not run on a thread of that runtime.
struct World {
    runtime: Runtime,
    engine: Arc<Engine>,
}

impl World {
    fn open(path: &Path) -> Self {
        Self::open_with_index(path, Arc::new(MemoryIndex::default()))
    }

    fn open_with_index(path: &Path, index: Arc<dyn TextIndex>) -> Self {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.enable_all().worker_threads(1).build().unwrap();
        let keyring = Arc::new(Keyring::single([7; 32]));
        let (entropy, clock) = (Arc::new(OsEntropy), Arc::new(SystemClock));
        let options = Options::new(path.to_owned(), keyring, entropy.clone(), clock.clone());
        let ledger = Arc::new(SqliteLedger::open(options).unwrap());
        let engine = Engine::new(ledger, entropy, clock, Settings::default());
        Self {
            runtime,
            engine: Arc::new(engine.with_index(index)),
        }
    }

    /// Brings the index up to date and searches by it.
    fn search(&self, request: &SearchRequest) -> (Results, FeedCounts) {
        let index = self.engine.index_feed.index().unwrap().clone();
        let feed = LedgerFeed::new(self.engine.clone(), index, Arc::new(SystemClock));
        let feed = Arc::new(feed);
        let runtime = self.runtime.handle().clone();
        let caught_up = feed.catch_up(Duration::from_secs(60), &|| false);
        assert!(self.runtime.block_on(caught_up).unwrap().done);
        let ledger = LedgerSearch::new(self.engine.clone(), feed.clone(), operator(), runtime);
        let searcher = Searcher::new(Library::new(Vec::new(), 0)).with_ledger(ledger);
        let found = searcher.search(request, &|| false).unwrap();
        assert!(found.as_of.is_some());
        (found, feed.counts())
    }

    /// Records a session in which a user sends this text.
    fn record_session(&self, id: &str, text: &str) {
        let session: SessionId = id.parse().unwrap();
        let request = CreateSession {
            session_id: Some(session.clone()),
            title: Some(format!("about {id}").into()),
            project_id: None,
            team_id: None,
            parent_session_id: None,
            metadata: None,
        };
        let caller = operator();
        let created = self.engine.sessions.create(&caller, request);
        self.runtime.block_on(created).unwrap();
        let parts = json!([{ "type": "text", "text": text }]);
        let item = json!({ "role": "user", "channel": "question", "parts": parts });
        let item: ItemBody = serde_json::from_value(item).unwrap();
        let turn = ImportedTurn {
            request_id: "r".parse().unwrap(),
            items: vec![item],
            status: TurnStatus::Finalized,
            metadata: None,
        };
        let recorded = self.engine.turns.record(&caller, &session, turn);
        self.runtime.block_on(recorded).unwrap();
    }

    fn source(&self) -> LedgerSource {
        LedgerSource::new(
            self.engine.clone(),
            operator(),
            self.runtime.handle().clone(),
        )
    }
}

fn operator() -> Caller {
    Caller::operator(TenantId::default_tenant())
}

/// Runs a Python script with an open connection `c` to the database.
pub(crate) fn python(path: &Path, script: &str) {
    let connect =
        "import sqlite3, sys\nc = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=5)\n";
    let output = Command::new("python3")
        .args(["-c", &format!("{connect}{script}")])
        .arg(path)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
}

/// Overwrites the records of the session `b` with zeroes.
fn tamper(path: &Path) {
    let script = "c.execute(\"UPDATE record SET body = zeroblob(length(body)) WHERE id IN (SELECT record_id FROM record_key \
         WHERE session_pk = (SELECT pk FROM session WHERE session_id = 'b'))\")\n\
         assert c.execute('SELECT changes()').fetchone()[0] > 0";
    python(path, script);
}

#[test]
fn indexed_text_that_no_record_confirms_is_not_shown() {
    let store = tempfile::tempdir().unwrap();
    let path = store.path().join("filrouge.db");
    let index = || Arc::new(SqliteIndex::open(store.path().join("filrouge.index")).unwrap());
    let request = SearchRequest {
        query: "quince".to_owned(),
        ..SearchRequest::default()
    };
    let world = World::open_with_index(&path, index());
    for id in ["a", "b", "c"] {
        world.record_session(id, "Where is the quince?");
    }
    assert_eq!(world.search(&request).0.total_sessions, 3);
    drop(world);
    tamper(&path);
    let (found, counts) = World::open_with_index(&path, index()).search(&request);
    let mut ids: Vec<&str> = found.sessions.iter().map(|hit| &*hit.session.id).collect();
    ids.sort_unstable();
    assert_eq!((ids, found.total_sessions), (vec!["a", "c"], 2));
    let notice = r#"left out as unreadable: 1 ("ledger:b")"#;
    assert_eq!(
        (found.exact, found.notices),
        (false, vec![notice.to_owned()])
    );
    assert_eq!(
        (counts.stale, counts.sessions),
        (1, 0),
        "the tampered session counts as stale and is not read again"
    );
}

#[test]
fn a_session_that_was_never_indexed_is_reported() {
    let store = tempfile::tempdir().unwrap();
    let path = store.path().join("filrouge.db");
    let index = || Arc::new(SqliteIndex::open(store.path().join("filrouge.index")).unwrap());
    let world = World::open(&path);
    for id in ["a", "b", "c"] {
        world.record_session(id, "Where is the quince?");
    }
    drop(world);
    tamper(&path);
    let search = |session: Option<&str>, exclude: Option<&str>| {
        let request = SearchRequest {
            query: "quince".to_owned(),
            session_id: session.map(Into::into),
            exclude_session: exclude.map(Into::into),
            ..SearchRequest::default()
        };
        // The first feed finds that the session cannot be read; later ones find it in the index.
        let world = World::open_with_index(&path, index());
        let (found, _) = world.search(&request);
        let notices = found.notices.join(", ");
        let names_b = notices.contains(r#"left out as unreadable: 1 ("ledger:b")"#);
        (found.total_sessions, found.exact, names_b)
    };
    assert_eq!(search(None, None), (2, false, true));
    assert_eq!(search(None, None), (2, false, true));
    assert_eq!(search(Some("b"), None), (0, false, true));
    assert_eq!(search(Some("a"), None), (1, true, false));
    assert_eq!(search(None, Some("b")), (2, true, false));
}

#[test]
fn a_search_reports_tampered_sessions() {
    let store = tempfile::tempdir().unwrap();
    let path = store.path().join("filrouge.db");
    let world = World::open(&path);
    for id in ["a", "b", "c"] {
        world.record_session(id, "Where is the quince?");
    }
    drop(world);
    tamper(&path);
    let world = World::open(&path);
    let source = Arc::new(world.source());
    assert!(matches!(source.read("b"), Err(ReadError::Skipped(_))));
    // All sessions are listed, but only those that pass the query's filters are scanned.
    let library = Library::new(Vec::new(), 0).with(source);
    for (exclude, found, notices) in [("a", 1, 1), ("b", 2, 0)] {
        let request = SearchRequest {
            query: "quince".to_owned(),
            exclude_session: Some(exclude.to_owned()),
            ..SearchRequest::default()
        };
        let results = search(&library, &request).unwrap();
        assert_eq!(
            (results.total_sessions, results.notices.len()),
            (found, notices)
        );
        let expected = "sessions that could not be read, or not completely: 1";
        assert!(results.notices.iter().all(|notice| notice == expected));
        assert_eq!(results.exact, notices == 0);
    }
}
