//! Tests of databases with malformed rows and damaged pages, and of files that are not databases.

use std::collections::BTreeMap;
use std::fs;

use filrouge_sources::{Conversation, Library, SkipReason, Skipped, opencode};

use crate::copy_of;
use crate::databases::{conversations, database_of, occurrences, of_generation, python};

/// The reports as (row, name of the reason), sorted.
fn reports(skipped: &[Skipped]) -> Vec<(String, &'static str)> {
    let name = |s: &Skipped| {
        let path = s.path.to_string_lossy().into_owned();
        path.split_once('#')
            .map_or(path.clone(), |(_, row)| row.to_owned())
    };
    let mut reports: Vec<_> = skipped
        .iter()
        .map(|s| (name(s), s.reason.as_str()))
        .collect();
    reports.sort();
    reports
}

#[test]
fn malformed_rows_are_skipped_and_reported() {
    let dir = database_of("opencode-sqlite-first");
    let path = dir.path().join("opencode.db");
    python(
        &path,
        r#"
c.execute("PRAGMA foreign_keys = OFF")
c.execute("PRAGMA ignore_check_constraints = ON")
S = 'ses_44e90d925ffeBM67k4fmNh04dz'
c.execute("INSERT INTO session (id, project_id, slug, directory, title, version, time_created, time_updated, revert) VALUES (?, 'global', 's', '/', 't', '1.2.1', 5, 6, '{torn')", ('ses_bad_revert',))
c.execute("INSERT INTO session (id, project_id, slug, directory, title, version, time_created, time_updated) VALUES ('../../etc/x', 'global', 's', '/', 't', '1.2.1', 5, 6)")
c.execute("INSERT INTO session (id, project_id, slug, directory, title, version, time_created, time_updated) VALUES (NULL, 'global', 's', '/', 't', '1.2.1', 5, 6)")
c.execute("INSERT INTO session (id, project_id, slug, directory, title, version, time_created, time_updated) VALUES ('ses_no_time', 'global', 's', '/', 't', '1.2.1', 'yesterday', 6)")
message = lambda id, session, data: c.execute("INSERT INTO message VALUES (?, ?, 7, 7, ?)", (id, session, data))
part = lambda id, message, data: c.execute("INSERT INTO part VALUES (?, ?, ?, 7, 7, ?)", (id, message, S, data))
good = '{"role":"user","time":{"created":7}}'
message('msg_good', 'ses_bad_revert', good)
message('msg_torn', 'ses_bad_revert', '{"role":"user","time":{"crea')
message('msg_empty', 'ses_bad_revert', '')
message('msg_blob', 'ses_bad_revert', b'\xff\xfe')
message('msg_number', 'ses_bad_revert', 17)
message('../x', 'ses_bad_revert', good)
message(None, 'ses_bad_revert', good)
message('msg_lost', 'ses_nowhere', good)
part('prt_good', 'msg_good', '{"type":"text","text":"still here"}')
part('prt_torn', 'msg_good', '{"type":"text","text":"sti')
part('prt_odd', 'msg_good', '{"type":"tool","tool":7}')
part('prt_utf', 'msg_good', b'{"type":"text","text":"\xff"}')
part('prt_lost', 'msg_nowhere', '{"type":"text","text":"lost"}')
"#,
    );
    let sources = opencode::open(&path).unwrap();
    let source = of_generation(&sources, "sqlite");
    let listing = source.list().unwrap();
    assert_eq!(listing.headers.len(), 23);
    let expected = [
        ("session/rowid 24".to_owned(), "bad_name"),
        ("session/rowid 25".to_owned(), "bad_name"),
        ("session/ses_bad_revert".to_owned(), "malformed"),
        ("session/ses_no_time".to_owned(), "bad_field"),
    ];
    assert_eq!(reports(&listing.skipped), expected);
    let read = source.read("ses_bad_revert").unwrap();
    assert_eq!(read.messages.len(), 1);
    let parts: Vec<_> = read.messages[0]
        .parts
        .iter()
        .map(|p| (&*p.id, p.kind.name()))
        .collect();
    assert_eq!(parts, [("prt_good", "text"), ("prt_odd", "tool")]);
    let actual = reports(&read.skipped);
    let expected = [
        ("message/?", "bad_name"),
        ("message/?", "bad_name"),
        ("message/msg_blob", "not_utf8"),
        ("message/msg_empty", "torn"),
        ("message/msg_number", "malformed"),
        ("message/msg_torn", "torn"),
        ("part/prt_torn", "torn"),
        ("part/prt_utf", "not_utf8"),
    ];
    let actual: Vec<_> = actual.iter().map(|(p, r)| (p.as_str(), *r)).collect();
    assert_eq!(actual, expected);
    let orphans = reports(&source.orphans().unwrap());
    let expected = [
        ("message/msg_nowhere".to_owned(), "orphan_parts"),
        ("session/ses_nowhere".to_owned(), "orphan_messages"),
    ];
    assert_eq!(orphans, expected);
    let error = source.read("../../etc/x").unwrap_err();
    assert!(!matches!(
        error,
        filrouge_sources::ReadError::Unavailable(_)
    ));
}

