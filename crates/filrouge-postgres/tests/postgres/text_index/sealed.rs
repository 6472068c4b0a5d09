//! A sealed index notices what others change in its tables.

use filrouge_store::contract::text_index::{
    IndexTestExt as _, matching_bodies, shard, texts, update,
};
use filrouge_store::text_index::{Coverage, IndexScope, IndexUpdate, TextIndex};
use filrouge_testbed::Database;
use filrouge_types::ErrorCode;

use super::{count, index_at};
use crate::database;

fn realm() -> IndexScope {
    IndexScope::Realm(b"r".as_slice().into())
}

fn write(index: &dyn TextIndex, session: &str, contents: &[&str]) {
    let update = texts(&shard("r", "a"), session, contents);
    index.apply(&[update], None).unwrap();
}

/// A store whose index has three sessions: two of one owner, and one of another.
fn filled() -> Database {
    let database = database();
    let index = index_at(&database.url());
    write(&index, "s", &["an apple", "an apple pie"]);
    write(&index, "t", &["a pear"]);
    let other = texts(&shard("r", "b"), "u", &["an apple tree"]);
    index.apply(&[other], Some(b"1")).unwrap();
    // Another number of documents than of texts: parts of sessions are removed and replaced.
    write(&index, "s", &["an apple", "an apple tart", "a plum"]);
    write(&index, "s", &["an apple", "an apple pie"]);
    index.verify(&realm()).unwrap();
    assert_eq!(index.damaged(), 0);
    database
}

/// The keys of the sessions that must be read again.
fn unread(index: &dyn TextIndex) -> Vec<String> {
    let unread = index.unread(9).unwrap();
    let mut keys: Vec<String> = unread.iter().map(|s| s.entry.key.to_string()).collect();
    keys.sort();
    keys
}

const OF_S: &str = "session = (SELECT no FROM filrouge.search_session WHERE key = 's')";

#[test]
fn a_session_with_other_documents_is_forgotten() {
    let one = format!("WHERE {OF_S} AND key = '0'");
    let number = |column: &str, key: &str| {
        format!("(SELECT {column} FROM filrouge.search_session WHERE key = '{key}')")
    };
    let columns = "realm, shard, session, unit, created, digest, kind, bytes, folded, body";
    let attacks: [(String, &[&str]); 7] = [
        (
            format!("DELETE FROM filrouge.search_document {one}"),
            &["s"],
        ),
        (
            format!(
                "INSERT INTO filrouge.search_document (key, {columns})
                 SELECT 'x'::bytea, {columns} FROM filrouge.search_document {one}"
            ),
            &["s"],
        ),
        (
            format!(
                "UPDATE filrouge.search_document SET shard = {} {one}",
                number("shard", "u")
            ),
            &["s"],
        ),
        (
            format!(
                "UPDATE filrouge.search_document SET key = 'x', session = {} {one}",
                number("no", "t")
            ),
            &["s", "t"],
        ),
        (
            format!("UPDATE filrouge.search_document SET folded = 'a plum' {one}"),
            &["s"],
        ),
        (
            format!("UPDATE filrouge.search_document SET body = '' {one}"),
            &["s"],
        ),
        (
            "UPDATE filrouge.search_session SET stamp_0 = 99 WHERE key = 's'".to_owned(),
            &["s"],
        ),
    ];
    let database = filled();
    for (sql, damaged) in attacks {
        database.sql(&sql);
        let index = index_at(&database.url());
        index.verify(&realm()).unwrap();
        assert_eq!(unread(&index), damaged, "{sql}");
        assert!(index.damaged() >= damaged.len() as u64, "{sql}");
        write(&index, "s", &["an apple", "an apple pie"]);
        write(&index, "t", &["a pear"]);
        let again = index_at(&database.url());
        again.verify(&realm()).unwrap();
        assert_eq!(again.damaged(), 0, "{sql}");
        let found = matching_bodies(&again, &shard("r", "a"), &["apple"]);
        assert_eq!(found, ["1=an apple pie", "0=an apple"], "{sql}");
        assert_eq!(count(&database, "search_document"), 4, "{sql}");
    }
}

