//! A ledger in which somebody has changed a record.

use std::process::Command;

use filrouge_engine::Caller;
use filrouge_engine::{CreateSession, Engine, ImportedTurn, Settings};
use filrouge_search::{Ask, search};
use filrouge_sources::ledger::LedgerSource;
use filrouge_sources::{Library, ReadError, Source};
use filrouge_sqlite::{Options, SqliteLedger};
use filrouge_store::{Keyring, OsEntropy};
use filrouge_types::{ItemBody, SessionId, SystemClock, TenantId, TurnStatus};

use serde_json::json;
use tokio::runtime::Runtime;

use super::*;

/// A ledger with its engine, on a runtime whose threads the test is none of.
struct World {
    runtime: Runtime,
    engine: Arc<Engine>,
}

impl World {
    fn at(path: &Path) -> Self {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.enable_all().worker_threads(1).build().unwrap();
        let keyring = Arc::new(Keyring::single([7; 32]));
        let (entropy, clock) = (Arc::new(OsEntropy), Arc::new(SystemClock));
        let options = Options::new(path.to_owned(), keyring, entropy.clone(), clock.clone());
        let ledger = Arc::new(SqliteLedger::open(options).unwrap());
        let engine = Engine::new(ledger, entropy, clock, Settings::default());
        Self {
            runtime,
            engine: Arc::new(engine),
        }
    }
    /// A session in which a person has said something.
    fn say(&self, id: &str, text: &str) {
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
        let made = self.engine.sessions.create(&caller, request);
        self.runtime.block_on(made).unwrap();
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

    fn seen(&self) -> LedgerSource {
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

/// Runs a script on a database, which is `c`.
pub(crate) fn python(path: &Path, script: &str) {
    let head =
        "import sqlite3, sys\nc = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=5)\n";
    let output = Command::new("python3")
        .args(["-c", &format!("{head}{script}")])
        .arg(path)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
}

#[test]
fn a_search_tells_of_sessions_that_were_tampered_with() {
    let store = tempfile::tempdir().unwrap();
    let path = store.path().join("filrouge.db");
    let world = World::at(&path);
    for id in ["a", "b", "c"] {
        world.say(id, "Where is the quince?");
    }
    drop(world);
    let tamper = "c.execute(\"UPDATE record SET body = zeroblob(length(body)) WHERE id IN (SELECT record_id FROM record_key \
         WHERE session_pk = (SELECT pk FROM session WHERE session_id = 'b'))\")\n\
         assert c.execute('SELECT changes()').fetchone()[0] > 0";
    python(&path, tamper);
    let world = World::at(&path);
    let source = Arc::new(world.seen());
    assert!(matches!(source.read("b"), Err(ReadError::Skipped(_))));
    // Everything is listed, and only what is asked for is looked through.
    let library = Library::new(Vec::new(), 0).with(source);
    for (exclude, found, notices) in [("a", 1, 1), ("b", 2, 0)] {
        let ask = Ask {
            query: "quince".to_owned(),
            exclude_session: Some(exclude.to_owned()),
            ..Ask::default()
        };
        let answer = search(&library, &ask).unwrap();
        assert_eq!(
            (answer.total_sessions, answer.notices.len()),
            (found, notices)
        );
        let told = "sessions that could not be read, or not completely: 1";
        assert!(answer.notices.iter().all(|notice| notice == told));
    }
}
