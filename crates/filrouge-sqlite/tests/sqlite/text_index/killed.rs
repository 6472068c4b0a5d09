//! A process that is killed at random points of its work on an index.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use filrouge_store::contract::text_index::{
    IndexTestExt as _, bodies, matching_bodies, numbers, query, shard, texts, tidy_fully,
};
use filrouge_store::text_index::{IndexScope, TextIndex};
use rusqlite::Connection;

use super::index_at;

/// The environment variable that names the child's index.
const PATH_VARIABLE: &str = "FILROUGE_TEST_INDEX";
/// Round n writes session n modulo this number.
const SESSIONS: u64 = 7;

/// The texts of a round: so few that they remain pending, or enough to be written to postings.
fn texts_of_round(round: u64) -> Vec<String> {
    let count = if round.is_multiple_of(3) { 90 } else { 20 };
    let text = |n| format!("apple r{round}n{n}x é中{n} {}", "of all ".repeat(n));
    (0..count).map(text).collect()
}

/// Repeats rounds of writing, tidying and forgetting, and reports each finished round.
#[test]
#[ignore = "the process that `an_index_survives_kills_at_any_point` starts and kills"]
fn child_writes_until_it_is_killed() {
    let path = PathBuf::from(std::env::var_os(PATH_VARIABLE).unwrap());
    let (index, a) = (index_at(&path), shard("r", "a"));
    let last = index.position().unwrap();
    let last = last.map_or(0, |p| std::str::from_utf8(&p).unwrap().parse().unwrap());
    for round in last + 1.. {
        let all = texts_of_round(round);
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let update = texts(&a, &format!("s{}", round % SESSIONS), &all);
        let position = round.to_string();
        index.apply(&[update], Some(position.as_bytes())).unwrap();
        writeln!(std::io::stderr(), "{round}").unwrap();
        while round.is_multiple_of(2) && index.tidy().unwrap() {}
        if round.is_multiple_of(5) {
            let key = format!("s{}", (round + 3) % SESSIONS);
            index.forget(b"r", &key).unwrap();
        }
    }
}

/// Kills a child process some time after its first round; returns the last round that it reported.
fn kill_child_after(path: &Path, millis: u64) -> u64 {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "text_index::killed::child_writes_until_it_is_killed",
            "--ignored",
        ])
        .arg("--nocapture")
        .env(PATH_VARIABLE, path)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut rounds = BufReader::new(process.stderr.take().unwrap()).lines();
    let first = rounds.next().unwrap().unwrap();
    std::thread::sleep(Duration::from_millis(millis));
    process.kill().unwrap();
    let ended = process.wait().unwrap();
    assert_eq!(ended.code(), None, "the child exited before the kill");
    let last = rounds.map(Result::unwrap).last().unwrap_or(first);
    last.parse().unwrap()
}

/// Asserts that the index is consistent with its position; returns the position.
#[track_caller]
fn assert_consistent(index: &dyn TextIndex) -> u64 {
    let a = shard("r", "a");
    let scope = IndexScope::Shard(a.clone());
    let position = index.position().unwrap().unwrap();
    let at: u64 = std::str::from_utf8(&position).unwrap().parse().unwrap();
    let (mut all, mut emptied) = (0, 0);
    for session in index.sessions(&scope).unwrap().iter() {
        let session_no: u64 = session.entry.key[1..].parse().unwrap();
        let round = at - (at + SESSIONS - session_no) % SESSIONS;
        let only = [session.no];
        let mut session_query = query(&scope, &[]);
        session_query.sessions = Some(&only);
        let mut shown = bodies(index, &numbers(&index.candidates(&session_query).unwrap()));
        if session.entry.stamp == [0, 0] {
            assert_eq!(shown, [""; 0]);
            emptied += 1;
            continue;
        }
        shown.reverse();
        let expected = texts_of_round(round).into_iter().enumerate();
        let expected: Vec<String> = expected.map(|(n, text)| format!("{n}={text}")).collect();
        assert_eq!(shown, expected);
        for n in [0, 13, expected.len() - 1] {
            let word = format!("r{round}n{n}x");
            assert_eq!(matching_bodies(index, &a, &[&word]), expected[n..=n]);
        }
        all += expected.len();
    }
    assert_eq!(matching_bodies(index, &a, &["apple"]).len(), all);
    let status = index.status().unwrap();
    assert_eq!(status.documents, all as u64);
    assert_eq!(index.unread(99).unwrap().len(), emptied);
    at
}

#[test]
fn an_index_survives_kills_at_any_point() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.db");
    let (mut before, mut kill) = (0, 0);
    // Repeats until there are enough kills, and enough rounds for merges of several levels.
    while kill < 12 || before <= 24 {
        let last_round = kill_child_after(&path, kill * 11 % 50);
        let index = index_at(&path);
        let at = assert_consistent(&index);
        assert!(
            before < last_round && (last_round..=last_round + 1).contains(&at),
            "{before} {last_round} {at}"
        );
        before = at;
        kill += 1;
    }
    let index = index_at(&path);
    tidy_fully(&index);
    assert_eq!(assert_consistent(&index), before);
    let raw = Connection::open(&path).unwrap();
    let check = raw.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0));
    assert_eq!(check.unwrap(), "ok");
}
