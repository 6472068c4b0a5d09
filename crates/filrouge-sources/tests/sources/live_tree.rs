//! Tests of a tree that changes while it is read: new data is seen at once.

use std::fs;

use filrouge_sources::{SkipReason, Source};

use crate::{GeneratedTree, only_source, put};

fn titles(source: &dyn Source) -> Vec<String> {
    let headers = source.list().unwrap().headers.clone();
    headers
        .iter()
        .map(|h| h.title.as_deref().unwrap().to_owned())
        .collect()
}

#[test]
fn a_listing_follows_the_files() {
    let tree = GeneratedTree::new();
    let source = only_source(tree.path());
    assert_eq!(titles(source.as_ref()), ["s1"]);
    tree.session("p1", "s2", 2000);
    assert_eq!(titles(source.as_ref()), ["s1", "s2"]);
    tree.session("p9", "s3", 3000);
    assert_eq!(titles(source.as_ref()), ["s1", "s2", "s3"]);
    let renamed = r#"{"id":"s2","title":"renamed","time":{"created":2000}}"#;
    put(tree.path(), "storage/session/p1/s2.json", renamed);
    assert_eq!(titles(source.as_ref()), ["s1", "renamed", "s3"]);
    fs::remove_file(tree.path().join("storage/session/p9/s3.json")).unwrap();
    put(tree.path(), "storage/session/p1/s1.json", "{");
    let list = source.list().unwrap();
    assert_eq!((list.headers.len(), list.skipped.len()), (1, 1));

    // A project's file and a session's first message are part of a header too.
    put(
        tree.path(),
        "storage/project/p1.json",
        r#"{"name":"atelier","worktree":"/w"}"#,
    );
    let header = source.list().unwrap().headers[0].clone();
    assert_eq!(
        (header.project_name.as_deref(), header.agent.as_deref()),
        (Some("atelier"), None)
    );
    put(
        tree.path(),
        "storage/message/s2/m1.json",
        r#"{"id":"m1","role":"user","agent":"plan","time":{"created":1}}"#,
    );
    let header = source.list().unwrap().headers[0].clone();
    assert_eq!(header.agent.as_deref(), Some("plan"));
}

#[test]
fn a_change_is_seen_even_if_the_modification_time_is_reset() {
    let tree = GeneratedTree::new();
    let source = only_source(tree.path());
    assert_eq!(titles(source.as_ref()), ["s1"]);
    let path = tree.path().join("storage/session/p1/s1.json");
    let before = fs::metadata(&path).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace(r#""title":"s1""#, r#""title":"x1""#)).unwrap();
    let file = fs::File::open(&path).unwrap();
    file.set_modified(before.modified().unwrap()).unwrap();
    let after = fs::metadata(&path).unwrap();
    assert_eq!(
        (after.len(), after.modified().unwrap()),
        (before.len(), before.modified().unwrap())
    );
    assert_eq!(titles(source.as_ref()), ["x1"]);
}

#[test]
fn messages_without_a_session_are_reported_by_the_listing() {
    let tree = GeneratedTree::new();
    let source = only_source(tree.path());
    assert_eq!(source.list().unwrap().skipped, []);
    put(tree.path(), "storage/message/gone/m1.json", "{}");
    let listing = source.list().unwrap();
    assert_eq!(listing.skipped.len(), 1);
    let path = tree.path().join("storage/message/gone");
    let report = &listing.skipped[0];
    assert_eq!(
        (&report.path, report.reason),
        (&path, SkipReason::OrphanMessages)
    );
    // With the session's file, its messages are no longer orphaned.
    tree.session("p1", "gone", 5000);
    assert_eq!(source.list().unwrap().skipped, []);
    assert_eq!(titles(source.as_ref()), ["s1", "gone"]);
}

#[test]
fn parts_of_a_message_that_cannot_be_read_are_reported() {
    let tree = GeneratedTree::new();
    tree.user("m1", 1);
    tree.part("m1", "p1", r#""type":"text","text":"a""#);
    tree.part("m1", "p2", r#""type":"text","text":"b""#);
    put(tree.path(), "storage/message/s1/m1.json", "");
    let read = tree.conversation();
    let skipped: Vec<_> = read
        .skipped
        .iter()
        .map(|s| (s.reason, &*s.detail))
        .collect();
    let parts = "2 files, and their message cannot be read";
    assert_eq!(
        skipped,
        [
            (SkipReason::Empty, "0 bytes"),
            (SkipReason::OrphanParts, parts)
        ]
    );
}
