//! Ledgers behind PgBouncer in transaction mode, where every transaction may run on another server connection.

use filrouge_postgres::Options;
use filrouge_store::contract::Fixture;
use filrouge_testbed::{Options as ServerOptions, PgBouncer, Server};
use tokio_postgres::{NoTls, SimpleQueryMessage};

use super::servers::callers::{Workload, assert_intact};
use super::servers::{
    assert_commits_are_announced, block_on, close, open, separate_server_options, start_turn,
    two_ledgers,
};
use super::{database, fixture_at, keyring};

mod contract {
    use std::sync::OnceLock;

    use super::{Fixture, PgBouncer, database, fixture_at, keyring};

    fn fixture() -> Fixture {
        // The pooler of the server that all tests' databases share; it ends with this process.
        static POOL: OnceLock<PgBouncer> = OnceLock::new();
        let database = database();
        let pool = POOL.get_or_init(|| PgBouncer::before(&database, 4));
        let fixture = fixture_at(&pool.url(database.name()), keyring());
        Fixture {
            keep: Box::new(database),
            ..fixture
        }
    }

    selected_contract_tests!();
}

#[test]
fn two_servers_share_two_connections() {
    let database = database();
    let pool = PgBouncer::before(&database, 2);
    block_on(async {
        let ledgers = two_ledgers(&pool.url(database.name()));
        let workload = Workload::start(&ledgers, 6, 5);
        workload.wait_for_writes(600).await;
        assert_eq!(workload.finish_and_check().await, 0, "writes were refused");
        close(ledgers).await;
    });
}

#[test]
fn a_pooler_that_crashes_under_load_loses_no_write() {
    let server = Server::start(ServerOptions {
        durable: true,
        ..ServerOptions::default()
    });
    let database = server.database();
    let mut pool = PgBouncer::before(&server, 4);
    block_on(async {
        let ledgers = vec![
            open(separate_server_options(&pool.url(&database))),
            open(separate_server_options(&pool.socket_url(&database))),
        ];
        let workload = Workload::start(&ledgers, 8, 4);
        for _ in 0..8 {
            workload.wait_for_writes(40).await;
            tokio::task::block_in_place(|| pool.kill_and_restart());
        }
        workload.wait_for_writes(40).await;
        workload.finish_and_check().await;
        close(ledgers).await;
    });
}

/// Only the pooler can report the crash of the server behind it to its clients.
#[test]
fn a_server_that_crashes_behind_a_pooler_loses_no_write() {
    let server = Server::start(ServerOptions {
        durable: true,
        ..ServerOptions::default()
    });
    let database = server.database();
    let pool = PgBouncer::with_settings(&server, 4, &[("server_login_retry", "1")]);
    block_on(async {
        let ledgers = two_ledgers(&pool.url(&database));
        let workload = Workload::start(&ledgers, 8, 4);
        for _ in 0..2 {
            workload.wait_for_writes(40).await;
            tokio::task::block_in_place(|| {
                server.stop_immediate();
                server.restart();
            });
        }
        workload.wait_for_writes(40).await;
        workload.finish_and_check().await;
        close(ledgers).await;
    });
}

fn with_direct(pool: &str, direct: &str) -> Options {
    separate_server_options(pool).with_direct(direct).unwrap()
}

#[test]
fn commits_are_announced_over_the_direct_url() {
    let database = database();
    let pool = PgBouncer::before(&database, 3);
    block_on(async {
        let url = pool.url(database.name());
        let listener = open(with_direct(&url, &database.url()));
        let writer = open(separate_server_options(&url));
        assert_commits_are_announced(&*listener, &*writer).await;
        close(vec![listener, writer]).await;
    });
}

/// Notifications are optional: without them everything else works.
#[test]
fn an_unreachable_direct_url_does_not_affect_writes() {
    let database = database();
    let pool = PgBouncer::before(&database, 3);
    block_on(async {
        let url = pool.url(database.name());
        let nowhere = format!("postgres://postgres@127.0.0.1:1/{}", database.name());
        let ledgers = vec![
            open(with_direct(&url, &nowhere)),
            open(separate_server_options(&url)),
        ];
        let workload = Workload::start(&ledgers, 4, 4);
        workload.wait_for_writes(200).await;
        assert_eq!(workload.finish_and_check().await, 0, "writes were refused");
        close(ledgers).await;
    });
}

#[test]
fn pooled_connections_keep_no_state() {
    let database = database();
    // With a single connection, any leftover becomes visible.
    let pool = PgBouncer::before(&database, 1);
    block_on(async {
        let url = pool.url(database.name());
        let ledger = open(separate_server_options(&url));
        start_turn(&*ledger, "s", "r").await;
        assert_intact(&*ledger).await;
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        for (query, expected) in [
            ("SELECT count(*) FROM pg_prepared_statements", "0"),
            ("SELECT count(*) FROM pg_listening_channels()", "0"),
            ("SHOW enable_seqscan", "on"),
            ("SHOW idle_in_transaction_session_timeout", "0"),
            ("SHOW lock_timeout", "0"),
            ("SHOW transaction_isolation", "read committed"),
        ] {
            let answer = client.simple_query(query).await.unwrap();
            let value = answer.iter().find_map(|message| match message {
                SimpleQueryMessage::Row(row) => row.get(0),
                _ => None,
            });
            assert_eq!(value, Some(expected), "{query}");
        }
        close(vec![ledger]).await;
    });
}