#[test]
fn damage_of_more_than_a_session_empties_the_index() {
    let attacks = [
        format!(
            "DELETE FROM filrouge.search_document WHERE {OF_S};
             DELETE FROM filrouge.search_session WHERE key = 's'"
        ),
        "UPDATE filrouge.search_session SET key = 'x', stamp_0 = 0, stamp_1 = 0 WHERE key = 's'"
            .to_owned(),
        "DELETE FROM filrouge.search_shard WHERE owner = 'b'".to_owned(),
        "UPDATE filrouge.search_shard SET owner = 'c' WHERE owner = 'b'".to_owned(),
        "UPDATE filrouge.search_shard SET seal = NULL".to_owned(),
        "UPDATE filrouge.search_session SET realm = 'x' WHERE key = 's'".to_owned(),
        "UPDATE filrouge.search_state SET position = '9'".to_owned(),
        "UPDATE filrouge.search_state SET seal = NULL".to_owned(),
    ];
    let database = database();
    for sql in attacks {
        let index = index_at(&database.url());
        write(&index, "s", &["an apple"]);
        write(&index, "t", &["a pear"]);
        let other = texts(&shard("r", "b"), "u", &["an apple tree"]);
        index.apply(&[other], Some(b"1")).unwrap();
        database.sql(&sql);
        // The first search of another server.
        let index = index_at(&database.url());
        let failure = index.verify(&realm()).unwrap_err();
        assert_eq!(failure.code, ErrorCode::StoreUnavailable, "{sql}");
        assert_eq!(index.damaged(), 1, "{sql}");
        assert_eq!(index.position().unwrap(), None, "{sql}");
        assert_eq!(count(&database, "search_document"), 0, "{sql}");
        index.verify(&realm()).unwrap();
    }
}

/// A search resolves its shards by their names and the numbers of their realms, so it would not look at a shard with
/// another name or number.
#[test]
fn shards_with_other_names_or_numbers_empty_the_index() {
    let attacks = [
        "UPDATE filrouge.search_shard SET realm_no = 777 WHERE owner = 'b';
         UPDATE filrouge.search_document SET realm = 777
             WHERE shard = (SELECT no FROM filrouge.search_shard WHERE owner = 'b')",
        "UPDATE filrouge.search_shard SET realm = '\\x00' WHERE owner = 'b'",
        "UPDATE filrouge.search_shard SET owner = '\\x00' WHERE owner = 'b'",
        "INSERT INTO filrouge.search_shard (realm_no, realm, owner)
             SELECT 99999, realm, '\\x00' FROM filrouge.search_shard LIMIT 1",
    ];
    let scopes = [realm(), IndexScope::Shard(shard("r", "b"))];
    for sql in attacks {
        for scope in &scopes {
            let database = filled();
            database.sql(sql);
            let index = index_at(&database.url());
            let failure = index.verify(scope).unwrap_err();
            assert_eq!(failure.code, ErrorCode::StoreUnavailable, "{sql}");
            assert_eq!(index.damaged(), 1, "{sql}");
            assert_eq!(count(&database, "search_document"), 0, "{sql}");
        }
    }
}

#[test]
fn a_realm_with_the_number_of_another_empties_the_index() {
    let database = filled();
    database.sql(
        "INSERT INTO filrouge.search_shard (realm_no, realm, owner)
             SELECT realm_no, 'q', '\\x00' FROM filrouge.search_shard LIMIT 1",
    );
    let index = index_at(&database.url());
    let other = texts(&shard("q", "a"), "s", &["a quince"]);
    index.apply(&[other], None).unwrap();
    database.sql("DELETE FROM filrouge.search_shard WHERE owner = '\\x00'");
    index.verify(&realm()).unwrap_err();
    assert_eq!(index.damaged(), 1);
}

