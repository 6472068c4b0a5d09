//! A direct URL next to a pooler's URL: it delivers notifications of commits. Without it, the ledger polls for commits.

use std::sync::Arc;
use std::time::Duration;

use filrouge_store::Ledger;
use filrouge_store::contract::fixture::{anyone, sid};
use filrouge_testbed::{FaultProxy, Options as ServerOptions, PgBouncer, Server};
use filrouge_types::ErrorCode;

use super::database;
use super::faults::{put, retry_until_written};
use super::servers::callers::{TIMEOUT, eventually};
use super::servers::{
    assert_commits_are_announced, block_on, close, open, separate_server_options, start_turn,
};

/// A ledger behind `pool` that listens over `direct`.
fn open_with_direct(pool: &str, direct: &str) -> Arc<dyn Ledger> {
    open(separate_server_options(pool).with_direct(direct).unwrap())
}

/// Asserts that `listener` learns of a commit of `writer` without a query.
async fn assert_learns_of_commit(listener: &dyn Ledger, writer: &dyn Ledger, request: &str) {
    let mut commits = listener.commits();
    start_turn(writer, "announced", request).await;
    let goal = writer.position().commit_count();
    let announced = commits.wait_for(|commits| *commits >= goal);
    tokio::time::timeout(TIMEOUT, announced)
        .await
        .unwrap()
        .unwrap();
}

#[test]
fn commits_are_found_over_the_pooler_while_the_server_cannot_be_reached() {
    let database = database();
    let pool = PgBouncer::before(&database, 3);
    let proxy = FaultProxy::before(database.tcp());
    block_on(async {
        proxy.hold();
        let listener = open_with_direct(&pool.url(database.name()), &proxy.url(database.name()));
        let writer = open(separate_server_options(&database.url()));
        assert_commits_are_announced(&*listener, &*writer).await;
        proxy.release();
        assert_learns_of_commit(&*listener, &*writer, "before").await;
        // From here on, no answer can arrive through the pooler.
        tokio::task::block_in_place(|| pool.pause());
        assert_learns_of_commit(&*listener, &*writer, "paused").await;
        tokio::task::block_in_place(|| pool.resume());
        close(vec![listener, writer]).await;
    });
}

#[test]
fn a_lost_direct_connection_is_replaced_by_the_pooler() {
    let database = database();
    let pool = PgBouncer::before(&database, 3);
    let proxy = FaultProxy::before(database.tcp());
    block_on(async {
        let listener = open_with_direct(&pool.url(database.name()), &proxy.url(database.name()));
        let writer = open(separate_server_options(&database.url()));
        assert_commits_are_announced(&*listener, &*writer).await;
        proxy.hold();
        assert!(proxy.cut() > 0, "no direct connection was open");
        assert_learns_of_commit(&*listener, &*writer, "lost").await;
        close(vec![listener, writer]).await;
    });
}

/// Without the direct connection, the ledger polls for foreign changes and for unfinished erasures too.
#[test]
fn a_change_is_detected_without_the_direct_connection() {
    let database = database();
    let pool = PgBouncer::before(&database, 3);
    let nowhere = format!("postgres://postgres@127.0.0.1:1/{}", database.name());
    block_on(async {
        let ledger = open_with_direct(&pool.url(database.name()), &nowhere);
        start_turn(&*ledger, "s", "r").await;
        database.sql(
            "SET session_replication_role = replica;
             DELETE FROM filrouge.commit_log;
             INSERT INTO filrouge.erasing (lane, commit_no) VALUES (3, 1)",
        );
        eventually("the change is detected", || {
            ledger.health().integrity.is_some()
        })
        .await;
        let erasure_note = "SELECT 1 FROM filrouge.erasing";
        eventually("the store is vacuumed", || {
            database.sql(erasure_note).is_empty()
        })
        .await;
        close(vec![ledger]).await;
    });
}

/// A pooler accepts its clients' transactions and keeps them waiting, so the ledger applies the shorter timeout.
#[test]
fn a_paused_server_behind_a_pooler_is_given_up_after_the_settle_timeout() {
    let server = Server::start(ServerOptions::default());
    let name = server.database();
    let pool = PgBouncer::before(&server, 3);
    block_on(async {
        let mut options = separate_server_options(&pool.url(&name));
        options.answer_timeout = Duration::from_secs(3600);
        options.settle_timeout = Duration::from_millis(300);
        let ledger = open(options);
        let turn = start_turn(&*ledger, "s", "r").await.turn_id;
        tokio::task::block_in_place(|| server.pause());
        let refused = put(&*ledger, turn, "k");
        let refused = tokio::time::timeout(TIMEOUT, refused).await;
        assert_eq!(
            refused.unwrap().unwrap_err().code,
            ErrorCode::StoreUnavailable
        );
        let (scope, session) = (anyone(), sid("s"));
        let unread = ledger.items(&scope, &session, 0, 9);
        let unread = tokio::time::timeout(TIMEOUT, unread).await;
        assert_eq!(
            unread.unwrap().unwrap_err().code,
            ErrorCode::StoreUnavailable
        );
        tokio::task::block_in_place(|| server.resume());
        retry_until_written(&*ledger, turn, "k").await;
        close(vec![ledger]).await;
    });
}
