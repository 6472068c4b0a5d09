//! Fingerprints: they change with whatever is written to a session, and with nothing else; they are the same in every process.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use filrouge_sources::{Fingerprint, Source, claude_code, codex, opencode};

use crate::databases::{database_of, of, python};
use crate::{Made, copy_of, fingerprint, only};

/// All sessions of all sources at a path, as a process that has just started sees them.
fn all(sources: &[Arc<dyn Source>]) -> BTreeMap<(String, String), Fingerprint> {
    let mut all = BTreeMap::new();
    for source in sources {
        for header in &source.list().unwrap().headers {
            let key = (header.generation.to_owned(), header.id.to_string());
            all.insert(key, source.fingerprint(header).unwrap());
        }
    }
    all
}

/// Until what was written within the last tick of the file system's clock has another time than what is written now.
fn settle() {
    std::thread::sleep(Duration::from_millis(50));
}

#[test]
fn they_are_the_same_in_every_process() {
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
        settle();
        let first = open(dir.path()).unwrap();
        let (before, again) = (all(&first), all(&first));
        assert!(!before.is_empty(), "{name}");
        assert_eq!(before, again, "{name}");
        assert_eq!(before, all(&open(dir.path()).unwrap()), "{name}");
        assert_eq!(before, all(&watched(dir.path(), name)), "{name}");
    }
}

/// What watches the same place.
fn watched(path: &Path, name: &str) -> Vec<Arc<dyn Source>> {
    match name {
        "claude-code" => claude_code::watch(path),
        "codex" => codex::watch(path),
        _ => opencode::watch(path),
    }
}

#[test]
fn every_write_to_a_tree_changes_its_session_alone() {
    let made = Made::new();
    made.user("m1", 1);
    made.part("m1", "p1", r#""type":"text","text":"a""#);
    made.session("p1", "s2", 1);
    settle();
    let source = only(made.path());
    let other = fingerprint(&*source, "s2").unwrap();
    let mut seen = vec![fingerprint(&*source, "s1").unwrap()];
    let mut changed = |what: &str| {
        let now = fingerprint(&*source, "s1").unwrap();
        assert!(!seen.contains(&now), "{what}");
        settle();
        seen.push(now);
        seen.push(fingerprint(&*source, "s1").unwrap());
        assert_eq!(fingerprint(&*source, "s2"), Some(other), "{what}");
    };
    // In place: no folder changes by that, and no size.
    made.part("m1", "p1", r#""type":"text","text":"b""#);
    changed("a part in place");
    made.user("m1", 2);
    changed("a message in place");
    made.part("m1", "p2", r#""type":"text","text":"c""#);
    changed("a new part");
    fs::remove_file(made.path().join("storage/part/m1/p2.json")).unwrap();
    changed("a part less");
    made.answer("m2", 2, "");
    changed("a new message");
    fs::remove_file(made.path().join("storage/message/s1/m2.json")).unwrap();
    changed("a message less");
    made.session("p1", "s1", 7_777);
    changed("the record");
    // A time that is put back hides nothing.
    let part = made.path().join("storage/part/m1/p1.json");
    let before = fs::metadata(&part).unwrap().modified().unwrap();
    made.part("m1", "p1", r#""type":"text","text":"d""#);
    fs::File::open(&part).unwrap().set_modified(before).unwrap();
    changed("a part with its old time");
}

#[test]
fn two_writes_within_a_tick_are_told_apart_afterwards() {
    let made = Made::new();
    made.user("m1", 1);
    made.part("m1", "p1", r#""type":"text","text":"a""#);
    let source = only(made.path());
    // Listed right behind the write: what is written next may leave the same times.
    let hot = fingerprint(&*source, "s1");
    settle();
    assert_ne!(fingerprint(&*source, "s1"), hot);
}

#[test]
fn every_commit_to_a_session_changes_it_alone() {
    let dir = database_of("opencode-sqlite");
    let path = dir.path().join("opencode.db");
    let sources = opencode::open(&path).unwrap();
    let source = of(&sources, "sqlite");
    let session = "ses_44e90d925ffeBM67k4fmNh04dz";
    let others = || {
        let mut all = all(&sources);
        all.remove(&("sqlite".to_owned(), session.to_owned()));
        all
    };
    let rest = others();
    let mut seen = vec![fingerprint(source, session).unwrap()];
    let part = format!("(SELECT id FROM part WHERE session_id = '{session}' LIMIT 1)");
    for (what, sql) in [
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
        ("a part less", format!("DELETE FROM part WHERE id = {part}")),
        (
            "a title",
            format!("UPDATE session SET title = 'other' WHERE id = '{session}'"),
        ),
    ] {
        python(&path, &format!("c.execute(\"{sql}\")"));
        let now = fingerprint(source, session).unwrap();
        assert!(!seen.contains(&now), "{what}");
        seen.push(now);
        assert_eq!(others(), rest, "{what}");
    }
    // A log that is folded in, and rows that get other numbers, are no change.
    let before = all(&sources);
    python(&path, "c.execute('PRAGMA wal_checkpoint(TRUNCATE)')");
    assert_eq!(all(&sources), before);
    python(&path, "c.execute('VACUUM')");
    assert_eq!(all(&sources), before);
    assert_eq!(all(&opencode::open(&path).unwrap()), before);
}

#[test]
fn a_history_that_is_moved_is_the_same() {
    let dir = copy_of("opencode-sqlite");
    let before = all(&opencode::open(dir.path()).unwrap());
    let moved = PathBuf::from(format!("{}-moved", dir.path().display()));
    fs::rename(dir.path(), &moved).unwrap();
    let after = all(&opencode::open(&moved).unwrap());
    fs::rename(&moved, dir.path()).unwrap();
    assert_eq!(after, before);
}
