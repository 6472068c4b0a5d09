//! A tree that is being written to while it is read: new data is seen at once.

use std::fs;

use filrouge_sources::{SkipReason, Source};

use crate::{Made, only, put};

fn titles(source: &dyn Source) -> Vec<String> {
    let headers = source.list().unwrap().headers.clone();
    headers
        .iter()
        .map(|h| h.title.as_deref().unwrap().to_owned())
        .collect()
}

#[test]
fn a_listing_follows_the_files() {
    let made = Made::new();
    let source = only(made.path());
    assert_eq!(titles(source.as_ref()), ["s1"]);
    made.session("p1", "s2", 2000);
    assert_eq!(titles(source.as_ref()), ["s1", "s2"]);
    made.session("p9", "s3", 3000);
    assert_eq!(titles(source.as_ref()), ["s1", "s2", "s3"]);
    let renamed = r#"{"id":"s2","title":"renamed","time":{"created":2000}}"#;
    put(made.path(), "storage/session/p1/s2.json", renamed);
    assert_eq!(titles(source.as_ref()), ["s1", "renamed", "s3"]);
    fs::remove_file(made.path().join("storage/session/p9/s3.json")).unwrap();
    put(made.path(), "storage/session/p1/s1.json", "{");
    let list = source.list().unwrap();
    assert_eq!((list.headers.len(), list.skipped.len()), (1, 1));

    // A project's file and a session's first message are part of a header, too.
    put(
        made.path(),
        "storage/project/p1.json",
        r#"{"name":"atelier","worktree":"/w"}"#,
    );
    let header = source.list().unwrap().headers[0].clone();
    assert_eq!(
        (header.project_name.as_deref(), header.agent.as_deref()),
        (Some("atelier"), None)
    );
    put(
        made.path(),
        "storage/message/s2/m1.json",
        r#"{"id":"m1","role":"user","agent":"plan","time":{"created":1}}"#,
    );
    let header = source.list().unwrap().headers[0].clone();
    assert_eq!(header.agent.as_deref(), Some("plan"));
}

#[test]
fn a_time_that_is_put_back_hides_nothing() {
    let made = Made::new();
    let source = only(made.path());
    assert_eq!(titles(source.as_ref()), ["s1"]);
    let path = made.path().join("storage/session/p1/s1.json");
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
fn messages_without_a_session_are_named_by_the_listing() {
    let made = Made::new();
    let source = only(made.path());
    assert_eq!(source.list().unwrap().skipped, []);
    put(made.path(), "storage/message/gone/m1.json", "{}");
    let listing = source.list().unwrap();
    assert_eq!(listing.skipped.len(), 1);
    let path = made.path().join("storage/message/gone");
    let one = &listing.skipped[0];
    assert_eq!((&one.path, one.reason), (&path, SkipReason::OrphanMessages));
    // Its session's file is there again: nothing is lost.
    made.session("p1", "gone", 5000);
    assert_eq!(source.list().unwrap().skipped, []);
    assert_eq!(titles(source.as_ref()), ["s1", "gone"]);
}

#[test]
fn parts_of_a_message_that_cannot_be_read_are_named() {
    let made = Made::new();
    made.user("m1", 1);
    made.part("m1", "p1", r#""type":"text","text":"a""#);
    made.part("m1", "p2", r#""type":"text","text":"b""#);
    put(made.path(), "storage/message/s1/m1.json", "");
    let read = made.conversation();
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
