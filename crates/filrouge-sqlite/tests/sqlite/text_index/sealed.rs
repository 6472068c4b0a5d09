//! A sealed index notices what others change in its file.

use filrouge_sqlite::text_index::SqliteIndex;
use filrouge_store::contract::text_index::{
    IndexTestExt as _, bodies, document, matching_bodies, numbers, query, shard, texts, tidy_fully,
    update,
};
use filrouge_store::text_index::{Coverage, IndexScope, IndexUpdate, TextIndex};
use filrouge_types::ErrorCode;
use rusqlite::Connection;

use super::{index_at, sealed_index_at};

/// A sealed index of three sessions: two of one owner, and one of another.
struct Sealed {
    folder: tempfile::TempDir,
    index: SqliteIndex,
}

fn realm() -> IndexScope {
    IndexScope::Realm(b"r".as_slice().into())
}

impl Sealed {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let index = sealed_index_at(&folder.path().join("index.db"));
        let sealed = Self { folder, index };
        sealed.write("s", &["apple", "apple pie"]);
        sealed.write("t", &["pear"]);
        let other = texts(&shard("r", "b"), "u", &["apple tree"]);
        sealed.index.apply(&[other], Some(b"1")).unwrap();
        sealed.assert_intact();
        sealed
    }

    fn write(&self, session: &str, contents: &[&str]) {
        let update = texts(&shard("r", "a"), session, contents);
        self.index.apply(&[update], None).unwrap();
    }

    fn raw(&self) -> Connection {
        Connection::open(self.folder.path().join("index.db")).unwrap()
    }

    fn attack(&self, sql: &str) {
        self.raw().execute_batch(sql).unwrap();
    }

    /// Opens the index again, as another process does.
    fn reopen(&mut self) {
        self.index = sealed_index_at(&self.folder.path().join("index.db"));
    }

    #[track_caller]
    fn assert_intact(&self) {
        self.assert_valid();
        assert_eq!(self.unread(), [""; 0]);
    }

    #[track_caller]
    fn assert_valid(&self) {
        let before = self.index.damaged();
        self.index.verify(&realm()).unwrap();
        assert_eq!(self.index.damaged(), before);
    }

    /// The keys of the sessions that must be read again.
    fn unread(&self) -> Vec<String> {
        let unread = self.index.unread(9).unwrap();
        let mut keys: Vec<String> = unread.iter().map(|s| s.entry.key.to_string()).collect();
        keys.sort();
        keys
    }
}

const OF_S: &str = "session = (SELECT id FROM session WHERE key = 's')";

#[test]
fn a_session_with_other_documents_is_forgotten() {
    let (all, owner) = (
        format!("WHERE {OF_S} AND key = '0'"),
        "(SELECT shard FROM session WHERE key = 'u')",
    );
    let columns = "shard, session, unit, kind, created, digest, size";
    let attacks: [(String, &[&str]); 7] = [
        (format!("DELETE FROM document {all}"), &["s"]),
        (
            format!(
                "INSERT INTO document (key, {columns}) SELECT 'x', {columns} FROM document {all}"
            ),
            &["s"],
        ),
        (format!("UPDATE document SET shard = {owner} {all}"), &["s"]),
        (
            format!(
                "UPDATE document SET key = 'x', session = (SELECT id FROM session WHERE key = 't') {all}"
            ),
            &["s", "t"],
        ),
        (
            format!("UPDATE document SET created = created + 1 {all}"),
            &["s"],
        ),
        (
            format!("UPDATE document SET digest = digest + 1 {all}"),
            &["s"],
        ),
        (
            "UPDATE session SET stamp_a = 99 WHERE key = 's'".to_owned(),
            &["s"],
        ),
    ];
    for (sql, damaged) in attacks {
        for reopened in [false, true] {
            let mut sealed = Sealed::new();
            sealed.attack(&sql);
            if reopened {
                sealed.reopen();
            }
            sealed.index.verify(&realm()).unwrap();
            assert_eq!(sealed.unread(), damaged, "{sql}");
            assert!(sealed.index.damaged() >= damaged.len() as u64, "{sql}");
            sealed.write("s", &["apple", "apple pie"]);
            sealed.write("t", &["pear"]);
            sealed.assert_intact();
            let found = matching_bodies(&sealed.index, &shard("r", "a"), &["apple"]);
            assert_eq!(found, ["1=apple pie", "0=apple"], "{sql}");
            let found = matching_bodies(&sealed.index, &shard("r", "b"), &["apple"]);
            assert_eq!(found, ["0=apple tree"], "{sql}");
            assert_eq!(sealed.index.status().unwrap().documents, 4, "{sql}");
        }
    }
}

