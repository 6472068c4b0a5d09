//! The direct URL used together with a pooler's: it delivers notifications of commits; without it, commits are polled
//! for.

use std::sync::Arc;
use std::time::Duration;

use filrouge_store::Ledger;
use filrouge_store::contract::fixture::{anyone, sid};
use filrouge_testbed::{Cut, Options as ServerOptions, PgBouncer, Server};
use filrouge_types::ErrorCode;

use super::database;
use super::faults::{put, until_taken};
use super::many::callers::{PATIENCE, eventually};
use super::many::{close, is_reported, open, separate_server_options, started, wait};

/// A ledger behind `pool` that listens over `direct`.
fn reported(pool: &str, direct: &str) -> Arc<dyn Ledger> {
    open(separate_server_options(pool).with_direct(direct).unwrap())
}

/// A waiter at `at` learns of commits by `by` without a query.
async fn learns_of_commit(at: &dyn Ledger, by: &dyn Ledger, request: &str) {
    let mut commits = at.commits();
    started(by, "heard", request).await;
    let goal = by.position().commit_no;
    let heard = commits.wait_for(|commit_no| *commit_no >= goal);
    tokio::time::timeout(PATIENCE, heard)
        .await
        .unwrap()
        .unwrap();
}

#[test]
fn commits_are_found_over_the_pooler_while_the_server_cannot_be_reached() {
    let database = database();
    let pool = PgBouncer::before(&database, 3);
    let cut = Cut::before(database.tcp());
    wait(async {
        cut.hold();
        let far = reported(&pool.url(database.name()), &cut.url(database.name()));
        let near = open(separate_server_options(&database.url()));
        is_reported(&*far, &*near).await;
        cut.release();
        learns_of_commit(&*far, &*near, "before").await;
        // From here on, the news cannot arrive through the pooler.
        tokio::task::block_in_place(|| pool.pause());
        learns_of_commit(&*far, &*near, "paused").await;
        tokio::task::block_in_place(|| pool.resume());
        close(vec![far, near]).await;
    });
}

#[test]
fn a_lost_direct_connection_is_replaced_by_the_pooler() {
    let database = database();
    let pool = PgBouncer::before(&database, 3);
    let cut = Cut::before(database.tcp());
    wait(async {
        let far = reported(&pool.url(database.name()), &cut.url(database.name()));
        let near = open(separate_server_options(&database.url()));
        is_reported(&*far, &*near).await;
        cut.hold();
        assert!(cut.cut() > 0, "it listened over this connection");
        learns_of_commit(&*far, &*near, "lost").await;
        close(vec![far, near]).await;
    });
}

/// Changes made outside filrouge are found too.
#[test]
fn a_change_is_found_without_the_direct_connection() {
    let database = database();
    let pool = PgBouncer::before(&database, 3);
    let nowhere = format!("postgres://postgres@127.0.0.1:1/{}", database.name());
    wait(async {
        let ledger = reported(&pool.url(database.name()), &nowhere);
        started(&*ledger, "s", "r").await;
        database.sql(
            "SET session_replication_role = replica;
             DELETE FROM filrouge.commit_log;
             INSERT INTO filrouge.store VALUES ('erasing', '1')",
        );
        eventually("it is found", || ledger.health().integrity.is_some()).await;
        let noted = "SELECT 1 FROM filrouge.store WHERE name = 'erasing'";
        eventually("it is vacuumed", || database.sql(noted).is_empty()).await;
        close(vec![ledger]).await;
    });
}

/// A pooler accepts its clients' transactions and lets them wait.
#[test]
fn a_server_that_is_down_behind_a_pooler_has_a_shorter_timeout() {
    let server = Server::start(ServerOptions::default());
    let name = server.database();
    let pool = PgBouncer::before(&server, 3);
    wait(async {
        let mut options = separate_server_options(&pool.url(&name));
        options.answer_timeout = Duration::from_secs(3600);
        options.settle_timeout = Duration::from_millis(300);
        let ledger = open(options);
        let turn = started(&*ledger, "s", "r").await.turn_id;
        tokio::task::block_in_place(|| server.pause());
        let refused = put(&*ledger, turn, "k");
        let refused = tokio::time::timeout(PATIENCE, refused).await;
        assert_eq!(
            refused.unwrap().unwrap_err().code,
            ErrorCode::StoreUnavailable
        );
        let (scope, session) = (anyone(), sid("s"));
        let unread = ledger.items(&scope, &session, 0, 9);
        let unread = tokio::time::timeout(PATIENCE, unread).await;
        assert_eq!(
            unread.unwrap().unwrap_err().code,
            ErrorCode::StoreUnavailable
        );
        tokio::task::block_in_place(|| server.resume());
        until_taken(&*ledger, turn, "k").await;
        close(vec![ledger]).await;
    });
}
