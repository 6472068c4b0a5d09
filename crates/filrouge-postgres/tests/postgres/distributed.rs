//! Distributed stores, without Citus: functions with the names of Citus's record what they are asked to distribute,
//! and the tables stay plain ones. This tests which statements filrouge sends and where, and not whether Citus
//! accepts them.

use std::sync::Arc;

use filrouge_postgres::text_index::PostgresIndex;
use filrouge_postgres::{Options, PostgresLedger, SCHEMA_VERSION, migrate_up, schema};
use filrouge_store::command::Write;
use filrouge_store::contract::Fixture;
use filrouge_store::contract::fixture::{anyone, cmd, start};
use filrouge_store::contract::lanes::session_in;
use filrouge_store::{Lane, Lanes, Ledger};
use filrouge_testbed::{Database, PgBouncer, Row};
use filrouge_types::{ErrorCode, Failure};
use tokio_postgres::NoTls;

use super::copy::{assert_equal, run_with};
use super::servers::callers::{Workload, assert_intact};
use super::servers::{
    assert_commits_are_announced, block_on, close, open, separate_server_options, start_turn,
    two_ledgers,
};
use super::tamper::world;
use super::{SCHEMA, fixture_at, keyring, options};

const SUBSTITUTE: &str = include_str!("distributed/substitute.sql");
const DISTRIBUTE: &str = include_str!("../../src/migrate/distribute.sql");

fn distributed(mut options: Options) -> Options {
    options.distribute = true;
    options
}

/// An empty database with substitutes for Citus's functions.
fn empty() -> Database {
    let database = Database::new();
    database.sql(SUBSTITUTE);
    database
}

async fn create(url: &str) {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(SUBSTITUTE).await.unwrap();
}

/// A database with an empty distributed store. The coordinator, at the socket, owns the lanes with even numbers; a
/// worker, at the TCP address of the same server, owns the others.
fn database() -> Database {
    let name =
        format!("distributed store of schema {SCHEMA_VERSION} {SCHEMA} {DISTRIBUTE} {SUBSTITUTE}");
    let database = Database::from_template(&name, |url| {
        std::thread::scope(|scope| scope.spawn(|| block_on(create(url))).join().unwrap());
        drop(PostgresLedger::open(distributed(options(url, keyring()))).unwrap());
    });
    let tcp = database.tcp();
    database.sql(&format!(
        "INSERT INTO pg_dist_node VALUES (1, '{}', {}, 'primary', true, true);
         UPDATE pg_dist_placement SET groupid = shardid % 2",
        tcp.ip(),
        tcp.port()
    ));
    database
}

mod contract {
    use super::{Fixture, database, fixture_at, keyring};

    fn fixture() -> Fixture {
        let database = database();
        let fixture = fixture_at(&database.url(), keyring());
        Fixture {
            keep: Box::new(database),
            ..fixture
        }
    }

    selected_contract_tests!();
}

fn row(values: [Option<&str>; 4]) -> Row {
    values.map(|value| value.map(str::to_owned)).to_vec()
}

#[test]
fn all_tables_with_lanes_are_distributed_together() {
    let database = empty();
    let options = distributed(options(&database.url(), keyring()));
    migrate_up(&options).unwrap();
    let calls = database.sql(
        "SELECT relation, key, colocate_with, settings FROM distribution_calls ORDER BY number",
    );
    let lane = Some("lane");
    let settings = Some("sequential on");
    let first = row([Some("filrouge.lane"), lane, Some("none"), settings]);
    assert_eq!(calls.first(), Some(&first));
    // The table of the whole store is not distributed.
    let last = row([Some("filrouge.store"), None, None, None]);
    assert_eq!(calls.last(), Some(&last));
    let others = &calls[1..calls.len() - 1];
    let tables = database.sql(
        "SELECT attrelid::regclass::text FROM pg_attribute WHERE attname = 'lane' AND attnum = 1 AND attrelid IN
             (SELECT oid FROM pg_class WHERE relkind = 'r' AND relnamespace = 'filrouge'::regnamespace
              AND relname <> 'lane') ORDER BY 1",
    );
    assert!(tables.len() > 10, "{tables:?}");
    let expected = tables
        .iter()
        .map(|table| row([table[0].as_deref(), lane, Some("filrouge.lane"), settings]));
    let mut others = others.to_vec();
    others.sort();
    assert_eq!(others, expected.collect::<Vec<_>>());
    // The same again: the store exists.
    assert_eq!(schema(&options).unwrap().pending().count(), 0);
    migrate_up(&options).unwrap();
    let again = database.sql("SELECT relation FROM distribution_calls");
    assert_eq!(again.len(), calls.len());
}