#[test]
fn damage_of_more_than_a_session_empties_the_index() {
    let swap = "UPDATE session SET key = 'x' WHERE key = 's'; UPDATE session SET key = 's' WHERE key = 't';
        UPDATE session SET key = 't' WHERE key = 'x'";
    let attacks = [
        format!("DELETE FROM document WHERE {OF_S}; DELETE FROM session WHERE key = 's'"),
        swap.to_owned(),
        "UPDATE session SET key = 'x', stamp_a = 0, stamp_b = 0 WHERE key = 's'".to_owned(),
        "DELETE FROM shard WHERE owner = x'62'".to_owned(),
        "UPDATE shard SET owner = x'63' WHERE owner = x'62'".to_owned(),
        "UPDATE state SET position = x'39'".to_owned(),
        "UPDATE state SET seal = NULL".to_owned(),
        "UPDATE shard SET seal = NULL".to_owned(),
        "UPDATE session SET realm = x'63' WHERE key = 's'".to_owned(),
        "DELETE FROM pending".to_owned(),
    ];
    for sql in attacks {
        for reopened in [false, true] {
            let mut sealed = Sealed::new();
            sealed.attack(&sql);
            if reopened {
                sealed.reopen();
            }
            let failure = sealed.index.verify(&realm()).unwrap_err();
            assert_eq!(failure.code, ErrorCode::StoreUnavailable, "{sql}");
            assert_eq!(sealed.index.damaged(), 1, "{sql}");
            assert_eq!(sealed.index.position().unwrap(), None, "{sql}");
            assert_eq!(sealed.index.status().unwrap().documents, 0, "{sql}");
            sealed.assert_intact();
        }
    }
}

/// A search of an owner resolves the owner's shard by its name, so it would not look at a shard with another name.
#[test]
fn shards_with_other_names_empty_the_index() {
    let attacks = [
        "UPDATE shard SET realm = x'00' WHERE owner = x'62'",
        "UPDATE shard SET owner = x'00' WHERE owner = x'62'",
        "INSERT INTO shard (realm, owner) VALUES (x'72', x'63')",
    ];
    for sql in attacks {
        for reopened in [false, true] {
            let mut sealed = Sealed::new();
            sealed.attack(sql);
            if reopened {
                sealed.reopen();
            }
            let scope = IndexScope::Shard(shard("r", "b"));
            let failure = sealed.index.verify(&scope).unwrap_err();
            assert_eq!(failure.code, ErrorCode::StoreUnavailable, "{sql}");
            assert_eq!(sealed.index.damaged(), 1, "{sql}");
            assert_eq!(sealed.index.position().unwrap(), None, "{sql}");
        }
    }
}

#[test]
fn an_older_state_of_one_session_empties_the_index() {
    let sealed = Sealed::new();
    let raw = sealed.raw();
    let keep = format!(
        "CREATE TEMP TABLE s AS SELECT * FROM session WHERE key = 's';
         CREATE TEMP TABLE d AS SELECT * FROM document WHERE {OF_S}"
    );
    raw.execute_batch(&keep).unwrap();
    sealed.write("s", &["apple", "apple pie", "apple cake"]);
    sealed.assert_intact();
    let restore = format!(
        "DELETE FROM main.document WHERE {OF_S}; INSERT INTO main.document SELECT * FROM d;
         REPLACE INTO main.session SELECT * FROM s"
    );
    raw.execute_batch(&restore).unwrap();
    sealed.index.verify(&realm()).unwrap_err();
    assert_eq!(sealed.index.damaged(), 1);
}

