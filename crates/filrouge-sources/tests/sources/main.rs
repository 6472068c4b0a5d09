//! Tests of the sources on files that the programs wrote, and on changed and damaged copies.

// Clippy allows `unwrap` only inside test functions. This attribute allows it in helpers, too.
#![allow(clippy::unwrap_used)]

mod claude_code;
mod codex;
mod damage;
mod damaged_databases;
mod databases;
mod databases_against_exports;
mod fingerprints;
mod fuzz;
mod golden;
mod ledger;
mod ledger_documents;
mod ledger_speakers;
mod library_extras;
mod library_history;
mod library_lineage;
mod library_list;
mod library_stats;
mod live_database;
mod live_tree;
mod mapping;
mod neutral;
mod newer_kind;
mod trees;
mod trees_against_exports;
mod watched;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use filrouge_sources::{Conversation, Fingerprint, LoadedSession, Skipped, Source, opencode};
use filrouge_types::{Channel, ItemBody};
use serde_json::Value;

/// A fixture in the repository's `tests/fixtures`: files that the programs wrote.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures")
        .join(name)
}

/// A copy of a fixture that a test may change.
fn copy_of(name: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    copy(&fixture(name), dir.path());
    dir
}

/// Copies a folder with everything in it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for child in fs::read_dir(from).unwrap() {
        let child = child.unwrap();
        let target = to.join(child.file_name());
        if child.file_type().unwrap().is_dir() {
            copy(&child.path(), &target);
        } else {
            fs::copy(child.path(), target).unwrap();
        }
    }
}

/// The only OpenCode source at a path.
fn only_source(path: &Path) -> Arc<dyn Source> {
    let mut sources = opencode::open(path).unwrap();
    assert_eq!(sources.len(), 1);
    sources.remove(0)
}

/// The fingerprint of a listed session; `None` if the session is not listed or has no fingerprint.
fn fingerprint(source: &dyn Source, id: &str) -> Option<Fingerprint> {
    let listing = source.list().unwrap();
    let header = listing.headers.iter().find(|header| *header.id == *id);
    source.fingerprint(header?)
}

/// Everything that the storages at a path return: the sessions in order of (created, id), each once and from the newest
/// storage, and all reports.
fn read_all(path: &Path) -> (Vec<LoadedSession>, Vec<Skipped>) {
    let mut loaded: Vec<LoadedSession> = Vec::new();
    let mut skipped = Vec::new();
    for source in opencode::open(path).unwrap() {
        let list = source.list().unwrap();
        skipped.extend_from_slice(&list.skipped);
        for header in &list.headers {
            let has_id = |session: &LoadedSession| session.session.id == header.id;
            if !loaded.iter().any(has_id) {
                loaded.push(source.load(&header.id).unwrap());
            }
        }
        skipped.extend(source.orphans().unwrap());
    }
    loaded.sort_by(|a, b| {
        let key = |session: &LoadedSession| (session.session.created, session.session.id.clone());
        key(a).cmp(&key(b))
    });
    skipped.extend(loaded.iter().flat_map(|session| session.skipped.clone()));
    (loaded, skipped)
}

/// The reports as (path below the opened folder, name of the reason).
fn reports(root: &Path, skipped: &[Skipped]) -> Vec<(String, &'static str)> {
    let mut reports: Vec<_> = skipped
        .iter()
        .map(|report| {
            let path = report.path.strip_prefix(root).unwrap_or(&report.path);
            (path.to_string_lossy().into_owned(), report.reason.as_str())
        })
        .collect();
    reports.sort();
    reports
}

/// The items of a session in order.
fn items(loaded: &LoadedSession) -> Vec<&ItemBody> {
    loaded
        .turns
        .iter()
        .flat_map(|turn| turn.question.iter().chain(&turn.items))
        .collect()
}

fn count(loaded: &LoadedSession, channel: &Channel) -> usize {
    items(loaded)
        .iter()
        .filter(|item| item.channel == *channel)
        .count()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Writes a file and creates its folders.
fn put(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A generated tree, for cases that no fixture contains.
struct GeneratedTree(tempfile::TempDir);

impl GeneratedTree {
    /// A `storage` tree with the session `s1`.
    fn new() -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        tree.session("p1", "s1", 1000);
        tree
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn session(&self, project: &str, id: &str, created: i64) {
        let text = format!(
            r#"{{"id":"{id}","projectID":"{project}","title":"{id}","time":{{"created":{created},"updated":{created}}}}}"#
        );
        put(
            self.path(),
            &format!("storage/session/{project}/{id}.json"),
            &text,
        );
    }

    /// A message of `s1`; `fields` begins with a comma or is empty.
    fn message(&self, id: &str, role: &str, created: i64, time: &str, fields: &str) {
        let text = format!(
            r#"{{"id":"{id}","sessionID":"s1","role":"{role}","time":{{"created":{created}{time}}}{fields}}}"#
        );
        put(self.path(), &format!("storage/message/s1/{id}.json"), &text);
    }

    /// A message of the user.
    fn user(&self, id: &str, created: i64) {
        self.message(id, "user", created, "", "");
    }

    /// A completed message of the assistant.
    fn answer(&self, id: &str, created: i64, fields: &str) {
        self.message(id, "assistant", created, r#","completed":1"#, fields);
    }

    /// A part of a message of `s1`; `fields` is JSON without braces.
    fn part(&self, message: &str, id: &str, fields: &str) {
        let text = format!(r#"{{"id":"{id}","sessionID":"s1","messageID":"{message}",{fields}}}"#);
        put(
            self.path(),
            &format!("storage/part/{message}/{id}.json"),
            &text,
        );
    }

    fn load(&self) -> LoadedSession {
        only_source(self.path()).load("s1").unwrap()
    }

    fn conversation(&self) -> Conversation {
        only_source(self.path()).read("s1").unwrap()
    }
}
