//! Readers of live tails while the server is killed many times: what each reader received over all its connections
//! equals the ledger.

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
use crate::{Seed, number};

const READERS: u64 = 50;
const SESSIONS: u64 = 10;
/// The longest time that a reader may need for existing items.
const CATCH_UP: Duration = Duration::from_secs(60);

/// State that all threads share.
struct Stage {
    /// `HOST:PORT` of the newest server.
    address: Mutex<String>,
    /// The last seq of each session, once writing has ended.
    ends: Mutex<Option<Vec<u64>>>,
    writing: AtomicBool,
}

impl Stage {
    fn address(&self) -> String {
        self.address.lock().expect("the address").clone()
    }

    fn end(&self, session: u64) -> Option<u64> {
        let ends = self.ends.lock().expect("the ends");
        ends.as_ref()
            .and_then(|e| e.get(usize::try_from(session).ok()?).copied())
    }
}

/// Writes complete turns until it must stop; a write that a kill interrupts is retried with the same key.
fn write(stage: &Stage, worker: u64, rng: &mut StdRng) {
    let mut turn = 0_u64;
    while stage.writing.load(Ordering::Relaxed) {
        let session = rng.random_range(0..SESSIONS);
        let body = json!({
            "request_id": format!("w{worker}-{turn}"), "question_neutral": format!("question {turn}"),
            "items": [{"role": "tool", "channel": "observation",
                       "parts": [{"type": "text", "text": "x".repeat(rng.random_range(0..3000))}]}],
            "answer_neutral": format!("answer {turn}"),
        });
        while stage.writing.load(Ordering::Relaxed) {
            let client = CrashClient::new(&format!("http://{}", stage.address()));
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

/// A reader over many connections.
struct Reader {
    session: u64,
    seen: Vec<(u64, Value)>,
    connections: u64,
}

impl Reader {
    fn last(&self) -> u64 {
        self.seen.last().map_or(0, |(seq, _)| *seq)
    }

    fn run(&mut self, stage: &Stage, rng: &mut StdRng) {
        let mut late = None;
        while stage.end(self.session).is_none_or(|end| self.last() < end) {
            if stage.end(self.session).is_some() {
                let since = *late.get_or_insert_with(Instant::now);
                assert!(
                    since.elapsed() < CATCH_UP,
                    "session {} stops at {}",
                    self.session,
                    self.last()
                );
            }
            let wanted = rng.random_range(1..200);
            // A kill or a start may interrupt the connection; the reader reconnects.
            if self.connect(stage, wanted).is_none() {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    /// Reads up to `wanted` events, then disconnects.
    fn connect(&mut self, stage: &Stage, wanted: usize) -> Option<()> {
        let mut stream = TcpStream::connect(stage.address()).ok()?;
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

fn journal(client: &CrashClient, session: u64) -> Vec<(u64, Value)> {
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
    let seed = Seed::of("tails_over_many_kills_equal_the_ledger");
    let mut rng = seed.rng(0);
    let home = Home::new();
    let mut server = CrashServer::start(&home);
    let address = |server: &CrashServer| server.origin().trim_start_matches("http://").to_owned();
    let stage = Arc::new(Stage {
        address: Mutex::new(address(&server)),
        ends: Mutex::new(None),
        writing: AtomicBool::new(true),
    });
    let writers: Vec<_> = (0..4)
        .map(|n| {
            let (stage, mut rng) = (stage.clone(), seed.rng(100 + n));
            std::thread::spawn(move || write(&stage, n, &mut rng))
        })
        .collect();
    let readers: Vec<_> = (0..READERS)
        .map(|n| {
            let (stage, mut rng) = (stage.clone(), seed.rng(200 + n));
            std::thread::spawn(move || {
                let mut reader = Reader {
                    session: n % SESSIONS,
                    seen: Vec::new(),
                    connections: 0,
                };
                reader.run(&stage, &mut rng);
                reader
            })
        })
        .collect();
    for _ in 0..number("FILROUGE_CRASH_TAIL_KILLS", 12) {
        std::thread::sleep(Duration::from_millis(rng.random_range(100..500)));
        server.kill();
        server = CrashServer::start(&home);
        *stage.address.lock().expect("the address") = address(&server);
    }
    std::thread::sleep(Duration::from_millis(200));
    stage.writing.store(false, Ordering::Relaxed);
    writers
        .into_iter()
        .for_each(|w| w.join().expect("a writer"));
    let client = CrashClient::new(server.origin());
    let journals: Vec<_> = (0..SESSIONS).map(|s| journal(&client, s)).collect();
    let ends = journals
        .iter()
        .map(|j| j.last().map_or(0, |(seq, _)| *seq))
        .collect();
    *stage.ends.lock().expect("the ends") = Some(ends);
    let (mut connections, mut events) = (0, 0);
    for reader in readers {
        let reader = reader.join().expect("a reader");
        let journal = &journals[usize::try_from(reader.session).expect("a small number")];
        assert!(
            reader.seen == *journal,
            "session {}: {} events, {} items",
            reader.session,
            reader.seen.len(),
            journal.len()
        );
        connections += reader.connections;
        events += reader.seen.len();
    }
    assert!(
        connections > READERS * 5,
        "too few connections to show anything: {connections}"
    );
    eprintln!("{READERS} readers, {connections} connections, {events} events");
    server.stop();
    home.verify();
}
