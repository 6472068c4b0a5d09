//! Tests of the Redis servers and clusters.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use filrouge_testbed::{Redis, RedisCluster};

use crate::wait_until;

#[test]
fn a_kill_loses_unsaved_data_and_keeps_the_dump() {
    let redis = Redis::start();
    redis.cli(&["SET", "k", "old"]);
    let dump = redis.save();
    redis.cli(&["SET", "k", "new"]);
    redis.kill();
    assert!(TcpStream::connect(redis.tcp()).is_err());
    redis.restart();
    assert_eq!(redis.cli(&["GET", "k"]), "old");
    redis.cli(&["SET", "k", "newer"]);
    redis.start_from(&dump);
    assert_eq!(redis.cli(&["GET", "k"]), "old");
}

#[test]
fn a_paused_server_accepts_connections_but_does_not_answer() {
    let redis = Redis::with_settings(&[("maxmemory", "5mb"), ("maxmemory-policy", "noeviction")]);
    assert_eq!(
        redis.cli(&["CONFIG", "GET", "maxmemory"]),
        "maxmemory\n5242880"
    );
    redis.pause();
    let mut waiting = TcpStream::connect(redis.tcp()).expect("a connection");
    waiting.write_all(b"PING\r\n").expect("a request");
    waiting
        .set_read_timeout(Some(Duration::from_millis(200)))
        .expect("a timeout");
    assert!(waiting.read(&mut [0]).is_err());
    redis.resume();
    waiting.set_read_timeout(None).expect("no timeout");
    let mut answer = [0; 7];
    waiting.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"+PONG\r\n");
    let error = redis.try_cli(&["NONSENSE"]).expect_err("an error");
    assert!(error.starts_with("ERR "), "{error}");
}

#[test]
fn a_slot_is_moved_step_by_step() {
    let cluster = RedisCluster::start();
    let slot = cluster.slot("{a}1");
    let (from, to) = (cluster.owner(slot), (cluster.owner(slot) + 1) % 3);
    cluster.cli(from, &["SET", "{a}1", "one"]);
    cluster.begin_move(slot, to);
    assert_eq!(cluster.cli(from, &["GET", "{a}1"]), "one");
    // The key does not exist at the source, which redirects to the target of the move.
    let redirection = cluster
        .try_cli(from, &["GET", "{a}2"])
        .expect_err("a redirection");
    assert_eq!(redirection, format!("ASK {slot} {}", cluster.tcp(to)));
    cluster.move_key("{a}1", from, to);
    assert!(cluster.try_cli(from, &["GET", "{a}1"]).is_err());
    cluster.end_move(slot, to);
    assert_eq!(cluster.owner(slot), to);
    assert_eq!(cluster.cli(to, &["GET", "{a}1"]), "one");
}

#[test]
fn a_replica_takes_over_and_back() {
    let cluster = RedisCluster::with_replicas();
    cluster.cli(cluster.owner(cluster.slot("k")), &["SET", "k", "v"]);
    let slot = cluster.slot("k");
    let master = cluster.owner(slot);
    cluster.fail_over_to(master + 3);
    assert_eq!(cluster.owner(slot), master + 3);
    assert_eq!(cluster.cli(master + 3, &["GET", "k"]), "v");
    cluster.kill(master + 3);
    wait_until("the former master serves again", || {
        cluster.try_cli(master, &["GET", "k"]) == Ok("v".to_owned())
    });
    cluster.restart(master + 3);
    cluster.wait_until_settled();
}
