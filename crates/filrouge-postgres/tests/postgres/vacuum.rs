//! Old versions of what was erased go from the tables, whoever erased it.

use std::sync::Arc;

use filrouge_postgres::PostgresLedger;
use filrouge_store::contract::fixture::{Fixture, anyone};
use filrouge_testbed::{Database, PgBouncer};
use filrouge_types::FixedClock;
use tokio_postgres::{Client, NoTls};

use super::many::callers::eventually;
use super::many::{of_its_own, open, wait};
use super::{NOON, database, keyring, on};

/// The commit that the store has noted as erasing.
fn noted(database: &Database) -> Option<String> {
    let rows = database.sql("SELECT value FROM filrouge.store WHERE name = 'erasing'");
    rows.first()?[0].clone()
}

fn note(database: &Database) {
    database.sql("INSERT INTO filrouge.store VALUES ('erasing', '1')");
}

/// How often the table of items was vacuumed by hand.
fn vacuums(database: &Database) -> u64 {
    let sql = "SELECT pg_stat_clear_snapshot();
        SELECT vacuum_count FROM pg_stat_all_tables WHERE relid = 'filrouge.record'::regclass";
    let rows = database.sql(sql);
    rows.last().unwrap()[0].as_ref().unwrap().parse().unwrap()
}

async fn erase(f: &Fixture) {
    f.whole(&anyone(), "s", "r", "a").await;
    f.erase(&anyone(), "s").await.unwrap();
}

/// As a command that erases and ends.
#[test]
fn closing_waits_for_the_vacuum() {
    let database = database();
    wait(async {
        let f = on(&database.url(), keyring());
        erase(&f).await;
        f.ledger.close().await;
        assert_eq!(noted(&database), None);
        assert!(vacuums(&database) > 0);
    });
}

#[test]
fn closing_waits_for_the_vacuum_behind_a_pooler() {
    let database = database();
    let pool = PgBouncer::before(&database, 3);
    wait(async {
        let f = on(&pool.url(database.name()), keyring());
        erase(&f).await;
        f.ledger.close().await;
        assert_eq!(noted(&database), None);
        assert!(vacuums(&database) > 0);
    });
}

/// A second erasure within the time between two vacuums.
#[test]
fn closing_waits_for_the_vacuum_behind_the_newest_erasure() {
    let database = database();
    wait(async {
        let f = on(&database.url(), keyring());
        erase(&f).await;
        eventually("the note goes", || noted(&database).is_none()).await;
        f.whole(&anyone(), "t", "r", "a").await;
        f.erase(&anyone(), "t").await.unwrap();
        assert!(noted(&database).is_some(), "it waits for its time");
        f.ledger.close().await;
        assert_eq!(noted(&database), None);
        assert!(vacuums(&database) > 1);
    });
}

/// What a process that ended at once has left.
#[test]
fn another_server_does_what_was_left() {
    let database = database();
    note(&database);
    wait(async {
        let ledger = open(of_its_own(&database.url()));
        eventually("the note goes", || noted(&database).is_none()).await;
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

/// Vacuum leaves what an older snapshot still sees.
#[test]
fn an_older_snapshot_is_waited_for() {
    let database = database();
    wait(async {
        let f = on(&database.url(), keyring());
        let reader = raw(&database).await;
        f.whole(&anyone(), "s", "r", "a").await;
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM filrouge.record";
        reader.batch_execute(begin).await.unwrap();
        f.erase(&anyone(), "s").await.unwrap();
        f.ledger.close().await;
        assert!(noted(&database).is_some(), "it is left to the next server");
        reader.batch_execute("ROLLBACK").await.unwrap();
        let ledger = open(of_its_own(&database.url()));
        eventually("the note goes", || noted(&database).is_none()).await;
        let dead =
            "SELECT n_dead_tup FROM pg_stat_all_tables WHERE relid = 'filrouge.record'::regclass";
        assert_eq!(database.sql(dead)[0][0].as_deref(), Some("0"));
        ledger.close().await;
    });
}

/// A lock that vacuum waits for.
#[test]
fn a_locked_table_is_not_taken_for_done() {
    let database = database();
    wait(async {
        let mut options = of_its_own(&database.url());
        options.lock_timeout = std::time::Duration::from_millis(200);
        let holder = raw(&database).await;
        let lock = "BEGIN; LOCK TABLE filrouge.draft_chunk IN SHARE UPDATE EXCLUSIVE MODE";
        holder.batch_execute(lock).await.unwrap();
        note(&database);
        let ledger = open(options);
        eventually("it begins", || vacuums(&database) > 0).await;
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        assert!(noted(&database).is_some());
        holder.batch_execute("ROLLBACK").await.unwrap();
        eventually("the note goes", || noted(&database).is_none()).await;
        ledger.close().await;
    });
}

/// For a role that does not own the tables, VACUUM only warns.
#[test]
fn a_role_that_may_not_vacuum_leaves_it_to_one_that_may() {
    let database = database();
    let role = format!("clerk_{}", database.name());
    database.sql(&format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA filrouge TO {role};
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA filrouge TO {role}"
    ));
    let url = database.url().replace("postgres@", &format!("{role}@"));
    wait(async {
        let clock = Arc::new(FixedClock::at(NOON));
        let mut options = of_its_own(&url);
        options.clock = Some(clock.clone());
        let f = Fixture {
            ledger: Arc::new(PostgresLedger::open(options).unwrap()),
            clock,
            keyring: keyring(),
            keep: Box::new(()),
        };
        erase(&f).await;
        f.ledger.close().await;
        assert!(noted(&database).is_some());
        assert_eq!(vacuums(&database), 0);
        let owner = open(of_its_own(&database.url()));
        eventually("the note goes", || noted(&database).is_none()).await;
        assert!(vacuums(&database) > 0);
        owner.close().await;
    });
    database.sql(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
}
