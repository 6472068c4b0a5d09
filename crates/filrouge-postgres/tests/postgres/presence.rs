//! Whether another server of the store has exited.

use std::time::{Duration, Instant};

use filrouge_store::Ledger;
use filrouge_testbed::PgBouncer;

use super::database;
use super::servers::callers::TIMEOUT;
use super::servers::{block_on, close, open, separate_server_options};

async fn wait_for_exit(observer: &dyn Ledger, name: &str) {
    let begun = Instant::now();
    while !observer.has_exited(name).await {
        assert!(begun.elapsed() < TIMEOUT, "the server's end is not noticed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn a_server_has_exited_when_its_last_connection_has_ended() {
    let database = database();
    block_on(async {
        let [first, second, observer] =
            std::array::from_fn(|_| open(separate_server_options(&database.url())));
        let names = [first.writer(), second.writer()];
        close(vec![first]).await;
        wait_for_exit(&*observer, &names[0]).await;
        assert!(!observer.has_exited(&names[1]).await);
        // Its connections end like those of a killed server; it opens others when it needs them.
        database.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND pid <> pg_backend_pid()",
        );
        second.query(|_| Ok(())).await.unwrap();
        wait_for_exit(&*observer, &names[0]).await;
        assert!(
            !observer.has_exited(&names[1]).await,
            "it has connected again"
        );
        assert!(!observer.has_exited(&observer.writer()).await);
        close(vec![second]).await;
        wait_for_exit(&*observer, &names[1]).await;
        close(vec![observer]).await;
    });
}

/// A pooler keeps its connections when a server exits.
#[test]
fn behind_a_pooler_no_server_counts_as_exited() {
    let database = database();
    let pool = PgBouncer::before(&database, 3);
    block_on(async {
        let pooled = open(separate_server_options(&pool.url(database.name())));
        let observer = open(separate_server_options(&database.url()));
        let name = pooled.writer();
        close(vec![pooled]).await;
        assert!(!observer.has_exited(&name).await);
        close(vec![observer]).await;
    });
}