#[test]
fn another_body_empties_the_index() {
    let attacks = [
        "DELETE FROM body",
        "UPDATE body SET packed = (SELECT packed FROM body b WHERE b.document <> body.document LIMIT 1)",
        "UPDATE body SET packed = x'00616263'",
    ];
    for sql in attacks {
        let sealed = Sealed::new();
        sealed.attack(sql);
        let found = numbers(&sealed.index.candidates(&query(&realm(), &[])).unwrap());
        let read = sealed.index.bodies(&found, &mut |_, _| true);
        assert_eq!(read.unwrap_err().code, ErrorCode::StoreUnavailable, "{sql}");
        assert_eq!(sealed.index.damaged(), 1, "{sql}");
    }
}

/// Somebody empties the index, makes it use the newest numbers again, and puts the body of then back.
#[test]
fn an_older_body_with_the_same_numbers_empties_the_index() {
    for (owner, session, text) in [
        ("b", "u", "apple trees"),
        ("b", "v", "apple tree"),
        ("c", "u", "apple tree"),
    ] {
        let mut sealed = Sealed::new();
        let raw = sealed.raw();
        raw.execute_batch(
            "CREATE TEMP TABLE old AS SELECT * FROM body WHERE document = (SELECT max(id) FROM document);
             UPDATE sqlite_sequence SET seq = seq - 1 WHERE name IN ('document', 'session', 'shard');
             DELETE FROM document; DELETE FROM body; DELETE FROM pending; DELETE FROM session;
             DELETE FROM shard; UPDATE state SET position = NULL, seal = NULL",
        )
        .unwrap();
        sealed.reopen();
        let update = texts(&shard("r", owner), session, &[text]);
        sealed.index.apply(&[update], None).unwrap();
        sealed.assert_intact();
        // The body may not be null, so this fails unless the document has the number of then.
        let restore =
            "UPDATE main.body SET packed = (SELECT packed FROM old WHERE document = body.document)";
        raw.execute_batch(restore).unwrap();
        let found = numbers(&sealed.index.candidates(&query(&realm(), &[])).unwrap());
        assert_eq!(found.len(), 1);
        let read = sealed.index.bodies(&found, &mut |_, _| true);
        assert_eq!(read.unwrap_err().code, ErrorCode::StoreUnavailable);
        assert_eq!(sealed.index.damaged(), 1);
    }
}

#[test]
fn a_number_that_is_used_again_empties_the_index() {
    let sealed = Sealed::new();
    let b = shard("r", "b");
    let removed = IndexUpdate::Removed((b.realm.clone(), "u".into()));
    sealed.index.apply(&[removed], None).unwrap();
    sealed.attack("UPDATE sqlite_sequence SET seq = 0 WHERE name = 'document'");
    let change = sealed
        .index
        .change(None, &[texts(&b, "v", &["plum"])], None);
    assert_eq!(change.unwrap_err().code, ErrorCode::StoreUnavailable);
    assert_eq!(sealed.index.damaged(), 1);
}

#[test]
fn a_damaged_session_is_not_sealed_again_by_a_change_of_a_part() {
    let sealed = Sealed::new();
    sealed.attack("UPDATE session SET project = 'other' WHERE key = 's'");
    let documents = vec![document("7", 7, "quince")];
    let part = update(&shard("r", "a"), "s", Coverage::Units(vec![7]), documents);
    sealed.index.apply(&[part], None).unwrap();
    assert_eq!(sealed.unread(), ["s"]);
    let found = numbers(&sealed.index.candidates(&query(&realm(), &[])).unwrap());
    assert_eq!(bodies(&sealed.index, &found), ["0=apple tree", "0=pear"]);
}

