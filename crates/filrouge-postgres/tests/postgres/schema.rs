//! Concurrent servers create one store, and databases of other programs are not changed.

use std::sync::{Arc, Barrier};

use filrouge_postgres::{Options, PostgresLedger};
use filrouge_store::contract::fixture::{Fixture, anyone};
use filrouge_store::{Keyring, Lanes, Ledger, OsEntropy};
use filrouge_testbed::{Database, Row, Server};
use filrouge_types::{ErrorCode, Failure, FixedClock};

use super::{SCHEMA, START_TIME, database, fixture_at, keyring};

mod keys;

fn block_on(work: impl Future<Output = ()>) {
    tokio::runtime::Runtime::new().unwrap().block_on(work);
}

/// Opens a store with random ids, as a separate server does.
fn open(url: &str, keyring: Arc<Keyring>) -> Result<PostgresLedger, Failure> {
    let mut options = Options::new(url, keyring, Arc::new(OsEntropy)).unwrap();
    options.clock = Some(Arc::new(FixedClock::at(START_TIME)));
    PostgresLedger::open(options)
}

/// The failure with which a store is not opened.
fn refusal(url: &str) -> Failure {
    open(url, keyring()).map(drop).unwrap_err()
}

/// The names of all objects in schemas that are not PostgreSQL's own.
fn all_objects(database: &Database) -> Vec<Row> {
    database.sql(
        "SELECT n.nspname, c.relname, c.relkind::text, c.reltuples::text FROM pg_class c JOIN pg_namespace n
         ON n.oid = c.relnamespace WHERE n.nspname !~ '^(pg_|information_schema)' ORDER BY 1, 2;
         SELECT nspname FROM pg_namespace ORDER BY 1",
    )
}

/// Opens one ledger per keyring, all concurrently.
fn open_concurrently(
    url: &str,
    keyrings: Vec<Arc<Keyring>>,
) -> Vec<Result<PostgresLedger, Failure>> {
    let barrier = Barrier::new(keyrings.len());
    std::thread::scope(|scope| {
        let threads: Vec<_> = keyrings
            .into_iter()
            .map(|keyring| {
                scope.spawn(|| {
                    let keyring = keyring;
                    barrier.wait();
                    open(url, keyring)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    })
}

#[test]
fn eight_concurrent_servers_create_one_store() {
    for _ in 0..3 {
        let database = Database::new();
        let opened = open_concurrently(&database.url(), vec![keyring(); 8]);
        let opened: Vec<Arc<dyn Ledger>> = opened
            .into_iter()
            .map(|ledger| Arc::new(ledger.unwrap()) as Arc<dyn Ledger>)
            .collect();
        let first = opened[0].store_id().to_owned();
        assert!(opened.iter().all(|ledger| ledger.store_id() == first));
        block_on(async {
            for (n, ledger) in opened.into_iter().enumerate() {
                let f = Fixture {
                    ledger,
                    clock: Arc::new(FixedClock::at(START_TIME)),
                    keyring: keyring(),
                    keep: Box::new(()),
                };
                f.complete_turn(&anyone(), "s", &format!("r{n}"), "a").await;
                assert_eq!(f.items(&anyone(), "s", 50).await.len(), 2 * (n + 1));
                f.assert_intact().await;
                f.ledger.close().await;
            }
        });
    }
}

/// Opens a store; if there is none, creates one with this number of lanes.
fn open_with_lanes(url: &str, lanes: u16) -> Fixture {
    let clock = Arc::new(FixedClock::at(START_TIME));
    let mut options = Options::new(url, keyring(), Arc::new(OsEntropy)).unwrap();
    options.clock = Some(clock.clone());
    options.lanes = Lanes::new(lanes).unwrap();
    Fixture {
        ledger: Arc::new(PostgresLedger::open(options).unwrap()),
        clock,
        keyring: keyring(),
        keep: Box::new(()),
    }
}

#[test]
fn a_store_keeps_the_number_of_lanes_that_it_was_created_with() {
    for (created, later) in [(1, 8), (3, 64), (64, 1)] {
        let database = Database::new();
        block_on(async {
            for (n, lanes) in [created, later, 8].into_iter().enumerate() {
                let f = open_with_lanes(&database.url(), lanes);
                assert_eq!(f.ledger.lanes().count(), created);
                for s in 0..5 {
                    let session = format!("s{s}");
                    f.complete_turn(&anyone(), &session, &format!("r{n}"), "a")
                        .await;
                    assert_eq!(f.items(&anyone(), &session, 9).await.len(), 2 * (n + 1));
                }
                f.assert_intact().await;
                f.ledger.close().await;
            }
        });
        let lanes = database.sql("SELECT lane FROM filrouge.lane");
        assert_eq!(lanes.len(), usize::from(created));
    }
}

#[test]
fn servers_with_different_numbers_of_lanes_create_one_store() {
    let database = Database::new();
    let url = database.url();
    let opened: Vec<Fixture> = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=6)
            .map(|lanes| {
                let url = &url;
                scope.spawn(move || open_with_lanes(url, lanes))
            })
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join().unwrap());
        joined.collect()
    });
    block_on(async {
        for f in &opened {
            assert_eq!(f.ledger.lanes(), opened[0].ledger.lanes());
            f.complete_turn(&anyone(), "s", "r", "a").await;
            assert_eq!(f.items(&anyone(), "s", 9).await.len(), 2);
            f.assert_intact().await;
        }
        for f in opened {
            f.ledger.close().await;
        }
    });
}

