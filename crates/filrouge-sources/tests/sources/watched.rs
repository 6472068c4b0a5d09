//! Tests of watched paths: a history that appears at a path is read without opening the source again.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use filrouge_sources::{Library, SkipReason, Source, claude_code, codex, opencode};

use crate::databases::{database_of, python};
use crate::{GeneratedTree, copy, copy_of, fixture};

/// The sessions in the library's order, as (generation, id).
fn sessions(library: &Library) -> Vec<(&'static str, String)> {
    let catalog = library.catalog();
    let entries = catalog.entries.iter();
    entries
        .map(|e| (e.header.generation, e.header.id.to_string()))
        .collect()
}

/// Lists the library until `is_done` returns true, for at most four seconds.
fn await_sessions(library: &Library, is_done: impl Fn(&[(&'static str, String)]) -> bool) {
    let start = Instant::now();
    loop {
        let listed = sessions(library);
        if is_done(&listed) {
            return;
        }
        assert!(
            start.elapsed() < Duration::from_secs(4),
            "the library still lists {listed:?}"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn library(sources: Vec<Arc<dyn Source>>) -> Library {
    Library::new(sources, 1 << 20)
}

/// The ids of the sessions of one generation.
fn ids_in<'a>(
    sessions: &'a [(&'static str, String)],
    generation: &'a str,
) -> impl Iterator<Item = &'a str> + 'a {
    let matching = sessions
        .iter()
        .filter(move |(actual, _)| *actual == generation);
    matching.map(|(_, id)| &**id)
}

#[test]
fn a_history_that_appears_is_read_with_all_its_messages() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("share/opencode");
    let library = library(opencode::watch(&path));
    assert_eq!(sessions(&library), []);
    assert!(library.catalog().unavailable.is_empty());
    copy(&fixture("opencode-json"), &path);
    await_sessions(&library, |listed| ids_in(listed, "storage").count() == 14);
    let catalog = library.catalog();
    let opened = opencode::open(&path).unwrap();
    for entry in &catalog.entries {
        let read = library.conversation(entry).unwrap();
        let expected = opened[0].read(&entry.header.id).unwrap();
        assert_eq!(read.messages, expected.messages);
    }
}

#[test]
fn databases_that_appear_next_to_a_tree_take_precedence() {
    let tree = GeneratedTree::new();
    tree.user("m1", 1);
    let library = library(opencode::open(tree.path()).unwrap());
    assert_eq!(sessions(&library), [("storage", "s1".to_owned())]);
    let database = database_of("opencode-sqlite-wal");
    copy(database.path(), tree.path());
    await_sessions(&library, |listed| ids_in(listed, "sqlite").count() > 0);
    let before = sessions(&library).len();
    // The database of another channel, which also contains the tree's session.
    let other = database_of("opencode-sqlite-first");
    let path = other.path().join("opencode.db");
    python(
        &path,
        "c.execute(\"INSERT INTO session (id, project_id, slug, directory, title, version, time_created, time_updated) VALUES ('s1', 'global', 's', '/', 'moved', '1.2.1', 5, 6)\"); \
         c.execute(\"INSERT INTO message VALUES ('m1', 's1', 7, 7, '{\\\"role\\\":\\\"user\\\",\\\"time\\\":{\\\"created\\\":7}}')\"); \
         c.execute('PRAGMA wal_checkpoint(TRUNCATE)')",
    );
    fs::copy(&path, tree.path().join("opencode-dev.db")).unwrap();
    await_sessions(&library, |listed| {
        ids_in(listed, "sqlite").any(|id| id == "s1")
    });
    assert!(sessions(&library).len() > before);
    assert_eq!(sessions(&library).iter().filter(|s| s.1 == "s1").count(), 1);
    let catalog = library.catalog();
    let entry = catalog.get("s1").unwrap();
    assert_eq!(library.conversation(entry).unwrap().messages.len(), 1);
}

#[test]
fn a_table_that_an_upgrade_adds_is_read() {
    let dir = database_of("opencode-sqlite-first");
    let path = dir.path().join("opencode.db");
    let library = library(opencode::open(&path).unwrap());
    let before = sessions(&library);
    assert!(before.iter().all(|(generation, _)| *generation == "sqlite"));
    // The script adds the table of 2.x. One session is only in that table.
    python(
        &path,
        "c.execute('CREATE TABLE session_v2 AS SELECT * FROM session LIMIT 1'); \
         c.execute(\"UPDATE session_v2 SET id = 'ses_of_two'\"); c.execute('PRAGMA wal_checkpoint(TRUNCATE)')",
    );
    await_sessions(&library, |listed| {
        ids_in(listed, "session_v2").any(|id| id == "ses_of_two")
    });
    assert_eq!(ids_in(&sessions(&library), "sqlite").count(), before.len());
}

#[test]
fn files_that_are_only_named_like_databases_are_reported() {
    let dir = copy_of("opencode-json");
    let library = library(opencode::open(dir.path()).unwrap());
    assert!(library.catalog().skipped.is_empty());
    fs::create_dir(dir.path().join("opencode-folder.db")).unwrap();
    std::os::unix::fs::symlink("nowhere", dir.path().join("opencode-link.db")).unwrap();
    let pipe = dir.path().join("opencode-pipe.db");
    let status = std::process::Command::new("mkfifo").arg(pipe).status();
    assert!(status.unwrap().success());
    let start = Instant::now();
    while library.catalog().skipped.len() < 3 {
        assert!(start.elapsed() < Duration::from_secs(4));
        std::thread::sleep(Duration::from_millis(50));
    }
    let catalog = library.catalog();
    let reasons: Vec<_> = catalog.skipped.iter().map(|s| s.reason).collect();
    assert_eq!(reasons, [SkipReason::WrongKind; 3]);
    assert_eq!(catalog.entries.len(), 14);
    // A file that is not a database is reported, and all sessions are still read.
    fs::write(
        dir.path().join("opencode.db"),
        "nothing that SQLite knows, for all its length",
    )
    .unwrap();
    let start = Instant::now();
    while library.catalog().skipped.len() + library.catalog().unavailable.len() < 4 {
        assert!(start.elapsed() < Duration::from_secs(4));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(library.catalog().entries.len(), 14);
}

#[test]
fn a_path_without_a_history_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    assert!(opencode::open(dir.path()).is_err());
    assert!(opencode::open(&dir.path().join("absent")).is_err());
}

#[test]
fn folders_of_claude_code_and_codex_that_appear_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let (claude, rollouts) = (dir.path().join("claude"), dir.path().join("codex"));
    let mut sources = claude_code::watch(&claude);
    sources.extend(codex::watch(&rollouts));
    let library = library(sources);
    assert_eq!(sessions(&library), []);
    copy(&fixture("claude-code"), &claude);
    copy(&fixture("codex"), &rollouts);
    await_sessions(&library, |listed| {
        ids_in(listed, "jsonl").count() > 0 && ids_in(listed, "rollout").count() > 0
    });
    let expected = |opened: Vec<Arc<dyn Source>>| opened[0].list().unwrap().headers.len();
    let listed = sessions(&library);
    assert_eq!(
        ids_in(&listed, "jsonl").count(),
        expected(claude_code::open(&claude).unwrap())
    );
    assert_eq!(
        ids_in(&listed, "rollout").count(),
        expected(codex::open(&rollouts).unwrap())
    );
    for entry in &library.catalog().entries {
        library.conversation(entry).unwrap();
    }
}
