//! Tests of PgBouncer.

use std::collections::BTreeSet;

use filrouge_testbed::{Database, FaultProxy, Options, PgBouncer, Server};

use crate::{client, query_value};

/// A query for the process id of the backend that runs it.
const BACKEND_PID: &str = "SELECT pg_backend_pid()";

#[test]
fn a_client_keeps_its_backend_for_one_transaction() {
    let database = Database::new();
    let pool = PgBouncer::before(&database, 2);
    let mut first = client(&pool.url(database.name()));
    let mut second = client(&pool.socket_url(database.name()));
    let mut pids = BTreeSet::new();
    let before = query_value(&mut first, BACKEND_PID);
    pids.insert(before.clone());
    second.simple_query("BEGIN").expect("BEGIN");
    pids.insert(query_value(&mut second, BACKEND_PID));
    let meanwhile = query_value(&mut first, BACKEND_PID);
    assert_ne!(
        meanwhile, before,
        "a transaction of the second client has the first client's former backend"
    );
    pids.insert(meanwhile);
    second.simple_query("COMMIT").expect("COMMIT");
    // All clients share two backends.
    let mut clients: Vec<_> = (0..5).map(|_| client(&pool.url(database.name()))).collect();
    pids.extend(clients.iter_mut().map(|c| query_value(c, BACKEND_PID)));
    assert_eq!(pids.len(), 2, "{pids:?}");
}

#[test]
fn a_killed_pooler_restarts_at_the_same_address() {
    let server = Server::start(Options::default());
    let database = server.database();
    let mut pool = PgBouncer::before(&server, 2);
    let url = pool.url(&database);
    let mut lost = client(&url);
    assert_eq!(query_value(&mut lost, "SELECT 1"), "1");
    pool.kill_and_restart();
    assert!(lost.simple_query("SELECT 1").is_err());
    assert_eq!(pool.url(&database), url);
    assert_eq!(query_value(&mut client(&url), "SELECT 2"), "2");
}

#[test]
fn settings_apply_to_a_pooler_in_front_of_a_proxy() {
    let database = Database::new();
    let proxy = FaultProxy::before(database.tcp());
    let pool = PgBouncer::with_settings(proxy.addr(), 1, &[("pool_mode", "session")]);
    let mut first = client(&pool.url(database.name()));
    first
        .batch_execute("CREATE TEMPORARY TABLE t (x int)")
        .expect("a table");
    assert_eq!(query_value(&mut first, "SELECT count(*) FROM t"), "0");
    assert_eq!(proxy.connections(), 1);
}