#[test]
fn a_schema_that_is_created_by_hand_has_the_lanes_of_a_setting() {
    for (setting, lanes) in [("", 8), ("SET filrouge.lanes = 5;", 5)] {
        let database = Database::new();
        database.sql(&format!("{setting} {SCHEMA}"));
        let f = open_with_lanes(&database.url(), 2);
        assert_eq!(f.ledger.lanes().count(), lanes);
        block_on(async {
            f.complete_turn(&anyone(), "s", "r", "a").await;
            f.assert_intact().await;
            f.ledger.close().await;
        });
    }
}

#[test]
fn a_newer_schema_is_not_changed() {
    let database = database();
    database.sql("UPDATE filrouge.store SET value = '99' WHERE name = 'schema'");
    let before = all_objects(&database);
    let refused = refusal(&database.url());
    assert_eq!(refused.code, ErrorCode::Invalid);
    assert!(
        refused.detail.contains("99") && refused.hint.is_some(),
        "{refused:?}"
    );
    assert_eq!(all_objects(&database), before);
}

#[test]
fn another_programs_schema_is_not_changed() {
    for objects in [
        "CREATE TABLE filrouge.other (x int)",
        "CREATE TABLE filrouge.session (x int)",
        "CREATE TABLE filrouge.store (x int)",
        "CREATE TABLE filrouge.store (name text, value text)",
        "CREATE TABLE filrouge.store (name int, value bytea)",
        "CREATE TABLE filrouge.store (name text, value text);
         INSERT INTO filrouge.store VALUES ('schema', 'one'), ('store_id', 'x')",
        "CREATE TABLE filrouge.store (name text, value text);
         INSERT INTO filrouge.store VALUES ('schema', '0'), ('store_id', 'x')",
        "CREATE VIEW filrouge.store AS SELECT 'schema'::text AS name, '1'::text AS value",
        "CREATE SEQUENCE filrouge.numbers",
    ] {
        let database = Database::new();
        database.sql(&format!("CREATE SCHEMA filrouge; {objects}"));
        let before = all_objects(&database);
        let refused = refusal(&database.url());
        assert_eq!(refused.code, ErrorCode::Invalid, "{objects}: {refused}");
        assert!(refused.hint.is_some(), "{objects}");
        assert_eq!(all_objects(&database), before, "{objects}");
    }
}

/// A role needs the right to create a store, and other rights to use one.
#[test]
fn creating_and_using_a_store_need_separate_rights() {
    let database = Database::new();
    let name = database.name();
    let role = format!("clerk_{name}");
    let url = database.url().replace("postgres@", &format!("{role}@"));
    database.sql(&format!("CREATE ROLE {role} LOGIN"));
    let assert_refused = |when: &str| {
        let refused = refusal(&url);
        assert_eq!(
            refused.code,
            ErrorCode::StoreUnavailable,
            "{when}: {refused}"
        );
        assert!(
            refused.detail.contains("42501") && refused.hint.is_some(),
            "{when}: {refused:?}"
        );
    };
    assert_refused("no right to create a schema");
    assert!(
        database
            .sql("SELECT 1 FROM pg_namespace WHERE nspname = 'filrouge'")
            .is_empty()
    );
    database.sql("CREATE SCHEMA filrouge");
    assert_refused("an empty schema of another role");
    database.sql(&format!("ALTER SCHEMA filrouge OWNER TO {role}"));
    // An empty schema that the role owns is enough.
    drop(open(&url, keyring()).unwrap());
    database.sql(&format!("REASSIGN OWNED BY {role} TO postgres"));
    assert_refused("a store that the role may not use");
    database.sql(&format!("GRANT USAGE ON SCHEMA filrouge TO {role}"));
    assert_refused("tables that the role may not read");
    database.sql(&format!(
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA filrouge TO {role}"
    ));
    block_on(async {
        let f = fixture_at(&url, keyring());
        f.complete_turn(&anyone(), "s", "r", "a").await;
        f.erase(&anyone(), "s").await.unwrap();
        f.assert_intact().await;
        f.ledger.close().await;
    });
    database.sql(&format!("DROP OWNED BY {role}"));
}