#[test]
fn documents_in_another_realm_than_their_session_are_forgotten() {
    let database = filled();
    let sql = format!("UPDATE filrouge.search_document SET realm = 777 WHERE {OF_S}");
    database.sql(&sql);
    let index = index_at(&database.url());
    let scope = IndexScope::Shard(shard("r", "a"));
    index.verify(&scope).unwrap();
    assert_eq!(unread(&index), ["s"]);
}

#[test]
fn a_shard_whose_other_sessions_were_deleted_is_not_removed() {
    let database = filled();
    let index = index_at(&database.url());
    let b = shard("r", "b");
    let other = texts(&b, "v", &["a plum tree"]);
    index.apply(&[other], None).unwrap();
    database.sql("DELETE FROM filrouge.search_session WHERE key = 'v'");
    let removed = IndexUpdate::Removed((b.realm, "u".into()));
    let failure = index.change(None, &[removed], None).unwrap_err();
    assert_eq!(failure.code, ErrorCode::StoreUnavailable);
    assert_eq!(index.damaged(), 1);
}

#[test]
fn a_damaged_session_is_not_sealed_again_by_a_change_of_a_part() {
    let database = filled();
    database.sql("UPDATE filrouge.search_session SET project = 'other' WHERE key = 's'");
    let index = index_at(&database.url());
    let part = update(&shard("r", "a"), "s", Coverage::Units(vec![7]), Vec::new());
    index.apply(&[part], None).unwrap();
    assert_eq!(unread(&index), ["s"]);
    assert_eq!(count(&database, "search_document"), 2);
}

/// Documents that somebody has moved to a shard that no search reads do not count as stored, even under older seals.
#[test]
fn documents_of_another_shard_are_stored_again() {
    let database = filled();
    for table in ["search_state", "search_shard", "search_session"] {
        database.sql(&format!(
            "CREATE TABLE old_{table} AS TABLE filrouge.{table}"
        ));
    }
    let contents = ["an apple", "an apple pie", "a plum"];
    write(&index_at(&database.url()), "s", &contents);
    for sql in [
        format!(
            "UPDATE filrouge.search_document SET shard = 9999, realm = 9999 WHERE {OF_S} AND key = '2'"
        ),
        "UPDATE filrouge.search_session s SET seal = o.seal FROM old_search_session o WHERE o.no = s.no"
            .to_owned(),
        "UPDATE filrouge.search_shard s SET seal = o.seal FROM old_search_shard o WHERE o.no = s.no"
            .to_owned(),
        "UPDATE filrouge.search_state s SET seal = o.seal, position = o.position FROM old_search_state o"
            .to_owned(),
    ] {
        database.sql(&sql);
    }
    let index = index_at(&database.url());
    write(&index, "s", &contents);
    index.verify(&realm()).unwrap();
    let found = matching_bodies(&index, &shard("r", "a"), &["plum"]);
    assert_eq!(found, ["2=a plum"]);
}

/// A trigger of somebody else cannot make the index seal documents that it does not have.
#[test]
fn documents_that_were_not_stored_are_not_sealed() {
    let database = filled();
    database
        .sql("CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'");
    database.sql(
        "CREATE TRIGGER skip BEFORE INSERT ON filrouge.search_document FOR EACH ROW EXECUTE FUNCTION skip()",
    );
    let index = index_at(&database.url());
    let quince = texts(&shard("r", "a"), "t", &["a quince"]);
    assert!(index.apply(&[quince], None).is_err());
    database.sql("DROP TRIGGER skip ON filrouge.search_document");
    write(&index, "t", &["a quince"]);
    let found = matching_bodies(&index, &shard("r", "a"), &["quince"]);
    assert_eq!(found, ["0=a quince"]);
}
