//! Readers of live tails while the server is killed many times. Over all its connections, each reader must receive
//! exactly the session's items.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use crate::http::CrashClient;
use crate::server::{CrashServer, Home};
use crate::{Seed, env_number};

const READERS: u64 = 50;
const SESSIONS: u64 = 10;
/// The longest time that a reader may need for existing items.
const CATCH_UP_WITHIN: Duration = Duration::from_secs(60);

/// State that all threads share.
struct Shared {
    /// `HOST:PORT` of the running server.
    address: Mutex<String>,
    /// The last seq of each session; `None` until all writers have stopped.
    ends: Mutex<Option<Vec<u64>>>,
    writing: AtomicBool,
}

impl Shared {
    fn address(&self) -> String {
        self.address.lock().expect("the address").clone()
    }

    /// Returns the last seq of a session, if all writers have stopped.
    fn end(&self, session: u64) -> Option<u64> {
        let ends = self.ends.lock().expect("no thread panicked");
        ends.as_ref()
            .and_then(|e| e.get(usize::try_from(session).ok()?).copied())
    }
}

/// Writes complete turns until writing ends. A write that a kill interrupts is retried with the same key.
fn write(shared: &Shared, worker: u64, rng: &mut StdRng) {
    let mut turn = 0_u64;
    while shared.writing.load(Ordering::Relaxed) {
        let session = rng.random_range(0..SESSIONS);
        let body = json!({
            "request_id": format!("w{worker}-{turn}"), "question_neutral": format!("question {turn}"),
            "items": [{"role": "tool", "channel": "observation",
                       "parts": [{"type": "text", "text": "x".repeat(rng.random_range(0..3000))}]}],
            "answer_neutral": format!("answer {turn}"),
        });
        while shared.writing.load(Ordering::Relaxed) {
            let client = CrashClient::new(&format!("http://{}", shared.address()));
            if client
                .post(&format!("/api/v1/sessions/s{session}/turns"), &body)
                .is_ok_and(|r| r.is_success())
            {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        turn += 1;
    }
}

/// A reader that reconnects again and again.
struct Reader {
    session: u64,
    /// The received items, with their seqs.
    seen: Vec<(u64, Value)>,
    connections: u64,
}

impl Reader {
    /// Returns the last seq that was received.
    fn last(&self) -> u64 {
        self.seen.last().map_or(0, |(seq, _)| *seq)
    }

    /// Reads until the reader has received all items of the session.
    fn run(&mut self, shared: &Shared, rng: &mut StdRng) {
        let mut writing_ended = None;
        while shared.end(self.session).is_none_or(|end| self.last() < end) {
            if shared.end(self.session).is_some() {
                let since = *writing_ended.get_or_insert_with(Instant::now);
                assert!(
                    since.elapsed() < CATCH_UP_WITHIN,
                    "a reader of session {} received nothing after seq {} within {CATCH_UP_WITHIN:?}",
                    self.session,
                    self.last()
                );
            }
            let wanted = rng.random_range(1..200);
            // A kill or a start may interrupt the connection; the reader reconnects.
            if self.connect(shared, wanted).is_none() {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    /// Connects, reads up to `wanted` events, then disconnects; `None` if the connection failed.
    fn connect(&mut self, shared: &Shared, wanted: usize) -> Option<()> {
        let mut stream = TcpStream::connect(shared.address()).ok()?;
        stream
            .set_read_timeout(Some(Duration::from_millis(500)))
            .ok()?;
        let request = format!(
            "GET /api/v1/sessions/s{}/items?after=0 HTTP/1.0\r\nhost: localhost\r\naccept: text/event-stream\r\nlast-event-id: {}\r\n\r\n",
            self.session,
            self.last()
        );
        stream.write_all(request.as_bytes()).ok()?;
        let mut lines = BufReader::new(stream);
        let mut line = String::new();
        lines.read_line(&mut line).ok()?;
        line.contains(" 200 ").then_some(())?;
        self.connections += 1;
        let (mut id, mut data, mut count) = (None, Vec::new(), 0);
        while count < wanted {
            let mut line = String::new();
            if lines.read_line(&mut line).ok()? == 0 {
                return None;
            }
            match line.trim_end_matches('\n').split_once(": ") {
                Some(("id", text)) => id = text.parse().ok(),
                Some(("data", text)) => data.push(text.to_owned()),
                // An event counts only once its terminating empty line has arrived.
                None if line == "\n" && !data.is_empty() => {
                    let item = serde_json::from_str(&data.join("\n")).expect("an item");
                    self.seen.push((id.take().expect("an id"), item));
                    data.clear();
                    count += 1;
                }
                _ => {}
            }
        }
        lines.into_inner().shutdown(Shutdown::Both).ok()
    }
}

/// Reads all items of a session, with their seqs.
fn ledger_items(client: &CrashClient, session: u64) -> Vec<(u64, Value)> {
    let (mut items, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!(
            "/api/v1/sessions/s{session}/items?limit=500{cursor}"
        ));
        for item in page["data"].as_array().expect("a page") {
            items.push((item["seq"].as_u64().expect("a seq"), item.clone()));
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return items,
        }
    }
}

#[test]
fn tails_over_many_kills_equal_the_ledger() {
    let seed = Seed::new("tails_over_many_kills_equal_the_ledger");
    let mut rng = seed.rng(0);
    let home = Home::new();
    let mut server = CrashServer::start(&home);
    let address = |server: &CrashServer| server.origin().trim_start_matches("http://").to_owned();
    let shared = Arc::new(Shared {
        address: Mutex::new(address(&server)),
        ends: Mutex::new(None),
        writing: AtomicBool::new(true),
    });
    let writers: Vec<_> = (0..4)
        .map(|n| {
            let (shared, mut rng) = (shared.clone(), seed.rng(100 + n));
            std::thread::spawn(move || write(&shared, n, &mut rng))
        })
        .collect();
    let readers: Vec<_> = (0..READERS)
        .map(|n| {
            let (shared, mut rng) = (shared.clone(), seed.rng(200 + n));
            std::thread::spawn(move || {
                let mut reader = Reader {
                    session: n % SESSIONS,
                    seen: Vec::new(),
                    connections: 0,
                };
                reader.run(&shared, &mut rng);
                reader
            })
        })
        .collect();
    for _ in 0..env_number("FILROUGE_CRASH_TAIL_KILLS", 12) {
        std::thread::sleep(Duration::from_millis(rng.random_range(100..500)));
        server.kill();
        server = CrashServer::start(&home);
        *shared.address.lock().expect("the address") = address(&server);
    }
    std::thread::sleep(Duration::from_millis(200));
    shared.writing.store(false, Ordering::Relaxed);
    writers
        .into_iter()
        .for_each(|w| w.join().expect("a writer"));
    let client = CrashClient::new(server.origin());
    let ledger: Vec<_> = (0..SESSIONS).map(|s| ledger_items(&client, s)).collect();
    let ends = ledger
        .iter()
        .map(|j| j.last().map_or(0, |(seq, _)| *seq))
        .collect();
    *shared.ends.lock().expect("no thread panicked") = Some(ends);
    let (mut connections, mut events) = (0, 0);
    for reader in readers {
        let reader = reader.join().expect("the reader did not panic");
        let items = &ledger[usize::try_from(reader.session).expect("the number fits into usize")];
        assert!(
            reader.seen == *items,
            "session {}: the {} received events differ from the {} items",
            reader.session,
            reader.seen.len(),
            items.len()
        );
        connections += reader.connections;
        events += reader.seen.len();
    }
    assert!(
        connections > READERS * 5,
        "too few connections for a meaningful test: {connections}"
    );
    eprintln!("{READERS} readers, {connections} connections, {events} events");
    server.stop();
    home.verify();
}
