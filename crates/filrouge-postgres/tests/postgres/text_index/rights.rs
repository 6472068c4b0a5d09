//! Servers that lack extensions or rights.

use filrouge_postgres::text_index::PostgresIndex;
use filrouge_postgres::{PostgresLedger, migrate_up};
use filrouge_store::contract::text_index::{IndexTestExt as _, matching_bodies, shard, texts};
use filrouge_store::text_index::TextIndex;
use filrouge_testbed::Database;
use filrouge_types::ErrorCode;

use super::{RUNTIME, index_at, row};
use crate::{database, keyring, options};

/// Asserts that documents can be written and found.
fn assert_works(index: &PostgresIndex) {
    let a = shard("r", "a");
    index
        .apply(&[texts(&a, "s", &["an elephant", "中文学习"])], None)
        .unwrap();
    assert_eq!(matching_bodies(index, &a, &["lepha"]), ["0=an elephant"]);
    assert_eq!(matching_bodies(index, &a, &["学习"]), ["1=中文学习"]);
    assert!(matching_bodies(index, &shard("r", "b"), &["elephant"]).is_empty());
}

/// The role may create tables but no extension: the store is created, and the index reports what it lacks.
#[test]
fn a_role_without_the_right_to_create_extensions_can_search() {
    let database = Database::new();
    let role = format!("maker_{}", database.name());
    database.sql(&format!(
        "CREATE ROLE {role} LOGIN; CREATE SCHEMA filrouge AUTHORIZATION {role}"
    ));
    let url = database.url().replace("postgres@", &format!("{role}@"));
    migrate_up(&options(&url, keyring())).unwrap();
    drop(PostgresLedger::open(options(&url, keyring())).unwrap());
    let index = index_at(&url);
    let lacks = index.lacks().unwrap().unwrap();
    assert!(lacks.contains("pg_trgm"), "{lacks}");
    assert_works(&index);
    // With the right, a rebuild creates the trigram index.
    database.sql(&format!(
        "GRANT CREATE ON DATABASE {} TO {role}",
        database.name()
    ));
    index.clear().unwrap();
    assert_eq!(index.lacks().unwrap(), None);
    assert_eq!(index.status().unwrap().documents, 0);
    assert_works(&index);
    drop(index);
    database.sql(&format!("DROP OWNED BY {role} CASCADE"));
}

/// The role may use the tables but owns none of them.
#[test]
fn a_role_that_only_uses_the_tables_can_search() {
    let database = database();
    let role = format!("clerk_{}", database.name());
    database.sql(&format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA filrouge TO {role}"
    ));
    let url = database.url().replace("postgres@", &format!("{role}@"));
    let refused = PostgresIndex::open(&options(&url, keyring()), RUNTIME.handle());
    let refused = refused.map(drop).unwrap_err();
    assert_eq!(refused.code, ErrorCode::StoreUnavailable, "{refused}");
    assert!(refused.hint.is_some(), "{refused:?}");
    database.sql(&format!(
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA filrouge TO {role}"
    ));
    let index = index_at(&url);
    assert_works(&index);
    assert_eq!(index.forget(b"r", "s").unwrap(), 2);
    let before = index.version().unwrap();
    assert_works(&index);
    index.clear().unwrap();
    assert_eq!(index.version().unwrap().forgotten, before.forgotten + 1);
    assert_eq!(index.status().unwrap().documents, 0);
    assert_works(&index);
    drop(index);
    database.sql(&format!("DROP OWNED BY {role}"));
}

#[test]
fn an_extension_in_another_schema_is_used() {
    let database = Database::new();
    database.sql("CREATE SCHEMA tools; CREATE EXTENSION pg_trgm SCHEMA tools");
    migrate_up(&options(&database.url(), keyring())).unwrap();
    let index = index_at(&database.url());
    assert_eq!(index.lacks().unwrap(), None);
    assert_works(&index);
    let index_definition = row(
        &database,
        "SELECT indexdef FROM pg_indexes WHERE indexname = 'search_words'",
    );
    assert!(
        index_definition[0]
            .as_ref()
            .unwrap()
            .contains("tools.gin_trgm_ops")
    );
}

/// It is emptied when it is opened, and keeps the counter that makes feeders read again.
#[test]
fn an_index_of_another_format_is_emptied() {
    let database = database();
    let index = index_at(&database.url());
    assert_works(&index);
    index.apply(&[], Some(b"9")).unwrap();
    drop(index);
    database.sql("UPDATE filrouge.search_state SET format = 99");
    let index = index_at(&database.url());
    let status = index.status().unwrap();
    assert_eq!(
        (status.format, status.documents, status.sessions),
        (1, 0, 0)
    );
    let seen = index.version().unwrap();
    assert_eq!((seen.position, seen.forgotten), (None, 1));
    assert_works(&index);
}

#[test]
fn a_store_of_another_schema_version_is_refused() {
    let database = database();
    database.sql("UPDATE filrouge.store SET value = '2' WHERE name = 'schema'");
    let opened = PostgresIndex::open(&options(&database.url(), keyring()), RUNTIME.handle());
    let refused = opened.map(drop).unwrap_err();
    assert_eq!(refused.code, ErrorCode::Invalid);
    assert!(refused.hint.is_some());
}
