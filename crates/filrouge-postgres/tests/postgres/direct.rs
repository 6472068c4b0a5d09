//! The way to the server itself, beside a pooler: commits are told over it, and looked for over the pooler without it.

use std::sync::Arc;
use std::time::Duration;

use filrouge_store::Ledger;
use filrouge_store::contract::fixture::{anyone, sid};
use filrouge_testbed::{Cut, Options as ServerOptions, PgBouncer, Server};
use filrouge_types::ErrorCode;

use super::database;
use super::faults::{put, until_taken};
use super::many::callers::{PATIENCE, eventually};
use super::many::{close, is_told, of_its_own, open, started, wait};

/// A ledger behind `pool` that is told over `direct`.
fn told(pool: &str, direct: &str) -> Arc<dyn Ledger> {
    open(of_its_own(pool).with_direct(direct).unwrap())
}

/// Whoever waits at `at` hears of what `by` commits, without a question to the store.
async fn hears(at: &dyn Ledger, by: &dyn Ledger, request: &str) {
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
        let far = told(&pool.url(database.name()), &cut.url(database.name()));
        let near = open(of_its_own(&database.url()));
        is_told(&*far, &*near).await;
        cut.release();
        hears(&*far, &*near, "before").await;
        // Now it cannot be the pooler's way.
        tokio::task::block_in_place(|| pool.pause());
        hears(&*far, &*near, "paused").await;
        tokio::task::block_in_place(|| pool.resume());
        close(vec![far, near]).await;
    });
}

#[test]
fn a_way_that_is_lost_is_looked_around() {
    let database = database();
    let pool = PgBouncer::before(&database, 3);
    let cut = Cut::before(database.tcp());
    wait(async {
        let far = told(&pool.url(database.name()), &cut.url(database.name()));
        let near = open(of_its_own(&database.url()));
        is_told(&*far, &*near).await;
        cut.hold();
        assert!(cut.cut() > 0, "it was told over this way");
        hears(&*far, &*near, "lost").await;
        close(vec![far, near]).await;
    });
}

/// Changes to the store are looked for too.
#[test]
fn what_was_changed_is_found_without_the_direct_way() {
    let database = database();
    let pool = PgBouncer::before(&database, 3);
    let nowhere = format!("postgres://postgres@127.0.0.1:1/{}", database.name());
    wait(async {
        let ledger = told(&pool.url(database.name()), &nowhere);
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

/// A pooler takes its clients' transactions and lets them wait.
#[test]
fn a_server_that_is_away_behind_a_pooler_is_not_waited_for_as_for_an_answer() {
    let server = Server::start(ServerOptions::default());
    let name = server.database();
    let pool = PgBouncer::before(&server, 3);
    wait(async {
        let mut options = of_its_own(&pool.url(&name));
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
