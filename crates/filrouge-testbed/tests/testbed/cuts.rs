//! Tests of the proxy that simulates network failures.

use std::sync::mpsc;
use std::time::Duration;

use filrouge_testbed::{Database, FaultProxy, Loss};

use crate::{client, query_value, wait_until};

fn row_count(database: &Database) -> usize {
    database.sql("SELECT x FROM t").len()
}

/// Inserts a row and commits it, with `loss` applied to the COMMIT; the client receives no answer to it.
fn insert_and_commit(loss: Loss) -> (Database, FaultProxy) {
    let database = Database::new();
    database.sql("CREATE TABLE t (x int)");
    let proxy = FaultProxy::before(database.tcp());
    let mut client = client(&proxy.url(database.name()));
    client
        .batch_execute("BEGIN; INSERT INTO t VALUES (1)")
        .expect("a row");
    assert_eq!(row_count(&database), 0);
    proxy.cut_after(b"COMMIT\0", loss);
    let error = client.batch_execute("COMMIT").expect_err("no answer");
    assert!(error.is_closed() || error.code().is_none(), "{error:?}");
    proxy.wait_for_cuts(1);
    (database, proxy)
}

#[test]
fn a_lost_answer_leaves_the_commit_done() {
    let (database, proxy) = insert_and_commit(Loss::Answer);
    assert_eq!(row_count(&database), 1);
    // The loss happens once: the next connection is not cut.
    let mut second = client(&proxy.url(database.name()));
    second
        .batch_execute("BEGIN; INSERT INTO t VALUES (2); COMMIT")
        .expect("a row");
    assert_eq!((row_count(&database), proxy.cuts()), (2, 1));
}

#[test]
fn a_lost_request_does_not_reach_the_server() {
    let (database, _cut) = insert_and_commit(Loss::Request);
    wait_until("the backend has exited", || {
        database.terminate_backends() == 0
    });
    assert_eq!(row_count(&database), 0);
}

#[test]
fn a_commit_in_transit_is_executed_although_the_connection_is_lost() {
    let (database, _cut) = insert_and_commit(Loss::Connection);
    // PostgreSQL executes what has arrived before it notices the end of the connection.
    wait_until("the row is committed", || row_count(&database) == 1);
}

#[test]
fn every_connection_is_cut_and_new_ones_are_forwarded() {
    let database = Database::new();
    let proxy = FaultProxy::before(database.tcp());
    let mut clients: Vec<_> = (0..3)
        .map(|_| client(&proxy.url(database.name())))
        .collect();
    assert_eq!((proxy.connections(), proxy.open()), (3, 3));
    assert_eq!(proxy.cut(), 3);
    assert!(
        clients
            .iter_mut()
            .all(|c| c.simple_query("SELECT 1").is_err())
    );
    assert_eq!(
        query_value(&mut client(&proxy.url(database.name())), "SELECT 1"),
        "1"
    );
    assert_eq!(proxy.connections(), 4);
    wait_until("the client's end closes the connection", || {
        proxy.open() == 0
    });
}

#[test]
fn held_data_arrives_after_the_release() {
    let database = Database::new();
    let proxy = FaultProxy::before(database.tcp());
    let mut connected = client(&proxy.url(database.name()));
    proxy.hold();
    let (sender, answers) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || sender.send(query_value(&mut connected, "SELECT 'late'")));
        let early = answers.recv_timeout(Duration::from_millis(300));
        proxy.release();
        assert!(early.is_err(), "{early:?}");
        assert_eq!(answers.recv().as_deref(), Ok("late"));
    });
}

#[test]
fn a_needle_is_found_across_pieces() {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let proxy = FaultProxy::before(listener.local_addr().expect("an address"));
    let mut client = std::net::TcpStream::connect(proxy.addr()).expect("a connection");
    let (mut server, _) = listener.accept().expect("a connection");
    let mut received = [0; 3];
    proxy.cut_after(b"needle", Loss::Connection);
    for piece in [b"xne", b"edl"] {
        client.write_all(piece).expect("sent");
        server.read_exact(&mut received).expect("arrived");
        assert_eq!(&received, piece);
    }
    assert_eq!(proxy.cuts(), 0);
    client.write_all(b"e!").expect("sent");
    let mut rest = Vec::new();
    server.read_to_end(&mut rest).expect("the end");
    assert_eq!(rest, b"e!");
    assert_eq!(client.read(&mut received).expect("the end"), 0);
    assert_eq!(proxy.cuts(), 1);
}

#[test]
fn everything_is_held_after_a_number_of_statements() {
    use std::io::{Read, Write};
    const SYNC: &[u8] = b"S\0\0\0\x04";
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let proxy = FaultProxy::before(listener.local_addr().expect("an address"));
    let mut client = std::net::TcpStream::connect(proxy.addr()).expect("a connection");
    let (mut server, _) = listener.accept().expect("a connection");
    let receive = |socket: &mut std::net::TcpStream, expected: &[u8]| {
        let mut received = vec![0; expected.len()];
        socket.read_exact(&mut received).expect("arrived");
        assert_eq!(received, expected);
    };
    proxy.hold_after(b"BEGIN", 2);
    let before = [SYNC, b"BEG"].concat();
    client.write_all(&before).expect("sent");
    receive(&mut server, &before);
    let forwarded = [b"IN", SYNC, b"second", SYNC].concat();
    let both = [&forwarded[..], b"third", SYNC].concat();
    client.write_all(&both).expect("sent");
    receive(&mut server, &forwarded);
    wait_until("the proxy holds", || proxy.is_held());
    server.write_all(b"answer").expect("sent");
    for socket in [&mut client, &mut server] {
        let limit = Some(Duration::from_millis(200));
        socket.set_read_timeout(limit).expect("a limit");
        let early = socket.read(&mut [0]);
        assert!(early.is_err(), "{early:?}");
        socket.set_read_timeout(None).expect("no limit");
    }
    proxy.release();
    receive(&mut client, b"answer");
    receive(&mut server, &both[forwarded.len()..]);
    // The hold happens once.
    client.write_all(&both).expect("sent");
    receive(&mut server, &both);
}

#[test]
fn a_connection_to_a_stopped_server_closes() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let proxy = FaultProxy::before(listener.local_addr().expect("an address"));
    drop(listener);
    let url = proxy.url("postgres");
    assert!(postgres::Client::connect(&url, postgres::NoTls).is_err());
    assert_eq!((proxy.connections(), proxy.open()), (1, 0));
}
