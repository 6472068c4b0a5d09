//! Damaged files are skipped and reported, and affect no other file.

use std::fs;

use filrouge_sources::library::Library;
use filrouge_sources::library::list::{ListRequest, list};
use filrouge_sources::{ReadError, Source};

use crate::{GeneratedTree, fixture, items, only_source, put, read_all, reports};

/// A generated tree with one valid turn, which must be read whatever else is in the tree.
fn valid_tree() -> GeneratedTree {
    let tree = GeneratedTree::new();
    tree.user("m1", 1);
    tree.part("m1", "p1", r#""type":"text","text":"q""#);
    tree.answer("m2", 2, "");
    tree.part("m2", "p2", r#""type":"text","text":"a""#);
    tree
}

const SESSION: &str = "storage/session/p1";
const MESSAGE: &str = "storage/message/s1";
const PART: &str = "storage/part/m2";

/// Damaged files: folder, id, content, reason.
#[rustfmt::skip]
const DAMAGE: [(&str, &str, &[u8], &str); 17] = [
    (SESSION, "s2", b"", "empty"),
    (SESSION, "s3", br#"{"id":"s3","time":{"cre"#, "torn"),
    (SESSION, "s4", br#"{"id":"../../auth","time":{"created":1}}"#, "id_mismatch"),
    (SESSION, "s5", br#"{"id":"s5"}"#, "bad_field"),
    (SESSION, "s6", br#"{"id":"s6","time":{"created":1e99}}"#, "bad_field"),
    (MESSAGE, "x1", b"", "empty"),
    (MESSAGE, "x2", br#"{"id":"x2","role":"user","role":"assistant"}"#, "duplicate_key"),
    (MESSAGE, "x3", b"{\"id\":\"\xff\"}", "not_utf8"),
    (MESSAGE, "x4", br#"{"id":"x4","sessionID":"s9","role":"user","time":{"created":1}}"#, "id_mismatch"),
    (MESSAGE, "x5", br#"{"id":"x5","role":"oracle","time":{"created":1}}"#, "bad_field"),
    (MESSAGE, "x6", br#"["x6"]"#, "malformed"),
    (PART, "y1", b"", "empty"),
    (PART, "y2", b"{\"id\":\"y2\",\"type\":\"te\0\0\0\0", "torn"),
    (PART, "y3", br#"{"id":"y3","type":"text","type":"text"}"#, "duplicate_key"),
    (PART, "y4", br#"{"id":"y4","messageID":"m1","type":"text"}"#, "id_mismatch"),
    (PART, "y5", br#"{"id":"y5"}"#, "bad_field"),
    (PART, "y6", br#"{"id":"y6" "type":"text"}"#, "malformed"),
];

#[test]
fn damaged_files_are_counted_and_reported() {
    let tree = valid_tree();
    for (dir, id, bytes, _) in DAMAGE {
        fs::write(tree.path().join(dir).join(format!("{id}.json")), bytes).unwrap();
    }
    let deep = format!(
        r#"{{"id":"z","type":"x","v":{}{}}}"#,
        "[".repeat(500),
        "]".repeat(500)
    );
    put(tree.path(), "storage/part/m2/z.json", &deep);
    put(tree.path(), "storage/part/m2/.json", "{}");
    put(tree.path(), "storage/part/m2/..json", "{}");
    put(tree.path(), "storage/part/m2/...json", "{}");
    put(tree.path(), "storage/part/m2/a.tmp", "{}");
    fs::create_dir(tree.path().join("storage/part/m2/dir.json")).unwrap();

    let (loaded, skipped) = read_all(tree.path());
    let mut expected: Vec<(String, &str)> = DAMAGE
        .iter()
        .map(|(dir, id, _, reason)| (format!("{dir}/{id}.json"), *reason))
        .collect();
    for (name, reason) in [
        ("z.json", "too_deep"),
        (".json", "bad_name"),
        ("..json", "bad_name"),
        ("...json", "bad_name"),
        ("a.tmp", "bad_name"),
        ("dir.json", "wrong_kind"),
    ] {
        expected.push((format!("{PART}/{name}"), reason));
    }
    expected.sort();
    assert_eq!(reports(tree.path(), &skipped), expected);
    assert_eq!(loaded.len(), 1);
    assert_eq!(items(&loaded[0]).len(), 2);
    assert!(loaded[0].turns[0].answer().is_some());
}

#[test]
fn a_damaged_session_file_does_not_hide_its_messages() {
    let tree = valid_tree();
    let file = "storage/session/p1/s1.json";
    let source = only_source(tree.path());
    for (text, reason) in [
        (r#"{"id":"s1","ti"#, "torn"),
        (r#"{"id":"s1"}"#, "bad_field"),
    ] {
        put(tree.path(), file, text);
        let listing = source.list().unwrap();
        let header = &listing.headers[0];
        let shown = (&*header.id, header.damaged, header.created);
        assert_eq!(shown, ("s1", true, 1));
        let expected = [(file.to_owned(), reason)];
        assert_eq!(reports(tree.path(), &listing.skipped), expected);
        let read = source.read("s1").unwrap();
        let ids: Vec<&str> = read.messages.iter().map(|m| &*m.id).collect();
        assert_eq!(ids, ["m1", "m2"]);
        let library = Library::new(vec![source.clone()], 1 << 20);
        let listed = list(&library, &ListRequest::default()).unwrap();
        assert!(listed.sessions[0].damaged);
    }
    // An undamaged file of the session in another project is preferred.
    tree.session("p0", "s1", 1000);
    let headers = source.list().unwrap().headers.clone();
    let kept = headers.iter().map(|h| (h.project_id.as_deref(), h.damaged));
    assert_eq!(kept.collect::<Vec<_>>(), [(Some("p0"), false)]);
    assert_eq!(source.load("s1").unwrap().turns.len(), 1);
}

#[test]
fn an_answer_to_an_unreadable_question_does_not_join_another_turn() {
    let tree = valid_tree();
    fs::write(tree.path().join("storage/message/s1/m3.json"), "").unwrap();
    tree.answer("m4", 4, r#","parentID":"m3""#);
    tree.part("m4", "p4", r#""type":"text","text":"to m3""#);
    let turns = tree.load().turns;
    assert_eq!(turns.len(), 2);
    assert_eq!(
        (turns[1].request_id.as_str(), turns[1].question.len()),
        ("m3", 0)
    );
    // After the file is repaired, the same turn has its question.
    tree.user("m3", 3);
    let turns = tree.load().turns;
    assert_eq!(
        (turns[1].request_id.as_str(), turns[1].question.len()),
        ("m3", 1)
    );
}

#[test]
fn orphans_are_reported_once() {
    let tree = valid_tree();
    put(tree.path(), "storage/message/gone/m8.json", "{}");
    put(tree.path(), "storage/part/m8/p8.json", "{}");
    put(tree.path(), "storage/part/m9/p9.json", "{}");
    put(tree.path(), "storage/session_diff/gone.json", "[]");
    let (loaded, skipped) = read_all(tree.path());
    assert_eq!(loaded.len(), 1);
    let expected = [
        ("storage/message/gone".into(), "orphan_messages"),
        ("storage/part/m9".into(), "orphan_parts"),
    ];
    assert_eq!(reports(tree.path(), &skipped), expected);

    let legacy = crate::copy_of("opencode-json-legacy");
    let session = "project/tmp-demo-atelier-api/storage/session";
    put(
        legacy.path(),
        &format!("{session}/message/gone/m8.json"),
        "{}",
    );
    put(
        legacy.path(),
        &format!("{session}/part/gone/m8/p8.json"),
        "{}",
    );
    put(
        legacy.path(),
        &format!("{session}/part/ses_72235f00affefvPj3zTqjv3F2b/m9/p9.json"),
        "{}",
    );
    let (loaded, skipped) = read_all(legacy.path());
    assert_eq!(loaded.len(), 2);
    let expected = [
        (format!("{session}/message/gone"), "orphan_messages"),
        (
            format!("{session}/part/ses_72235f00affefvPj3zTqjv3F2b/m9"),
            "orphan_parts",
        ),
    ];
    assert_eq!(reports(legacy.path(), &skipped), expected);
}

#[cfg(unix)]
#[test]
fn symbolic_links_are_reported_and_not_followed() {
    use std::os::unix::fs::symlink;
    let tree = valid_tree();
    let secret = tempfile::tempdir().unwrap();
    put(
        secret.path(),
        "m7/p7.json",
        r#"{"id":"p7","type":"text","text":"secret"}"#,
    );
    tree.user("m7", 7);
    let path_of = |path: &str| tree.path().join(path);
    symlink(secret.path().join("m7"), path_of("storage/part/m7")).unwrap();
    symlink(path_of("storage"), path_of("storage/session/loop")).unwrap();
    symlink("y.json", path_of("storage/part/m2/y.json")).unwrap();
    symlink(
        path_of("storage/message/s1/m1.json"),
        path_of("storage/message/s1/m6.json"),
    )
    .unwrap();
    let (loaded, skipped) = read_all(tree.path());
    assert!(!format!("{loaded:?}").contains("secret"));
    let expected = [
        "storage/message/s1/m6.json",
        "storage/part/m2/y.json",
        "storage/part/m7",
        "storage/session/loop",
    ];
    assert_eq!(
        reports(tree.path(), &skipped),
        expected.map(|path| (path.to_owned(), "symlink"))
    );

    // A folder above the folder of the session can be a link, too.
    let outside = valid_tree();
    let tree = GeneratedTree::new();
    symlink(
        outside.path().join("storage/message"),
        tree.path().join("storage/message"),
    )
    .unwrap();
    let loaded = tree.load();
    assert!(loaded.turns.is_empty());
    assert_eq!(loaded.skipped[0].reason.as_str(), "symlink");

    // The opened folder itself may be a link, because the user named it.
    let link = tempfile::tempdir().unwrap();
    symlink(outside.path().join("storage"), link.path().join("storage")).unwrap();
    assert_eq!(read_all(link.path()).0.len(), 1);
}

#[test]
fn large_differences_are_kept_as_their_size_and_secrets_not_at_all() {
    let tree = GeneratedTree::new();
    let large = format!("[\"{}\"]", "x".repeat(1 << 20));
    put(tree.path(), "storage/session_diff/s1.json", &large);
    put(tree.path(), "storage/todo/s1.json", "[");
    put(
        tree.path(),
        "storage/session_share/s1.json",
        r#"{"secret":"hush"}"#,
    );
    put(tree.path(), "auth.json", r#"{"key":"hush"}"#);
    let session = r#"{"id":"s1","parentID":"../x","share":{"url":"https://example.invalid/s1","secret":"hush"},"time":{"created":1}}"#;
    put(tree.path(), "storage/session/p1/s1.json", session);
    let loaded = tree.load();
    let expected = format!(
        r#"{{"opencode":{{"generation":"storage","session":{{"time":{{"created":1}},"parentID":"../x","share":{{"url":"https://example.invalid/s1"}}}},"session_diff_bytes":{}}}}}"#,
        large.len()
    );
    assert_eq!(loaded.metadata.as_str(), expected);
    assert_eq!(loaded.session.parent_id, None);
    assert_eq!(
        reports(tree.path(), &loaded.skipped),
        [("storage/todo/s1.json".to_owned(), "torn")]
    );
}

#[test]
fn a_session_that_was_removed_is_gone() {
    let tree = valid_tree();
    let source = only_source(tree.path());
    assert_eq!(source.list().unwrap().headers.len(), 1);
    fs::remove_file(tree.path().join("storage/session/p1/s1.json")).unwrap();
    assert!(source.list().unwrap().headers.is_empty());
    let is_gone = |source: &dyn Source| {
        matches!(source.load("s1"), Err(ReadError::Gone))
            && matches!(source.read("s1"), Err(ReadError::Gone))
    };
    assert!(is_gone(source.as_ref()));
    // A session with this id in another project of the same storage is the same session.
    tree.session("p2", "s1", 5);
    assert_eq!(source.load("s1").unwrap().turns.len(), 1);
    fs::remove_dir_all(tree.path()).unwrap();
    assert!(source.list().is_err() && source.orphans().is_err());
    assert!(matches!(source.load("s1"), Err(ReadError::Unavailable(_))));
    assert!(is_gone(
        only_source(&fixture("opencode-json-legacy")).as_ref()
    ));
}

#[test]
fn a_requested_id_is_never_a_path() {
    let tree = valid_tree();
    put(
        tree.path(),
        "storage/session/x.json",
        r#"{"id":"x","time":{"created":1}}"#,
    );
    let source = only_source(tree.path());
    for id in ["../session/x", "../x", "", ".", "/", "s1/../s1", "s1\0"] {
        assert!(matches!(source.load(id), Err(ReadError::Gone)), "{id:?}");
        assert!(matches!(source.read(id), Err(ReadError::Gone)), "{id:?}");
    }
}
