//! A process that is killed in the middle of whatever it does to an index.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use filrouge_store::contract::text_index::{
    Asking as _, bodies, found, numbers, query, shard, texts, tidied,
};
use filrouge_store::text_index::{Reach, TextIndex};
use rusqlite::Connection;

use super::on;

const PATH: &str = "FILROUGE_TEST_INDEX";
const SESSIONS: u64 = 7;

/// What a round puts: a few that wait, or as many that they go into postings.
fn of_round(round: u64) -> Vec<String> {
    let count = if round.is_multiple_of(3) { 90 } else { 20 };
    let text = |n| format!("apple r{round}n{n}x é中{n} {}", "of all ".repeat(n));
    (0..count).map(text).collect()
}

/// Puts round after round, tidies up and forgets, and tells of each round behind it.
#[test]
#[ignore = "is killed: the process that the test below starts"]
fn child() {
    let path = PathBuf::from(std::env::var_os(PATH).unwrap());
    let (index, a) = (on(&path), shard("r", "a"));
    let last = index.position().unwrap();
    let last = last.map_or(0, |p| std::str::from_utf8(&p).unwrap().parse().unwrap());
    for round in last + 1.. {
        let all = of_round(round);
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

/// Lets a process work for a while after its first round; the last round that it told of.
fn killed_after(path: &Path, millis: u64) -> u64 {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "text_index::killed::child", "--ignored"])
        .arg("--nocapture")
        .env(PATH, path)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(process.stderr.take().unwrap()).lines();
    let first = told.next().unwrap().unwrap();
    std::thread::sleep(Duration::from_millis(millis));
    process.kill().unwrap();
    let ended = process.wait().unwrap();
    assert_eq!(ended.code(), None, "it ended by itself");
    let last = told.map(Result::unwrap).last().unwrap_or(first);
    last.parse().unwrap()
}

/// The index is as after the round it stands at.
#[track_caller]
fn consistent(index: &dyn TextIndex) -> u64 {
    let a = shard("r", "a");
    let reach = Reach::Shard(a.clone());
    let position = index.position().unwrap().unwrap();
    let at: u64 = std::str::from_utf8(&position).unwrap().parse().unwrap();
    let (mut all, mut emptied) = (0, 0);
    for session in index.sessions(&reach).unwrap().iter() {
        let of: u64 = session.entry.key[1..].parse().unwrap();
        let round = at - (at + SESSIONS - of) % SESSIONS;
        let only = [session.no];
        let mut of_it = query(&reach, &[]);
        of_it.sessions = Some(&only);
        let mut shown = bodies(index, &numbers(&index.candidates(&of_it).unwrap()));
        if session.entry.stamp == [0, 0] {
            assert_eq!(shown, [""; 0]);
            emptied += 1;
            continue;
        }
        shown.reverse();
        let expected = of_round(round).into_iter().enumerate();
        let expected: Vec<String> = expected.map(|(n, text)| format!("{n}={text}")).collect();
        assert_eq!(shown, expected);
        for n in [0, 13, expected.len() - 1] {
            let word = format!("r{round}n{n}x");
            assert_eq!(found(index, &a, &[&word]), expected[n..=n]);
        }
        all += expected.len();
    }
    assert_eq!(found(index, &a, &["apple"]).len(), all);
    let status = index.status().unwrap();
    assert_eq!(status.documents, all as u64);
    assert_eq!(index.unread(99).unwrap().len(), emptied);
    at
}

#[test]
fn killed_anywhere() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.db");
    let (mut before, mut kill) = (0, 0);
    // More than one level, and not of rounds that were killed before anything was merged.
    while kill < 12 || before <= 24 {
        let told = killed_after(&path, kill * 11 % 50);
        let index = on(&path);
        let at = consistent(&index);
        assert!(
            before < told && (told..=told + 1).contains(&at),
            "{before} {told} {at}"
        );
        before = at;
        kill += 1;
    }
    let index = on(&path);
    tidied(&index);
    assert_eq!(consistent(&index), before);
    let raw = Connection::open(&path).unwrap();
    let whole = raw.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0));
    assert_eq!(whole.unwrap(), "ok");
}
