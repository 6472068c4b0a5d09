use std::collections::BTreeSet;

use filrouge_testbed::{Cut, Database, Options, PgBouncer, Server};

use crate::{client, value};

const BACKEND: &str = "SELECT pg_backend_pid()";

#[test]
fn a_client_keeps_its_backend_for_one_transaction() {
    let database = Database::new();
    let pool = PgBouncer::before(&database, 2);
    let mut first = client(&pool.url(database.name()));
    let mut second = client(&pool.socket_url(database.name()));
    let mut seen = BTreeSet::new();
    let before = value(&mut first, BACKEND);
    seen.insert(before.clone());
    second.simple_query("BEGIN").expect("BEGIN");
    seen.insert(value(&mut second, BACKEND));
    let meanwhile = value(&mut first, BACKEND);
    assert_ne!(
        meanwhile, before,
        "the second client got the first one's backend"
    );
    seen.insert(meanwhile);
    second.simple_query("COMMIT").expect("COMMIT");
    // All clients share two backends.
    let mut clients: Vec<_> = (0..5).map(|_| client(&pool.url(database.name()))).collect();
    seen.extend(clients.iter_mut().map(|c| value(c, BACKEND)));
    assert_eq!(seen.len(), 2, "{seen:?}");
}

#[test]
fn after_a_kill_it_restarts_at_the_same_address() {
    let server = Server::start(Options::default());
    let database = server.database();
    let mut pool = PgBouncer::before(&server, 2);
    let url = pool.url(&database);
    let mut lost = client(&url);
    assert_eq!(value(&mut lost, "SELECT 1"), "1");
    pool.kill_and_restart();
    assert!(lost.simple_query("SELECT 1").is_err());
    assert_eq!(pool.url(&database), url);
    assert_eq!(value(&mut client(&url), "SELECT 2"), "2");
}

#[test]
fn settings_apply_to_a_pool_before_any_server() {
    let database = Database::new();
    let cut = Cut::before(database.tcp());
    let pool = PgBouncer::with_settings(cut.addr(), 1, &[("pool_mode", "session")]);
    let mut first = client(&pool.url(database.name()));
    first
        .batch_execute("CREATE TEMPORARY TABLE t (x int)")
        .expect("a table");
    assert_eq!(value(&mut first, "SELECT count(*) FROM t"), "0");
    assert_eq!(cut.connections(), 1);
}
