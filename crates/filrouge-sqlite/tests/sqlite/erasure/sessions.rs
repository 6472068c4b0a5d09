//! The contents and the metadata of an erased session are in no file.

use std::path::Path;
use std::process::{Command, Stdio};

use filrouge_store::command::{NewEvent, NewSession, SessionPatch, Write};
use filrouge_store::contract::fixture::{Fixture, anyone, item, keyed, sid, user};
use filrouge_store::contract::live_writes::keeping;
use filrouge_store::contract::session_writes::{event, json, patch};
use filrouge_store::rows::{event_key, item_key};
use filrouge_types::{Channel, EventKey, ItemBody, ItemId, ProjectId};
use rusqlite::Connection;

use super::{block_on, bytes, count_matches, erasure_notes, needles, wal_bytes};
use crate::{fixture_at, keyring};

/// The environment variable that names the folder of the child process.
const FOLDER: &str = "FILROUGE_TEST_SESSION_ERASURE";

/// The values of the erased session's metadata, including replaced ones; no other session contains them.
const WORDS: [&str; 18] = [
    "first-title-9d1",
    "second-title-9d2",
    "first-state-9d3",
    "second-state-9d4",
    "project-one-9d5",
    "project-two-9d6",
    "metadata-9d7",
    "more-metadata-9d8",
    "agent-name-9d9",
    "event-detail-9da",
    "event-kind-9db",
    "event-key-9dc",
    "parent-9de",
    "owner-9df",
    "checkpoint-label-9e0",
    "checkpoint-state-9e1",
    "older-checkpoint-9e2",
    "holder-9e3",
];

async fn fill_victim(f: &Fixture) {
    let who = user(WORDS[13]);
    let new = NewSession {
        title: Some(WORDS[0].into()),
        project_id: ProjectId::new(WORDS[4]).ok(),
        parent_session_id: Some(sid(WORDS[12])),
        metadata: json(&format!(r#"{{"{}":"{}"}}"#, WORDS[6], WORDS[6])),
        ..NewSession::with_id(sid("victim"))
    };
    f.write(&who, Write::CreateSession(new)).await.unwrap();
    for (title, state, project) in [(1, 2, 5), (1, 3, 5)] {
        let change = SessionPatch {
            title: Some(Some(WORDS[title].into())),
            state: Some(Some(WORDS[state].into())),
            project_id: Some(ProjectId::new(WORDS[project]).ok()),
            metadata: Some(Some(json(&format!(r#"{{"{}":1}}"#, WORDS[7])))),
            ..SessionPatch::default()
        };
        f.write_session(&who, patch("victim", change))
            .await
            .unwrap();
    }
    let new_event = NewEvent {
        key: EventKey::new(WORDS[11]).unwrap(),
        detail: Some(json(&format!(r#"{{"what":"{}"}}"#, WORDS[9]))),
        ..event("victim", "k", WORDS[10])
    };
    f.record(&who, new_event).await.unwrap();
    let turn = f.start(&who, "victim", "request").await;
    for n in 0..30 {
        let secret = super::words("victim", n, 20 + n * 700);
        let body = ItemBody {
            agent: Some(WORDS[8].into()),
            ..item(Channel::Thought, &secret)
        };
        f.append(&who, &turn, vec![body, keyed(&format!("key{n}"), "k")])
            .await
            .unwrap();
    }
    for (seq, word) in [(1, 16), (2, 15)] {
        let state = format!(r#"{{"a":"{}"}}"#, WORDS[word]);
        let write = keeping(1, "victim", Some(seq), Some(WORDS[14]), &state);
        f.write_checkpoint(&who, write).await.unwrap();
    }
    f.acquire_lease(&who, "victim", WORDS[17]).await;
}

/// Byte sequences that must disappear: metadata, contents, and the hashes of keys.
async fn secrets(f: &Fixture, path: &Path) -> Vec<Vec<u8>> {
    let items = f.items(&user(WORDS[13]), "victim", 500).await;
    let all: Vec<u64> = items.iter().map(|i| i.seq).collect();
    let mut traces = needles(path, "victim", &all, &items);
    assert!(traces.len() > 1000);
    traces.extend(WORDS.iter().map(|w| w.as_bytes().to_vec()));
    traces.push(event_key(&EventKey::new(WORDS[11]).unwrap()).to_vec());
    for n in 0..30 {
        traces.push(item_key(&ItemId::new(format!("key{n}")).unwrap()).to_vec());
    }
    let files = bytes(path);
    let small: Vec<Vec<u8>> = traces[traces.len() - 49..].to_vec();
    for one in small.iter().step_by(4) {
        let count = count_matches(&files, std::slice::from_ref(one));
        assert!(count > 0, "present before");
    }
    traces
}

#[test]
fn no_file_keeps_an_erased_session() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.db");
    let f = fixture_at(&path, keyring());
    block_on(async {
        f.complete_turn(&anyone(), "before", "r", "an answer").await;
        fill_victim(&f).await;
        f.complete_turn(&anyone(), "after", "r", "an answer").await;
        let others = [
            f.items(&anyone(), "before", 500).await,
            f.items(&anyone(), "after", 500).await,
        ];
        let traces = secrets(&f, &path).await;
        f.erase(&user(WORDS[13]), "victim").await.unwrap();
        assert_eq!(
            count_matches(&bytes(&path), &traces),
            0,
            "at once, without a restart"
        );
        assert_eq!(erasure_notes(&path), 0);
        assert!(
            count_matches(&bytes(&path), &[b"victim".to_vec()]) > 0,
            "its tombstone is kept"
        );
        assert_eq!(f.items(&anyone(), "before", 500).await, others[0]);
        assert_eq!(f.items(&anyone(), "after", 500).await, others[1]);
        f.assert_intact().await;
        f.ledger.close().await;
        drop(f);
        let f = fixture_at(&path, keyring());
        f.assert_intact().await;
        assert_eq!(count_matches(&bytes(&path), &traces), 0);
        f.ledger.close().await;
    });
}

/// The child process: erases while a reader prevents emptying the WAL, and aborts.
#[test]
fn child_aborts_after_an_erasure() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let path = Path::new(&folder).join("f.db");
    let f = fixture_at(&path, keyring());
    block_on(async {
        let reader = Connection::open(&path).unwrap();
        reader
            .execute_batch("BEGIN; SELECT count(*) FROM record")
            .unwrap();
        f.erase(&user(WORDS[13]), "victim").await.unwrap();
        std::process::abort();
    });
}

#[test]
fn the_next_start_finishes_a_killed_erasure() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.db");
    let f = fixture_at(&path, keyring());
    let mut traces = Vec::new();
    block_on(async {
        fill_victim(&f).await;
        traces = secrets(&f, &path).await;
    });
    // The ledger is kept open: closing it would empty the WAL too.
    let killed = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "erasure::sessions::child_aborts_after_an_erasure",
            "--nocapture",
        ])
        .env(FOLDER, folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(!killed.success());
    assert!(wal_bytes(&path) > 0);
    assert_eq!(erasure_notes(&path), 1);
    assert!(
        count_matches(&bytes(&path), &traces) > 0,
        "the WAL still holds them"
    );
    let next = fixture_at(&path, keyring());
    assert_eq!(
        (count_matches(&bytes(&path), &traces), erasure_notes(&path)),
        (0, 0)
    );
    block_on(async {
        let receipt = next.erase(&user(WORDS[13]), "victim").await.unwrap();
        assert_eq!((receipt.items, receipt.turns), (61, 1));
        next.assert_intact().await;
        f.assert_intact().await;
        f.ledger.close().await;
        next.ledger.close().await;
    });
}
