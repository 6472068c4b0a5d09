//! Tests of private PostgreSQL servers.

use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use filrouge_testbed::{Options, Server};

use crate::{client, query_value, wait_until};

/// Returns whether a process runs. The command line of a zombie is empty.
fn is_running(pid: u32) -> bool {
    let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline"));
    command.is_ok_and(|command| !command.is_empty())
}

#[test]
fn committed_data_survives_an_immediate_stop() {
    let server = Server::start(Options {
        durable: true,
        settings: vec![("work_mem".to_owned(), "5MB".to_owned())],
    });
    let database = server.database();
    server.sql(&database, "CREATE TABLE t AS SELECT 7 AS x");
    let (url, pid) = (server.tcp_url(&database), server.pid());
    let mut connected = client(&server.url(&database));
    server.stop_immediate();
    assert!(connected.simple_query("SELECT 1").is_err());
    assert!(postgres::Client::connect(&url, postgres::NoTls).is_err());
    server.restart();
    assert_ne!(server.pid(), pid);
    assert_eq!(server.tcp_url(&database), url);
    let mut reconnected = client(&url);
    assert_eq!(query_value(&mut reconnected, "SELECT x FROM t"), "7");
    assert_eq!(query_value(&mut reconnected, "SHOW fsync"), "on");
    assert_eq!(query_value(&mut reconnected, "SHOW work_mem"), "5MB");
}

#[test]
fn servers_are_separate_and_end_when_dropped() {
    let first = Server::start(Options::default());
    let second = Server::start(Options::default());
    assert_ne!(first.tcp(), second.tcp());
    let database = first.database();
    let exists = format!("SELECT 1 FROM pg_database WHERE datname = '{database}'");
    assert_eq!(first.sql("postgres", &exists).len(), 1);
    assert_eq!(second.sql("postgres", &exists).len(), 0);
    assert_eq!(
        first.sql("postgres", "SHOW fsync")[0][0].as_deref(),
        Some("off")
    );
    let folder = first.sql("postgres", "SHOW data_directory")[0][0].clone();
    let (folder, pid) = (folder.expect("a folder"), first.pid());
    assert!(Path::new(&folder).exists() && is_running(pid));
    drop(first);
    assert!(!Path::new(&folder).exists());
    wait_until("the postmaster has ended", || !is_running(pid));
    assert_eq!(second.sql("postgres", "SELECT 1").len(), 1);
}

#[test]
fn a_paused_server_answers_when_it_is_resumed() {
    let server = Server::start(Options::default());
    let database = server.database();
    let url = server.url(&database);
    let mut connected = client(&url);
    server.pause();
    let (sender, answers) = mpsc::channel();
    let other_sender = sender.clone();
    std::thread::scope(|scope| {
        scope.spawn(move || other_sender.send(query_value(&mut connected, "SELECT 'known'")));
        scope.spawn(move || sender.send(query_value(&mut client(&url), "SELECT 'new'")));
        let early = answers.recv_timeout(Duration::from_millis(500));
        server.resume();
        assert!(early.is_err(), "{early:?}");
        let mut both: Vec<String> = answers.iter().take(2).collect();
        both.sort();
        assert_eq!(both, ["known", "new"]);
    });
}

#[test]
fn stopped_and_paused_servers_end_when_dropped() {
    let paused = Server::start(Options::default());
    let stopped = Server::start(Options::default());
    let pid = paused.pid();
    paused.pause();
    stopped.stop_immediate();
    drop(stopped);
    drop(paused);
    wait_until("the postmaster has ended", || !is_running(pid));
}