#[test]
fn changes_by_another_handle_with_the_key_are_no_damage() {
    let sealed = Sealed::new();
    let other = sealed_index_at(&sealed.folder.path().join("index.db"));
    for n in 0..3 {
        let update = texts(&shard("r", "a"), "s", &["apple", &format!("apple {n}")]);
        other.apply(&[update], None).unwrap();
        sealed.assert_intact();
        tidy_fully(&other);
        other.forget(b"r", "t").unwrap();
        sealed.write("t", &["pear"]);
        sealed.assert_intact();
        other.verify(&realm()).unwrap();
    }
    assert_eq!((sealed.index.damaged(), other.damaged()), (0, 0));
}

#[test]
fn an_index_without_seals_is_built_again_with_a_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.db");
    let unsealed = index_at(&path);
    unsealed
        .apply(&[texts(&shard("r", "a"), "s", &["apple"])], None)
        .unwrap();
    drop(unsealed);
    let sealed = sealed_index_at(&path);
    sealed.verify(&realm()).unwrap_err();
    assert_eq!(sealed.status().unwrap().documents, 0);
}

/// Adds a session whose documents get postings at once, and a word that gets a long list.
fn write_many(sealed: &Sealed, session: &str) {
    let contents: Vec<String> = (0..300)
        .map(|n| format!("cherry {session} no{n}"))
        .collect();
    let contents: Vec<&str> = contents.iter().map(String::as_str).collect();
    sealed.write(session, &contents);
}

fn count_of(sealed: &Sealed, word: &str) -> usize {
    matching_bodies(&sealed.index, &shard("r", "a"), &[word]).len()
}

#[test]
fn other_postings_empty_the_index() {
    for sql in [
        "DELETE FROM posting",
        "DELETE FROM spelling",
        "DELETE FROM long_posting",
        "DELETE FROM segment",
        "UPDATE posting SET lists = zeroblob(length(lists))",
        "UPDATE spelling SET words = x'0a610a'",
        "UPDATE long_posting SET documents = x'00'",
        "UPDATE segment SET first = first + 1",
        "UPDATE segment SET seal = NULL",
        "UPDATE pending SET words = x'0a610a'",
    ] {
        let mut sealed = Sealed::new();
        write_many(&sealed, "many");
        sealed.write("s", &["apple", "apple pie", "plum"]);
        sealed.assert_intact();
        assert_eq!(count_of(&sealed, "cherry"), 300);
        sealed.attack(sql);
        let failure = sealed.index.verify(&realm()).unwrap_err();
        assert_eq!(failure.code, ErrorCode::StoreUnavailable, "{sql}");
        assert_eq!(sealed.index.damaged(), 1, "{sql}");
        sealed.reopen();
        sealed.assert_intact();
        assert_eq!(sealed.index.status().unwrap().documents, 0, "{sql}");
    }
}

#[test]
fn seals_stay_valid_while_postings_are_merged_and_removed() {
    let mut sealed = Sealed::new();
    for n in 0..17 {
        write_many(&sealed, &format!("many{n}"));
        sealed
            .index
            .forget(b"r", &format!("many{}", n / 2))
            .unwrap();
        sealed.reopen();
        sealed.assert_valid();
        while sealed.index.tidy().unwrap() {
            // Only a new handle checks what no other has changed.
            sealed.reopen();
            sealed.assert_valid();
        }
    }
    assert_eq!(count_of(&sealed, "cherry"), 8 * 300);
    assert_eq!(sealed.index.damaged(), 0);
}

/// Removals and merges that others have invented do not remove a document that exists.
#[test]
fn invented_removals_and_merges_remove_nothing() {
    let sealed = Sealed::new();
    for n in 0..9 {
        write_many(&sealed, &format!("many{n}"));
    }
    sealed.attack(
        "INSERT INTO gone (shard, document, session, removal)
             SELECT shard, id, (SELECT id FROM session WHERE key = 't'), 1 FROM document;
         UPDATE segment SET target = id, made = 0 WHERE id = (SELECT min(id) FROM segment)",
    );
    sealed.index.forget(b"r", "t").unwrap();
    tidy_fully(&sealed.index);
    sealed.assert_valid();
    assert_eq!(count_of(&sealed, "cherry"), 9 * 300);
}
