//! A tree that is being written to while it is read: new data is seen within a second, and nothing is read twice for nothing.

use std::fs;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use filrouge_sources::{Found, PartKind, Role, Scan, SkipReason, Source, opencode};
use filrouge_types::{Clock, SystemClock, Timestamp};

use crate::{Made, fixture, only, put};

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
    let first = source.list().unwrap();
    let again = source.list().unwrap();
    assert!(Arc::ptr_eq(&first, &again));

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

/// A clock that a test sets; it begins at the machine's time.
pub(crate) struct Later(AtomicI64);

impl Later {
    pub(crate) const fn by(millis: i64) -> Self {
        Self(AtomicI64::new(millis))
    }

    pub(crate) fn pass(&self, millis: i64) {
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for Later {
    fn now(&self) -> Timestamp {
        let now = SystemClock.now().as_micros() / 1000 + self.0.load(Ordering::SeqCst);
        Timestamp::from_millis(now).unwrap()
    }
}

#[test]
fn a_stamp_changes_with_every_write_and_only_then() {
    let made = Made::new();
    made.user("m1", 1);
    made.part("m1", "p1", r#""type":"text","text":"a""#);
    let clock = Arc::new(Later(AtomicI64::new(0)));
    let source = opencode::open_at(made.path(), clock.clone()).unwrap();
    let source = source[0].as_ref();
    let mut stamps = vec![source.stamp("s1").unwrap().unwrap()];
    source.conversation("s1").unwrap();
    // What was read is what the mark stands for: nothing is read again.
    clock.pass(500);
    assert_eq!(source.stamp("s1").unwrap().unwrap(), stamps[0]);
    let mut changed = |what: &str, read: bool| {
        clock.pass(500);
        let stamp = source.stamp("s1").unwrap().unwrap();
        assert!(!stamps.contains(&stamp), "{what}");
        if read {
            source.conversation("s1").unwrap();
            clock.pass(500);
        }
        assert_eq!(source.stamp("s1").unwrap().unwrap(), stamp);
        stamps.push(stamp);
    };
    for read in [true, false] {
        let text = format!(r#""type":"text","text":"a longer text, {read}""#);
        // In place: no folder changes by that.
        made.part("m1", "p1", &text);
        changed("part", read);
        made.user("m1", if read { 12345 } else { 123_456 });
        changed("message", read);
        made.part("m1", if read { "p2" } else { "p3" }, &text);
        changed("new part", read);
        made.answer(if read { "m2" } else { "m3" }, 2, "");
        changed("new message", read);
        made.session("p1", "s1", if read { 7_777_777 } else { 77_777_777 });
        changed("session", read);
    }
    // Another session's write is none of this one.
    clock.pass(500);
    let last = source.stamp("s1").unwrap();
    clock.pass(500);
    made.session("p1", "s2", 1);
    assert_eq!(source.stamp("s1").unwrap(), last);
}

#[test]
fn a_session_that_has_been_quiet_is_told_by_its_record_and_its_messages_alone() {
    let made = Made::new();
    made.user("m1", 1);
    made.part("m1", "p1", r#""type":"text","text":"a""#);
    let clock = Arc::new(Later(AtomicI64::new(0)));
    let source = opencode::open_at(made.path(), clock.clone()).unwrap();
    let source = source[0].as_ref();
    clock.pass(16 * 60 * 1000);
    let quiet = source.stamp("s1").unwrap();
    made.part("m1", "p1", r#""type":"text","text":"in place""#);
    assert_eq!(source.stamp("s1").unwrap(), quiet);
    clock.pass(-16 * 60 * 1000);
    made.answer("m2", 2, "");
    assert_ne!(source.stamp("s1").unwrap(), quiet);
}

/// Gives a file or folder an old time.
pub(crate) fn age(path: &std::path::Path, minutes: u64) {
    let now = u64::try_from(SystemClock.now().as_micros() / 1_000_000).unwrap();
    let then = std::time::UNIX_EPOCH + std::time::Duration::from_secs(now - 60 * minutes);
    let file = fs::File::open(path).unwrap();
    file.set_modified(then).unwrap();
}

#[test]
fn a_session_whose_part_alone_is_written_to_is_at_work() {
    let made = Made::new();
    made.user("m1", 1);
    made.part("m1", "p1", r#""type":"text","text":"a""#);
    let old = |part_too: bool| {
        for path in ["session/p1/s1.json", "message/s1/m1.json", "message/s1"] {
            age(&made.path().join("storage").join(path), 20);
        }
        if part_too {
            age(&made.path().join("storage/part/m1/p1.json"), 20);
            age(&made.path().join("storage/part/m1"), 20);
        }
    };
    old(false);
    let clock = Arc::new(Later(AtomicI64::new(0)));
    let source = opencode::open_at(made.path(), clock.clone()).unwrap();
    let source = source[0].as_ref();
    let mut last = source.stamp("s1").unwrap();
    for text in ["output of a tool", "output of a tool, and more"] {
        source.conversation("s1").unwrap();
        clock.pass(500);
        assert_eq!(source.stamp("s1").unwrap(), last);
        let before = fs::metadata(made.path().join("storage/message/s1")).unwrap();
        made.part("m1", "p1", &format!(r#""type":"text","text":"{text}""#));
        let after = fs::metadata(made.path().join("storage/message/s1")).unwrap();
        assert_eq!(before.modified().unwrap(), after.modified().unwrap());
        clock.pass(500);
        let now = source.stamp("s1").unwrap();
        assert_ne!(now, last, "{text}");
        last = now;
    }
    // With everything old it is quiet, and stays so.
    old(true);
    let again = opencode::open_at(made.path(), clock.clone()).unwrap();
    let quiet = again[0].stamp("s1").unwrap();
    again[0].conversation("s1").unwrap();
    clock.pass(500);
    assert_eq!(again[0].stamp("s1").unwrap(), quiet);
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
    assert!(Arc::ptr_eq(&listing, &source.list().unwrap()));
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

/// Which (message, part or error) a scan finds, with roles.
fn scan(source: &dyn Source, needle: &str, wanted: &str) -> Vec<(String, String, Option<Role>)> {
    let found = Mutex::new(Vec::new());
    let take = |one: Found<'_>| {
        let mut found = found.lock().unwrap();
        let parts = one.parts.iter().map(|part| part.id.to_string());
        for what in parts.chain(one.error.map(|e| e.name.to_string())) {
            found.push((one.message.to_owned(), what, one.role));
        }
    };
    let may_hold = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(needle);
    source
        .scan(&Scan {
            may_hold: &may_hold,
            wanted: &|id| wanted.is_empty() || id == wanted,
            ids: None,
            roles: true,
            stopped: &|| false,
            unread: &|_| {},
            found: &take,
        })
        .unwrap();
    let mut found = found.into_inner().unwrap();
    found.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
    found
}

#[test]
fn a_scan_finds_every_part_that_reading_finds() {
    for name in ["opencode-json", "opencode-json-legacy"] {
        let source = only(&fixture(name));
        for needle in ["limiter", "README", "rust", ""] {
            let mut expected = Vec::new();
            let mut errors = 0;
            for header in &source.list().unwrap().headers {
                for message in source.conversation(&header.id).unwrap().messages {
                    errors += usize::from(message.error.is_some());
                    for part in message.parts {
                        let holds = match &part.kind {
                            PartKind::Text { text, .. } => text.contains(needle),
                            PartKind::Tool(tool) => {
                                tool.output.as_ref().is_some_and(|o| o.contains(needle))
                            }
                            _ => needle.is_empty(),
                        };
                        if holds {
                            let id = (message.id.to_string(), part.id.to_string());
                            expected.push((id.0, id.1, Some(message.role)));
                        }
                    }
                }
            }
            let found = scan(source.as_ref(), needle, "");
            for one in &expected {
                assert!(found.contains(one), "{name} {needle}: {one:?}");
            }
            if needle.is_empty() {
                assert!(found.len() >= expected.len() + errors);
            }
        }
    }
}

#[test]
fn a_scan_looks_at_wanted_sessions_and_at_errors_and_stops() {
    let made = Made::new();
    made.user("m1", 1);
    made.part("m1", "p1", r#""type":"text","text":"needle""#);
    made.part("m1", "p2", r#""type":"text","text":"hay""#);
    put(
        made.path(),
        "storage/part/m1/p3.json",
        r#"{"type":"text","text":"needle"#,
    );
    made.answer(
        "m2",
        2,
        r#","error":{"name":"APIError","data":{"message":"needle"}}"#,
    );
    made.answer("m3", 3, r#","system":"needle""#);
    let source = only(made.path());
    let unread = Mutex::new(Vec::new());
    let look = |may_hold: &(dyn Fn(&[u8]) -> bool + Sync)| {
        let scan = Scan {
            ids: None,
            may_hold,
            wanted: &|_| true,
            roles: false,
            stopped: &|| false,
            unread: &|id| unread.lock().unwrap().push(id.to_owned()),
            found: &|_| {},
        };
        source.scan(&scan).unwrap();
        std::mem::take(&mut *unread.lock().unwrap())
    };
    // A torn part can be looked through as it is; one that may hold it cannot be shown, and an empty one was lost.
    assert!(look(&|_| false).is_empty());
    assert_eq!(look(&|_| true), ["s1"]);
    put(made.path(), "storage/part/m1/p4.json", "");
    assert_eq!(look(&|_| false), ["s1"]);
    let expected = [
        ("m1".to_owned(), "p1".to_owned(), Some(Role::User)),
        (
            "m2".to_owned(),
            "APIError".to_owned(),
            Some(Role::Assistant),
        ),
    ];
    assert_eq!(scan(source.as_ref(), "needle", ""), expected);
    assert_eq!(scan(source.as_ref(), "needle", "s2"), []);
    let asked = AtomicUsize::new(0);
    source
        .scan(&Scan {
            may_hold: &|_| asked.fetch_add(1, Ordering::Relaxed) > 0,
            wanted: &|_| true,
            ids: None,
            roles: false,
            stopped: &|| true,
            unread: &|_| panic!("stopped"),
            found: &|_| panic!("stopped"),
        })
        .unwrap();
    assert_eq!(asked.into_inner(), 0);
}
