//! `filrouge sessions tail` prints items as they are committed, also by a server on the same store.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::http::{Client, text_item};
use crate::world::World;

/// The maximum time until a line appears, also on slow machines.
const LIMIT: Duration = Duration::from_secs(30);

/// A running `filrouge sessions tail`; killed when dropped.
struct Tail {
    child: Child,
    lines: Receiver<String>,
}

impl Tail {
    fn start(world: &World, arguments: &[&str]) -> Self {
        let mut child = world
            .command(&[&["sessions", "tail"], arguments].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines }
    }

    /// The next line.
    #[track_caller]
    fn next(&self) -> String {
        self.lines.recv_timeout(LIMIT).expect("no line appeared")
    }

    /// The next `n` lines, which must be JSON.
    fn items(&self, n: usize) -> Vec<Value> {
        (0..n)
            .map(|_| serde_json::from_str(&self.next()).unwrap())
            .collect()
    }

    /// Sends SIGINT, as Ctrl-C does; returns the exit code and stderr.
    fn interrupt(self) -> (Option<i32>, String) {
        let kill = format!("kill -INT {}", self.child.id());
        assert!(
            Command::new("sh")
                .arg("-c")
                .arg(kill)
                .status()
                .unwrap()
                .success()
        );
        self.wait_for_exit()
    }

    /// Waits until the command has ended; returns the exit code and stderr. No unread line may be left.
    fn wait_for_exit(mut self) -> (Option<i32>, String) {
        let status = self.child.wait().unwrap();
        let mut stderr = String::new();
        self.child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut stderr)
            .unwrap();
        assert_eq!(self.lines.recv_timeout(LIMIT).ok(), None, "an unread line");
        (status.code(), stderr)
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Starts a turn of the session `s`; returns its path.
fn start(client: &Client, request: &str) -> String {
    let body = json!({ "request_id": request, "question_neutral": "?" });
    let turn = client.post("/s/turns", &body).wrote(201);
    format!("/s/turns/{}", turn["turn_id"].as_str().unwrap())
}

#[test]
fn items_of_a_server_are_shown_immediately_and_once() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let turn = start(&client, "r0");
    let tail = Tail::start(&world, &["s", "--after", "0", "--json"]);
    let mut seen = tail.items(1);
    for n in 0..40 {
        let items = [0, 1].map(|i| text_item(&format!("{n}-{i}"), "assistant", "thought", "t"));
        client
            .post(&format!("{turn}/items"), &json!({ "items": items }))
            .wrote(201);
        if n % 10 == 0 {
            start(&client, &format!("r{n}-next"));
        }
    }
    server.stop();
    let server = world.serve();
    let end = json!({ "answer_neutral": "!" });
    server
        .client()
        .post(&format!("{turn}/finalize"), &end)
        .wrote(200);
    // 40 pairs, 4 questions, and the answer.
    seen.extend(tail.items(85));
    let all = server.client().all("/s/items", 500);
    assert_eq!(seen, all, "the lines differ from the list");
    let (code, stderr) = tail.interrupt();
    assert_eq!(code, Some(0), "{stderr}");
    server.stop();
    world.verify();
}

#[test]
fn without_a_position_the_tail_starts_with_new_items() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    start(&client, "before");
    let tail = Tail::start(&world, &["s"]);
    // The test cannot observe when the command begins to read, so it writes until the first line appears.
    let mut n = 0;
    let first = loop {
        start(&client, &format!("r{n}"));
        n += 1;
        if let Ok(line) = tail.lines.recv_timeout(Duration::from_millis(100)) {
            break line;
        }
        assert!(n < 300, "no line appeared");
    };
    let columns: Vec<&str> = first.split_whitespace().collect();
    assert_eq!(columns[1..], ["user", "question", "?"], "{first}");
    let seq: usize = columns[0].parse().unwrap();
    assert!(seq > 1, "an earlier item was shown: {first}");
    for later in seq + 1..=n + 1 {
        assert!(tail.next().trim_start().starts_with(&later.to_string()));
    }
    let (code, stderr) = tail.interrupt();
    assert_eq!(code, Some(0), "{stderr}");
    server.stop();
}

#[test]
fn the_tail_ends_when_the_session_is_erased() {
    let world = World::new();
    let server = world.serve();
    start(&server.client(), "r");
    let tail = Tail::start(&world, &["s", "--after", "0"]);
    tail.next();
    server.client().delete("/s").is(200);
    let (code, stderr) = tail.wait_for_exit();
    assert!(
        code == Some(1) && stderr.contains("session_erased"),
        "{code:?} {stderr}"
    );
    for (arguments, code) in [(["none"], 1), ([""], 2)] {
        let output = world.run(&[&["sessions", "tail"][..], &arguments].concat());
        assert_eq!(
            (output.code, output.stdout.as_str()),
            (Some(code), ""),
            "{output:?}"
        );
    }
    server.stop();
}