/// With the number of ranges that filrouge chooses, Citus gives each node nearly the same number of lanes.
#[test]
fn the_nodes_own_equal_numbers_of_lanes() {
    for (lanes, nodes, most) in [(8, 1, 8), (8, 2, 4), (16, 2, 8), (16, 4, 5), (64, 4, 16)] {
        let database = empty();
        database.sql(&format!(
            "INSERT INTO pg_dist_node SELECT n, 'worker', 5432, 'primary', true, true
                 FROM generate_series(1, {nodes} - 1) AS n"
        ));
        let mut options = distributed(options(&database.url(), keyring()));
        options.lanes = Lanes::new(lanes).unwrap();
        migrate_up(&options).unwrap();
        let most_owned = database.sql(&format!(
            "SELECT count(*) FROM filrouge.lane, distribution_calls WHERE relation = 'filrouge.lane'
             GROUP BY (hashint2(lane)::bigint + 2147483648) / (4294967296 / shard_count) % {nodes}
             ORDER BY 1 DESC LIMIT 1"
        ));
        assert_eq!(most_owned, [[Some(most.to_string())]], "{lanes} {nodes}");
    }
}

fn refused(options: &Options, hint: &str) -> Failure {
    let refused = migrate_up(options).map(drop).unwrap_err();
    assert_eq!(refused.code, ErrorCode::Invalid, "{refused:?}");
    let given = refused.hint.as_deref();
    assert!(
        given.is_some_and(|given| given.contains(hint)),
        "{refused:?}"
    );
    refused
}

#[test]
fn a_database_that_cannot_be_distributed_is_refused_unchanged() {
    let plain = Database::new();
    let old = empty();
    old.sql(
        "CREATE OR REPLACE FUNCTION pg_catalog.citus_version() RETURNS text
             LANGUAGE sql AS $$ SELECT 'Citus 11.3' $$",
    );
    let worker = empty();
    worker.sql("UPDATE pg_dist_local_group SET groupid = 2");
    for (database, hint) in [
        (&plain, "CREATE EXTENSION citus"),
        (&old, "update"),
        (&worker, "coordinator"),
    ] {
        let options = distributed(options(&database.url(), keyring()));
        refused(&options, hint);
        assert_eq!(schema(&options).unwrap().version, 0);
        let schemas = database.sql("SELECT FROM pg_namespace WHERE nspname = 'filrouge'");
        assert!(schemas.is_empty());
    }
}

#[test]
fn a_store_keeps_its_form() {
    let plain = super::database();
    let options = separate_server_options(&plain.url());
    let refused = refused(&distributed(options.clone()), "copy");
    let opened = PostgresLedger::open(distributed(options)).map(drop);
    assert_eq!(opened.unwrap_err().detail, refused.detail);
    // A distributed store needs no setting after it is created.
    let database = database();
    block_on(async {
        let ledger = open(separate_server_options(&database.url()));
        start_turn(&*ledger, "s", "r").await;
        assert_intact(&*ledger).await;
        close(vec![ledger]).await;
    });
}

#[test]
fn a_distributed_store_has_no_search_index() {
    let database = database();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let index = PostgresIndex::open(&options(&database.url(), keyring()), runtime.handle());
    assert!(index.unwrap().is_none());
}

