//! Tests of databases on the shared server.

use std::sync::atomic::{AtomicUsize, Ordering};

use filrouge_testbed::Database;

use crate::{client, query_value};

/// Returns the first value of a query.
fn first_value(database: &Database, query: &str) -> String {
    let rows = database.sql(query);
    rows[0][0].clone().expect("a value")
}

#[test]
fn a_database_is_empty_and_dropped_with_its_value() {
    let first = Database::new();
    let second = Database::new();
    first.sql("CREATE TABLE t (x int); INSERT INTO t VALUES (1), (NULL)");
    let rows = first.sql("SELECT x, 'a,\"b\"' || chr(10) || 'ü' FROM t ORDER BY x; SELECT ''");
    let text = Some("a,\"b\"\nü".to_owned());
    assert_eq!(
        rows,
        [
            vec![Some("1".to_owned()), text.clone()],
            vec![None, text],
            vec![Some(String::new())]
        ]
    );
    let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'";
    assert_eq!(first_value(&second, tables), "0");
    let exists = format!(
        "SELECT count(*) FROM pg_database WHERE datname = '{}'",
        first.name()
    );
    assert_eq!(first_value(&second, &exists), "1");
    let _still_connected = client(&first.url());
    drop(first);
    assert_eq!(first_value(&second, &exists), "0");
}

#[test]
fn both_urls_connect_to_the_database() {
    let database = Database::new();
    for url in [database.url(), database.tcp_url()] {
        let mut client = client(&url);
        assert_eq!(
            query_value(&mut client, "SELECT current_database()"),
            database.name()
        );
        assert_eq!(
            query_value(&mut client, "SELECT session_user"),
            filrouge_testbed::USER
        );
        let socket = query_value(&mut client, "SELECT inet_server_addr() IS NULL");
        assert_eq!(socket == "t", url == database.url());
    }
}

#[test]
fn a_failing_statement_panics_with_the_output_of_psql() {
    let database = Database::new();
    let panic = std::panic::catch_unwind(|| {
        database
            .sql("CREATE TABLE before_error (x int); SELECT 1/0; CREATE TABLE after_error (x int)")
    });
    let text = panic.expect_err("a panic");
    let text = text.downcast_ref::<String>().expect("a text");
    assert!(text.contains("division by zero"), "{text}");
    let tables = database.sql("SELECT tablename FROM pg_tables WHERE schemaname = 'public'");
    assert_eq!(tables, [[Some("before_error".to_owned())]]);
}

#[test]
fn a_template_is_prepared_once_and_copied() {
    let prepared = AtomicUsize::new(0);
    // The shared server may have templates of earlier processes, so this name must be new.
    let name = format!("testbed {}", std::process::id());
    let copies: Vec<Database> = std::thread::scope(|scope| {
        let copy = || {
            Database::from_template(&name, |url| {
                prepared.fetch_add(1, Ordering::SeqCst);
                let mut client = client(url);
                client
                    .batch_execute("CREATE TABLE t AS SELECT 7 AS x")
                    .expect("a table");
            })
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(copy)).collect();
        threads
            .into_iter()
            .map(|t| t.join().expect("a copy"))
            .collect()
    });
    assert_eq!(prepared.load(Ordering::SeqCst), 1);
    copies[0].sql("UPDATE t SET x = 8");
    assert_eq!(first_value(&copies[0], "SELECT x FROM t"), "8");
    assert_eq!(first_value(&copies[1], "SELECT x FROM t"), "7");
}

#[test]
fn a_failed_preparation_is_retried() {
    let name = format!("testbed fails {}", std::process::id());
    let failed = std::panic::catch_unwind(|| {
        Database::from_template(&name, |url| {
            client(url)
                .batch_execute("CREATE TABLE failed (x int)")
                .expect("a table");
            panic!("on purpose");
        })
    });
    assert!(failed.is_err());
    let database = Database::from_template(&name, |url| {
        client(url)
            .batch_execute("CREATE TABLE retried (x int)")
            .expect("a table");
    });
    let tables = database.sql("SELECT tablename FROM pg_tables WHERE schemaname = 'public'");
    assert_eq!(tables, [[Some("retried".to_owned())]]);
}

#[test]
fn backends_of_other_databases_are_not_terminated() {
    let terminated = Database::new();
    let spared = Database::new();
    let mut first = client(&terminated.url());
    let mut second = client(&terminated.tcp_url());
    let mut other = client(&spared.url());
    assert_eq!(terminated.terminate_backends(), 2);
    assert!(first.simple_query("SELECT 1").is_err());
    assert!(second.simple_query("SELECT 1").is_err());
    assert_eq!(query_value(&mut other, "SELECT 1"), "1");
    assert_eq!(terminated.terminate_backends(), 0);
}
