use std::sync::mpsc;
use std::time::Duration;

use filrouge_testbed::{Cut, Database, Loss};

use crate::{client, until, value};

fn rows(database: &Database) -> usize {
    database.sql("SELECT x FROM t").len()
}

/// Inserts a row and commits, with `loss` applied to the COMMIT; its answer is lost in every case.
fn commit(loss: Loss) -> (Database, Cut) {
    let database = Database::new();
    database.sql("CREATE TABLE t (x int)");
    let cut = Cut::before(database.tcp());
    let mut client = client(&cut.url(database.name()));
    client
        .batch_execute("BEGIN; INSERT INTO t VALUES (1)")
        .expect("a row");
    assert_eq!(rows(&database), 0);
    cut.cut_after(b"COMMIT\0", loss);
    let failed = client.batch_execute("COMMIT").expect_err("no answer");
    assert!(failed.is_closed() || failed.code().is_none(), "{failed:?}");
    cut.wait_for_cuts(1);
    (database, cut)
}

#[test]
fn the_answer_is_lost_but_the_commit_is_done() {
    let (database, cut) = commit(Loss::Answer);
    assert_eq!(rows(&database), 1);
    // The order applies once: the next connection is not cut.
    let mut again = client(&cut.url(database.name()));
    again
        .batch_execute("BEGIN; INSERT INTO t VALUES (2); COMMIT")
        .expect("a row");
    assert_eq!((rows(&database), cut.cuts()), (2, 1));
}

#[test]
fn a_request_is_lost_before_the_server_sees_it() {
    let (database, _cut) = commit(Loss::Request);
    until("the backend has gone", || {
        database.terminate_backends() == 0
    });
    assert_eq!(rows(&database), 0);
}

#[test]
fn a_connection_is_lost_while_the_commit_is_in_transit() {
    let (database, _cut) = commit(Loss::Connection);
    // PostgreSQL reads what has arrived before it notices the end.
    until("the row is there", || rows(&database) == 1);
}

#[test]
fn every_connection_is_cut_and_new_ones_are_forwarded() {
    let database = Database::new();
    let cut = Cut::before(database.tcp());
    let mut clients: Vec<_> = (0..3).map(|_| client(&cut.url(database.name()))).collect();
    assert_eq!((cut.connections(), cut.open()), (3, 3));
    assert_eq!(cut.cut(), 3);
    assert!(
        clients
            .iter_mut()
            .all(|c| c.simple_query("SELECT 1").is_err())
    );
    assert_eq!(
        value(&mut client(&cut.url(database.name())), "SELECT 1"),
        "1"
    );
    assert_eq!(cut.connections(), 4);
    until("closed by its client", || cut.open() == 0);
}

#[test]
fn held_data_arrives_after_the_release() {
    let database = Database::new();
    let cut = Cut::before(database.tcp());
    let mut known = client(&cut.url(database.name()));
    cut.hold();
    let (reported, answers) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || reported.send(value(&mut known, "SELECT 'late'")));
        let early = answers.recv_timeout(Duration::from_millis(300));
        cut.release();
        assert!(early.is_err(), "{early:?}");
        assert_eq!(answers.recv().as_deref(), Ok("late"));
    });
}

#[test]
fn a_needle_is_found_across_pieces() {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let cut = Cut::before(listener.local_addr().expect("an address"));
    let mut client = std::net::TcpStream::connect(cut.addr()).expect("a connection");
    let (mut server, _) = listener.accept().expect("a connection");
    let mut taken = [0; 3];
    cut.cut_after(b"needle", Loss::Connection);
    for piece in [b"xne", b"edl"] {
        client.write_all(piece).expect("sent");
        server.read_exact(&mut taken).expect("arrived");
        assert_eq!(&taken, piece);
    }
    assert_eq!(cut.cuts(), 0);
    client.write_all(b"e!").expect("sent");
    let mut rest = Vec::new();
    server.read_to_end(&mut rest).expect("the end");
    assert_eq!(rest, b"e!");
    assert_eq!(client.read(&mut taken).expect("the end"), 0);
    assert_eq!(cut.cuts(), 1);
}

#[test]
fn a_connection_to_a_stopped_server_closes() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let cut = Cut::before(listener.local_addr().expect("an address"));
    drop(listener);
    let url = cut.url("postgres");
    assert!(postgres::Client::connect(&url, postgres::NoTls).is_err());
    assert_eq!((cut.connections(), cut.open()), (1, 0));
}