#[test]
fn a_pooler_before_a_distributed_store_is_refused() {
    let database = database();
    let pool = PgBouncer::before(&database, 2);
    let options = separate_server_options(&pool.url(database.name()));
    let refused = PostgresLedger::open(options).map(drop).unwrap_err();
    assert_eq!(refused.code, ErrorCode::Invalid, "{refused:?}");
    assert!(refused.detail.contains("pooler"), "{refused:?}");
}

/// The number of connections over TCP whose newest statement has committed.
fn commits_over_tcp(database: &Database) -> usize {
    let sql = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND client_addr IS NOT NULL
        AND query = 'COMMIT'";
    database.sql(sql).len()
}

#[test]
fn a_transaction_goes_to_the_node_that_owns_its_lane() {
    let database = database();
    block_on(async {
        let ledger = open(separate_server_options(&database.url()));
        let sessions = [0, 1].map(|lane| session_in(ledger.lanes(), Lane::new(lane), "s"));
        start_turn(&*ledger, &sessions[0], "r").await;
        assert_eq!(commits_over_tcp(&database), 0);
        start_turn(&*ledger, &sessions[1], "r").await;
        assert_eq!(commits_over_tcp(&database), 1);
        close(vec![ledger]).await;
    });
}

#[test]
fn a_node_that_does_not_answer_stops_only_its_lanes() {
    let database = database();
    // No server listens at port 1.
    database.sql("UPDATE pg_dist_node SET nodeport = 1 WHERE groupid = 1");
    block_on(async {
        let ledger = open(separate_server_options(&database.url()));
        let [healthy, broken] = [0, 1].map(|lane| session_in(ledger.lanes(), Lane::new(lane), "s"));
        for request in ["a", "b"] {
            let write = Write::Start(Arc::new(start(&anyone(), &broken, request, request)));
            let refused = ledger.put(cmd(&anyone(), write)).await.unwrap_err();
            assert_eq!(refused.code, ErrorCode::StoreUnavailable, "{refused:?}");
            start_turn(&*ledger, &healthy, request).await;
        }
        close(vec![ledger]).await;
    });
}

/// The number of transactions that have committed in several lanes.
fn transactions_in_several_lanes(database: &Database) -> usize {
    let sql = "SELECT xmin::text FROM filrouge.commit_log GROUP BY xmin::text HAVING count(DISTINCT lane) > 1";
    database.sql(sql).len()
}

#[test]
fn a_transaction_of_a_distributed_store_has_one_lane() {
    for (database, is_distributed) in [(database(), true), (super::database(), false)] {
        block_on(async {
            let ledgers = two_ledgers(&database.url());
            let workload = Workload::start(&ledgers, 8, 16);
            workload.wait_for_writes(600).await;
            assert_eq!(workload.finish_and_check().await, 0, "writes were refused");
            close(ledgers).await;
        });
        let several = transactions_in_several_lanes(&database);
        assert_eq!(several == 0, is_distributed, "{several}");
    }
}

#[test]
fn commits_of_other_servers_are_polled() {
    let database = database();
    block_on(async {
        let ledgers = two_ledgers(&database.url());
        assert_commits_are_announced(&*ledgers[0], &*ledgers[1]).await;
        close(ledgers).await;
    });
}

#[test]
fn a_store_is_copied_into_a_distributed_one() {
    let (source_database, target) = (world(), empty());
    let target_options = || distributed(separate_server_options(&target.url()));
    block_on(async {
        let source: Arc<dyn Ledger> = open(separate_server_options(&source_database.url()));
        // The second run rewrites the commits of the first.
        let failed = run_with(&source, target_options(), (1000, 2)).await;
        assert_eq!(failed.map(drop).unwrap_err().detail, "injected failure");
        run_with(&source, target_options(), (5, usize::MAX))
            .await
            .unwrap();
        close(vec![source]).await;
        assert_equal(&source_database, &target);
        let copied = open(separate_server_options(&target.url()));
        assert_intact(&*copied).await;
        close(vec![copied]).await;
    });
}
