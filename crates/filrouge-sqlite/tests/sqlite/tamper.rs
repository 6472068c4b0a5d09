//! Every change made outside filrouge is refused by the next read or write that it affects, and `verify` reports it:
//! in a ledger that is opened afterwards and in one that is running (P7).

use std::path::PathBuf;

use filrouge_store::contract::fixture::{Fixture, anyone, append, item, keyed, rid, sid, start};
use filrouge_store::read::{TurnOrder, TurnQuery};
use filrouge_store::verify::Verdict;
use filrouge_types::{Channel, ErrorCode, Failure, Turn};
use rusqlite::Connection;

use super::{fixture_at, keyring};

mod cases;
mod checkpoints;
mod drafts;
mod events_and_notes;
mod flips;
mod redaction;
mod repair;
mod rollback;
mod summaries;

/// The session that is tampered with.
const VICTIM: &str = "victim";

/// The tables of which `old.db` keeps older rows.
const OLD_TABLES: [&str; 7] = [
    "session",
    "head",
    "turn",
    "record",
    "record_key",
    "item_key",
    "commit_log",
];

/// The operations that are tried on a session, by letter: read its record, its items, its turns, its first turn;
/// append to its open turn; start a new turn.
const OPERATIONS: [char; 6] = ['s', 'i', 't', '1', 'a', 'n'];

struct World {
    folder: tempfile::TempDir,
    /// The victim's last finished turn, and its open turn.
    done: Turn,
    open: Turn,
}

impl World {
    fn path(&self) -> PathBuf {
        self.folder.path().join("f.db")
    }

    fn raw(&self) -> Connection {
        let conn = Connection::open(self.path()).unwrap();
        conn.busy_timeout(std::time::Duration::from_secs(5))
            .unwrap();
        conn
    }
}

/// Creates two sessions, and copies older rows of the victim into `old.db`, as an attacker might have kept them.
async fn world() -> (World, Fixture) {
    let folder = tempfile::tempdir().unwrap();
    let f = fixture_at(&folder.path().join("f.db"), keyring());
    let who = anyone();
    for s in [VICTIM, "other"] {
        f.complete_turn(&who, s, "r0", "first answer").await;
        f.complete_turn(&who, s, "r1", "answer").await;
        let turn = f.start(&who, s, "open").await;
        f.append(
            &who,
            &turn,
            vec![keyed("k1", "one"), item(Channel::Plan, "two")],
        )
        .await
        .unwrap();
        if s == VICTIM {
            let conn = Connection::open(folder.path().join("f.db")).unwrap();
            for table in OLD_TABLES {
                conn.execute_batch(&format!(
                    "ATTACH '{0}' AS old; CREATE TABLE old.{table} AS SELECT * FROM main.{table}; DETACH old;",
                    folder.path().join("old.db").display()
                ))
                .unwrap();
            }
        }
        f.append(&who, &turn, vec![keyed("k2", "three")])
            .await
            .unwrap();
    }
    let done = f.complete_turn(&who, VICTIM, "r2", "last answer").await;
    f.complete_turn(&who, "other", "r2", "last answer").await;
    let open = f.start(&who, VICTIM, "open").await;
    assert!(open.replayed);
    (World { folder, done, open }, f)
}

/// Tries the operation that a letter of [`OPERATIONS`] names.
async fn attempt(f: &Fixture, s: &str, letter: char) -> Result<(), Failure> {
    let (who, id) = (anyone(), sid(s));
    let turn = |request: &str| f.keyring.turn_id(&who.tenant, &id, &rid(request));
    let query = TurnQuery {
        status: None,
        include_redacted: false,
        order: TurnOrder::Oldest,
        cursor: None,
        limit: 50,
    };
    match letter {
        's' => f.ledger.session(&who, &id).await.map(|_| ()),
        'i' => f.ledger.items(&who, &id, 0, 100).await.map(|_| ()),
        't' => f.ledger.turns(&who, &id, query).await.map(|_| ()),
        '1' => f.ledger.turn(&who, &id, turn("r0")).await.map(|_| ()),
        'a' => {
            let write = append(s, turn("open"), vec![item(Channel::Plan, "tried")], None);
            f.write(&who, write).await.map(|_| ())
        }
        _ => f
            .try_start(&who, start(&who, s, "tried", "q"))
            .await
            .map(|_| ()),
    }
}

/// The letters of [`OPERATIONS`] that are refused; fails unless each refusal is an integrity error that names the
/// session.
async fn refused_operations(f: &Fixture, s: &str, name: &str) -> String {
    let mut letters = String::new();
    for letter in OPERATIONS {
        if let Err(failure) = attempt(f, s, letter).await {
            if failure.code == ErrorCode::KeyMissing && name.contains("byte") {
                // The changed byte is in the key's id: no key has the changed id.
                letters.push(letter);
                continue;
            }
            if failure.code == ErrorCode::TurnNotFound && name.starts_with("turn id changed") {
                // The id no longer finds the turn; lists and `verify` report it.
                continue;
            }
            assert_eq!(
                failure.code,
                ErrorCode::IntegrityError,
                "{name}: {letter}: {failure}"
            );
            let location = failure
                .location
                .unwrap_or_else(|| panic!("{name}: {letter}: names no session"));
            assert_eq!(location.session_id, s, "{name}: {letter}");
            letters.push(letter);
        }
    }
    letters
}

/// One kind of tampering.
struct Case {
    name: &'static str,
    sql: String,
    /// The letters of the operations that must be refused by a ledger that is opened afterwards, and by a running one;
    /// others may be refused.
    reopened: &'static str,
    running: &'static str,
    /// Whether the other session must remain readable.
    confined: bool,
    /// Whether `verify` of a reopened store can find the change; otherwise only the anchor can.
    verify_finds_it: bool,
}

fn assert_refused(name: &str, letters: &str, expected: &str) {
    for letter in expected.chars() {
        assert!(
            letters.contains(letter),
            "{name}: {letter:?} of {expected:?} is not refused (refused: {letters:?})"
        );
    }
}

async fn assert_broken(f: &Fixture, name: &str) {
    let report = f.ledger.verify(None).await.unwrap();
    assert_eq!(report.verdict(), Verdict::Broken, "{name}: {report:?}");
}

/// Runs a case twice: on a ledger that is opened afterwards, and on a running one.
async fn run_case(case: &Case) {
    for running in [false, true] {
        let name = format!(
            "{} ({})",
            case.name,
            if running { "running" } else { "reopened" }
        );
        let (world, f) = world().await;
        let position = f.ledger.position();
        if !running {
            f.ledger.close().await;
        }
        world
            .raw()
            .execute_batch(&case.sql)
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        let f = if running {
            f
        } else {
            fixture_at(&world.path(), keyring())
        };
        if running || case.verify_finds_it {
            assert_broken(&f, &name).await;
        } else {
            assert_ne!(f.ledger.position(), position, "{name}: the anchor shows it");
        }
        let letters = refused_operations(&f, VICTIM, &name).await;
        assert_refused(
            &name,
            &letters,
            if running { case.running } else { case.reopened },
        );
        if case.confined {
            assert_eq!(
                refused_operations(&f, "other", &name).await,
                "",
                "{name}: confined"
            );
        }
        if running || case.verify_finds_it {
            assert_broken(&f, &name).await;
        }
        f.ledger.close().await;
    }
}

fn block_on(work: impl std::future::Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .enable_time()
        .build()
        .unwrap()
        .block_on(work);
}