#[test]
fn a_damaged_page_loses_only_its_rows() {
    let dir = database_of("opencode-sqlite");
    let path = dir.path().join("opencode.db");
    let before = conversations(dir.path());
    let mut bytes = fs::read(&path).unwrap();
    // A leaf page of the table `part`. Leaf pages of the table `event` contain ids of parts, too.
    let contains = |page: &[u8], word: &[u8]| page.windows(word.len()).any(|w| w == word);
    let is_leaf =
        |page: &&mut [u8]| page[0] == 0x0d && contains(page, b"prt_") && !contains(page, b"evt_");
    let leaf = bytes.chunks_mut(4096).filter(is_leaf).nth(3).unwrap();
    leaf.fill(0xa5);
    fs::write(&path, bytes).unwrap();
    let after = conversations(dir.path());
    assert_eq!(after.len(), before.len());
    let parts = |all: &BTreeMap<String, Conversation>| -> usize {
        all.values()
            .flat_map(|c| &c.messages)
            .map(|m| m.parts.len())
            .sum()
    };
    let lost = parts(&before) - parts(&after);
    assert!((1..120).contains(&lost), "{lost} parts are lost");
    let skipped: Vec<_> = after.values().flat_map(|c| &c.skipped).collect();
    assert!(!skipped.is_empty());
    assert!(skipped.iter().all(|s| s.reason == SkipReason::Malformed));
    let sources = opencode::open(&path).unwrap();
    let actual = occurrences(of_generation(&sources, "sqlite"), "");
    assert!(actual.len() > 200, "{}", actual.len());
}

#[test]
fn sessions_of_a_damaged_database_are_read_and_never_cached() {
    let dir = database_of("opencode-sqlite");
    let path = dir.path().join("opencode.db");
    let mut bytes = fs::read(&path).unwrap();
    let contains = |page: &[u8], word: &[u8]| page.windows(word.len()).any(|w| w == word);
    for page in bytes.chunks_mut(4096) {
        if page[0] == 0x0d && contains(page, b"prt_") && !contains(page, b"evt_") {
            page.fill(0xa5);
        }
    }
    fs::write(&path, bytes).unwrap();
    let sources = opencode::open(&path).unwrap();
    let source = of_generation(&sources, "sqlite");
    let headers = source.list().unwrap().headers.clone();
    assert!(
        headers
            .iter()
            .all(|header| source.fingerprint(header).is_none())
    );
    let is_incomplete = |header: &&std::sync::Arc<filrouge_sources::Header>| {
        !source.read(&header.id).unwrap().skipped.is_empty()
    };
    assert!(headers.iter().filter(is_incomplete).count() > headers.len() / 2);
}

#[test]
fn databases_that_are_not_histories_are_reported() {
    let dir = copy_of("opencode-json");
    let path = dir.path().join("opencode.db");
    fs::write(
        &path,
        "no database at all, but long enough to be taken for one",
    )
    .unwrap();
    fs::write(dir.path().join("opencode-empty.db"), "").unwrap();
    let sources = opencode::open(dir.path()).unwrap();
    let library = Library::new(sources, 1 << 20);
    let catalog = library.catalog();
    assert_eq!((catalog.entries.len(), catalog.unavailable.len()), (14, 1));
    assert!(catalog.unavailable[0].contains("not a SQLite database"));
    let reasons: Vec<_> = catalog.skipped.iter().map(|s| s.reason).collect();
    assert_eq!(reasons, [SkipReason::Database]);
    let error = opencode::open(&path).err().unwrap();
    assert!(
        matches!(error, filrouge_sources::SourceError::Unrecognized { .. }),
        "{error:?}"
    );
    fs::remove_file(&path).unwrap();
    assert!(library.catalog().unavailable[0].contains("does not exist"));
}
