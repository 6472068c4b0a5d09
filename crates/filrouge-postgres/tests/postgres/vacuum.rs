//! Old row versions of erased contents are removed from the tables, even if another server erased the contents.

use std::sync::Arc;

use filrouge_postgres::PostgresLedger;
use filrouge_store::contract::fixture::{Fixture, anyone};
use filrouge_testbed::{Database, PgBouncer, Row};
use filrouge_types::FixedClock;
use tokio_postgres::{Client, NoTls};

use super::servers::callers::eventually;
use super::servers::{block_on, open, separate_server_options};
use super::{START_TIME, database, fixture_at, keyring, lane_of};

/// The lanes with a note of an unfinished erasure.
fn erasure_notes(database: &Database) -> Vec<String> {
    let rows = database.sql("SELECT lane FROM filrouge.erasing ORDER BY lane");
    let lane = |mut row: Row| row.remove(0).unwrap();
    rows.into_iter().map(lane).collect()
}

/// Adds the notes of unfinished erasures in two lanes.
fn add_erasure_notes(database: &Database) {
    database.sql("INSERT INTO filrouge.erasing (lane, commit_no) VALUES (0, 1), (5, 7)");
}

/// The number of explicit vacuums of the table of items.
fn vacuums(database: &Database) -> u64 {
    let sql = "SELECT pg_stat_clear_snapshot();
        SELECT vacuum_count FROM pg_stat_all_tables WHERE relid = 'filrouge.record'::regclass";
    let rows = database.sql(sql);
    rows.last().unwrap()[0].as_ref().unwrap().parse().unwrap()
}

async fn erase(f: &Fixture) {
    f.complete_turn(&anyone(), "s", "r", "a").await;
    f.erase(&anyone(), "s").await.unwrap();
}

/// A process may erase and then end, as a command does.
#[test]
fn closing_waits_for_the_vacuum_of_an_erasure() {
    let database = database();
    block_on(async {
        let f = fixture_at(&database.url(), keyring());
        erase(&f).await;
        f.ledger.close().await;
        assert!(erasure_notes(&database).is_empty());
        assert!(vacuums(&database) > 0);
    });
}

#[test]
fn closing_waits_for_the_vacuum_behind_a_pooler() {
    let database = database();
    let pool = PgBouncer::before(&database, 3);
    block_on(async {
        let f = fixture_at(&pool.url(database.name()), keyring());
        erase(&f).await;
        f.ledger.close().await;
        assert!(erasure_notes(&database).is_empty());
        assert!(vacuums(&database) > 0);
    });
}

/// A second erasure happens before the next vacuum is due.
#[test]
fn closing_waits_for_the_vacuum_of_the_newest_erasure() {
    let database = database();
    block_on(async {
        let f = fixture_at(&database.url(), keyring());
        erase(&f).await;
        eventually("the notes are deleted", || {
            erasure_notes(&database).is_empty()
        })
        .await;
        f.complete_turn(&anyone(), "t", "r", "a").await;
        f.erase(&anyone(), "t").await.unwrap();
        let lane = lane_of(&*f.ledger, "t").to_string();
        assert_eq!(
            erasure_notes(&database),
            [lane],
            "the vacuum is not due yet"
        );
        f.ledger.close().await;
        assert!(erasure_notes(&database).is_empty());
        assert!(vacuums(&database) > 1);
    });
}

/// The notes were left by a process that was killed.
#[test]
fn another_server_finishes_the_vacuum() {
    let database = database();
    add_erasure_notes(&database);
    block_on(async {
        let ledger = open(separate_server_options(&database.url()));
        eventually("the notes are deleted", || {
            erasure_notes(&database).is_empty()
        })
        .await;
        assert!(vacuums(&database) > 0);
        ledger.close().await;
    });
}

async fn raw(database: &Database) -> Client {
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    client
}

/// A vacuum keeps the row versions that an older snapshot still sees.
#[test]
fn the_vacuum_waits_for_an_older_snapshot() {
    let database = database();
    block_on(async {
        let f = fixture_at(&database.url(), keyring());
        let reader = raw(&database).await;
        f.complete_turn(&anyone(), "s", "r", "a").await;
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM filrouge.record";
        reader.batch_execute(begin).await.unwrap();
        f.erase(&anyone(), "s").await.unwrap();
        f.ledger.close().await;
        assert!(
            !erasure_notes(&database).is_empty(),
            "the note is left for the next server"
        );
        reader.batch_execute("ROLLBACK").await.unwrap();
        let ledger = open(separate_server_options(&database.url()));
        eventually("the notes are deleted", || {
            erasure_notes(&database).is_empty()
        })
        .await;
        let dead =
            "SELECT n_dead_tup FROM pg_stat_all_tables WHERE relid = 'filrouge.record'::regclass";
        assert_eq!(database.sql(dead)[0][0].as_deref(), Some("0"));
        ledger.close().await;
    });
}

/// Another transaction holds a lock that the vacuum waits for.
#[test]
fn a_locked_table_does_not_count_as_vacuumed() {
    let database = database();
    block_on(async {
        let mut options = separate_server_options(&database.url());
        options.lock_timeout = std::time::Duration::from_millis(200);
        let holder = raw(&database).await;
        let lock = "BEGIN; LOCK TABLE filrouge.draft_chunk IN SHARE UPDATE EXCLUSIVE MODE";
        holder.batch_execute(lock).await.unwrap();
        add_erasure_notes(&database);
        let ledger = open(options);
        eventually("the vacuum begins", || vacuums(&database) > 0).await;
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        assert!(!erasure_notes(&database).is_empty());
        holder.batch_execute("ROLLBACK").await.unwrap();
        eventually("the notes are deleted", || {
            erasure_notes(&database).is_empty()
        })
        .await;
        ledger.close().await;
    });
}

/// For a role that does not own the tables, VACUUM only warns.
#[test]
fn a_role_that_may_not_vacuum_leaves_the_vacuum_to_another() {
    let database = database();
    let role = format!("clerk_{}", database.name());
    database.sql(&format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA filrouge TO {role};
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA filrouge TO {role}"
    ));
    let url = database.url().replace("postgres@", &format!("{role}@"));
    block_on(async {
        let clock = Arc::new(FixedClock::at(START_TIME));
        let mut options = separate_server_options(&url);
        options.clock = Some(clock.clone());
        let f = Fixture {
            ledger: Arc::new(PostgresLedger::open(options).unwrap()),
            clock,
            keyring: keyring(),
            keep: Box::new(()),
        };
        erase(&f).await;
        f.ledger.close().await;
        assert!(!erasure_notes(&database).is_empty());
        assert_eq!(vacuums(&database), 0);
        let owner = open(separate_server_options(&database.url()));
        eventually("the notes are deleted", || {
            erasure_notes(&database).is_empty()
        })
        .await;
        assert!(vacuums(&database) > 0);
        owner.close().await;
    });
    database.sql(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
}