#[test]
fn unreachable_servers_are_reported() {
    let database = Database::new();
    let (url, name) = (database.tcp_url(), database.name());
    let port = format!(":{}/", database.tcp().port());
    let credentials = "postgres:hunter2@";
    let urls = [
        url.replace(name, "not_there"),
        // Nothing listens on port 1 of the loopback interface.
        url.replace(&port, ":1/").replace("postgres@", credentials),
        url.replace("postgres@", "no_such_role:hunter2@"),
    ];
    for url in urls {
        let refused = refusal(&url);
        assert_eq!(
            refused.code,
            ErrorCode::StoreUnavailable,
            "{url}: {refused}"
        );
        assert!(refused.hint.is_some(), "{url}: {refused:?}");
        assert!(!format!("{refused:?}").contains("hunter2"), "{refused:?}");
    }
}

#[test]
fn passwords_are_verified_and_never_shown() {
    let server = Server::start(filrouge_testbed::Options::default());
    server.sql(
        "postgres",
        "CREATE ROLE clerk LOGIN PASSWORD 'hunter2'; CREATE DATABASE store OWNER clerk TEMPLATE template0",
    );
    let file = server.sql("postgres", "SHOW hba_file")[0][0]
        .clone()
        .unwrap();
    let rules = std::fs::read_to_string(&file).unwrap();
    let rules = format!("host all clerk 127.0.0.1/32 scram-sha-256\n{rules}");
    // The file keeps its owner, the user that runs the servers.
    std::fs::write(&file, rules).unwrap();
    server.sql("postgres", "SELECT pg_reload_conf(); SELECT pg_sleep(0.2)");
    let url = server.tcp_url("store");
    for (password, right) in [(":mistyped", false), ("", false), (":hunter2", true)] {
        let opened = open(
            &url.replace("postgres@", &format!("clerk{password}@")),
            keyring(),
        );
        if right {
            drop(opened.unwrap());
            continue;
        }
        let refused = opened.map(drop).unwrap_err();
        assert_eq!(refused.code, ErrorCode::StoreUnavailable, "{refused}");
        assert!(refused.hint.is_some(), "{refused:?}");
        assert!(!format!("{refused:?}").contains("mistyped"), "{refused:?}");
    }
}

#[test]
fn encodings_other_than_utf8_are_refused() {
    let server = Server::start(filrouge_testbed::Options::default());
    for encoding in ["SQL_ASCII", "LATIN1"] {
        let name = encoding.to_ascii_lowercase();
        server.sql(
            "postgres",
            &format!("CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}' LOCALE 'C'"),
        );
        let refused = refusal(&server.url(&name));
        assert_eq!(refused.code, ErrorCode::Invalid, "{refused}");
        assert!(
            refused.detail.contains(encoding) && refused.hint.is_some(),
            "{refused:?}"
        );
    }
}

/// A standby is started from the same data: it answers, but accepts no writes.
#[test]
fn a_standby_is_refused() {
    let server = Server::start(filrouge_testbed::Options::default());
    let name = server.database();
    drop(open(&server.url(&name), keyring()).unwrap());
    let data = server.sql("postgres", "SHOW data_directory")[0][0]
        .clone()
        .unwrap();
    let signal = format!("COPY (SELECT 1 WHERE false) TO '{data}/standby.signal'");
    server.sql("postgres", &signal);
    server.stop_immediate();
    server.restart();
    let refused = refusal(&server.url(&name));
    assert_eq!(refused.code, ErrorCode::StoreUnavailable, "{refused}");
    assert!(
        refused.hint.is_some() && refused.detail.contains("standby"),
        "{refused:?}"
    );
}
