//! Tests of fingerprints: they change with every write to a session and with nothing else, and are the same in every
//! process.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use filrouge_sources::{Fingerprint, Source, claude_code, codex, opencode};

use crate::databases::{database_of, of_generation, python};
use crate::{GeneratedTree, copy_of, fingerprint, only_source};

/// The fingerprints of all sessions of these sources.
fn fingerprints_of(sources: &[Arc<dyn Source>]) -> BTreeMap<(String, String), Fingerprint> {
    let mut fingerprints = BTreeMap::new();
    for source in sources {
        for header in &source.list().unwrap().headers {
            let key = (header.generation.to_owned(), header.id.to_string());
            fingerprints.insert(key, source.fingerprint(header).unwrap());
        }
    }
    fingerprints
}

/// Waits for the next tick of the file system's clock, so that a further write gets another time than the last one.
fn wait_for_clock_tick() {
    std::thread::sleep(Duration::from_millis(50));
}

#[test]
fn fingerprints_are_the_same_in_every_process() {
    type Open = fn(&Path) -> Result<Vec<Arc<dyn Source>>, filrouge_sources::SourceError>;
    for (name, open) in [
        ("opencode-json", opencode::open as Open),
        ("opencode-json-legacy", opencode::open),
        ("opencode-sqlite", opencode::open),
        ("opencode-sqlite-wal", opencode::open),
        ("claude-code", claude_code::open),
        ("codex", codex::open),
    ] {
        let dir = copy_of(name);
        wait_for_clock_tick();
        let first = open(dir.path()).unwrap();
        let (before, again) = (fingerprints_of(&first), fingerprints_of(&first));
        assert!(!before.is_empty(), "{name}");
        assert_eq!(before, again, "{name}");
        assert_eq!(
            before,
            fingerprints_of(&open(dir.path()).unwrap()),
            "{name}"
        );
        assert_eq!(
            before,
            fingerprints_of(&watched(dir.path(), name)),
            "{name}"
        );
    }
}

/// Sources that watch a path.
fn watched(path: &Path, name: &str) -> Vec<Arc<dyn Source>> {
    match name {
        "claude-code" => claude_code::watch(path),
        "codex" => codex::watch(path),
        _ => opencode::watch(path),
    }
}

#[test]
fn every_write_to_a_tree_changes_only_its_session() {
    let tree = GeneratedTree::new();
    tree.user("m1", 1);
    tree.part("m1", "p1", r#""type":"text","text":"a""#);
    tree.session("p1", "s2", 1);
    wait_for_clock_tick();
    let source = only_source(tree.path());
    let other = fingerprint(&*source, "s2").unwrap();
    let mut earlier = vec![fingerprint(&*source, "s1").unwrap()];
    let mut assert_changed = |change: &str| {
        let current = fingerprint(&*source, "s1").unwrap();
        assert!(!earlier.contains(&current), "{change}");
        wait_for_clock_tick();
        earlier.push(current);
        earlier.push(fingerprint(&*source, "s1").unwrap());
        assert_eq!(fingerprint(&*source, "s2"), Some(other), "{change}");
    };
    // This write changes neither the folder nor the file's size.
    tree.part("m1", "p1", r#""type":"text","text":"b""#);
    assert_changed("a part in place");
    tree.user("m1", 2);
    assert_changed("a message in place");
    tree.part("m1", "p2", r#""type":"text","text":"c""#);
    assert_changed("a new part");
    fs::remove_file(tree.path().join("storage/part/m1/p2.json")).unwrap();
    assert_changed("a removed part");
    tree.answer("m2", 2, "");
    assert_changed("a new message");
    fs::remove_file(tree.path().join("storage/message/s1/m2.json")).unwrap();
    assert_changed("a removed message");
    tree.session("p1", "s1", 7_777);
    assert_changed("the session's record");
    // Setting a file's time back does not hide a change.
    let part = tree.path().join("storage/part/m1/p1.json");
    let before = fs::metadata(&part).unwrap().modified().unwrap();
    tree.part("m1", "p1", r#""type":"text","text":"d""#);
    fs::File::open(&part).unwrap().set_modified(before).unwrap();
    assert_changed("a part with its old time");
}

#[test]
fn a_fingerprint_that_was_taken_right_after_a_write_changes_later() {
    let tree = GeneratedTree::new();
    tree.user("m1", 1);
    tree.part("m1", "p1", r#""type":"text","text":"a""#);
    let source = only_source(tree.path());
    // This listing follows the write at once, so a further write might leave the times of the file unchanged.
    let early = fingerprint(&*source, "s1");
    wait_for_clock_tick();
    assert_ne!(fingerprint(&*source, "s1"), early);
}

#[test]
fn every_commit_changes_only_its_session() {
    let dir = database_of("opencode-sqlite");
    let path = dir.path().join("opencode.db");
    let sources = opencode::open(&path).unwrap();
    let source = of_generation(&sources, "sqlite");
    let session = "ses_44e90d925ffeBM67k4fmNh04dz";
    let others = || {
        let mut fingerprints = fingerprints_of(&sources);
        fingerprints.remove(&("sqlite".to_owned(), session.to_owned()));
        fingerprints
    };
    let unchanged = others();
    let mut earlier = vec![fingerprint(source, session).unwrap()];
    let part = format!("(SELECT id FROM part WHERE session_id = '{session}' LIMIT 1)");
    for (change, sql) in [
        (
            "a part in place",
            format!(
                "UPDATE part SET data = replace(data, 'a', 'b'), time_updated = time_updated + 1 WHERE id = {part}"
            ),
        ),
        (
            "a part of another size",
            format!("UPDATE part SET data = data || ' ' WHERE id = {part}"),
        ),
        (
            "a new message",
            format!(
                "INSERT INTO message SELECT 'msg_new', session_id, time_created, time_updated, data FROM message WHERE session_id = '{session}' LIMIT 1"
            ),
        ),
        (
            "a removed part",
            format!("DELETE FROM part WHERE id = {part}"),
        ),
        (
            "a title",
            format!("UPDATE session SET title = 'other' WHERE id = '{session}'"),
        ),
    ] {
        python(&path, &format!("c.execute(\"{sql}\")"));
        let current = fingerprint(source, session).unwrap();
        assert!(!earlier.contains(&current), "{change}");
        earlier.push(current);
        assert_eq!(others(), unchanged, "{change}");
    }
    // A checkpoint of the log and new row numbers are not changes.
    let before = fingerprints_of(&sources);
    python(&path, "c.execute('PRAGMA wal_checkpoint(TRUNCATE)')");
    assert_eq!(fingerprints_of(&sources), before);
    python(&path, "c.execute('VACUUM')");
    assert_eq!(fingerprints_of(&sources), before);
    assert_eq!(fingerprints_of(&opencode::open(&path).unwrap()), before);
}

#[test]
fn a_moved_history_has_the_same_fingerprints() {
    let dir = copy_of("opencode-sqlite");
    let before = fingerprints_of(&opencode::open(dir.path()).unwrap());
    let moved = PathBuf::from(format!("{}-moved", dir.path().display()));
    fs::rename(dir.path(), &moved).unwrap();
    let after = fingerprints_of(&opencode::open(&moved).unwrap());
    fs::rename(&moved, dir.path()).unwrap();
    assert_eq!(after, before);
}
