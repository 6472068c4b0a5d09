//! Histories are append-only on every server: an acknowledged item is in every later answer, once and at the same
//! position, and no item is ever lost (promises P1 and P3 of the design).

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::http::{Client, text_item};
use crate::postgres_servers::two;
use crate::world::Server;

const SESSIONS: usize = 200;
const CLIENTS: usize = 6;
const LASTS: Duration = Duration::from_secs(5);

/// An acknowledged item: its text and position, and when it was sent and acknowledged.
struct Appended {
    text: String,
    seq: u64,
    sent: u64,
    reported: u64,
}

/// A list that was read, and when the request was sent.
struct Read {
    texts: Vec<String>,
    sent: u64,
}

#[derive(Default)]
struct History {
    appended: Vec<Appended>,
    reads: Vec<Read>,
}

/// The clients' knowledge about each session.
struct Known {
    moment: AtomicU64,
    histories: Vec<Mutex<History>>,
}

impl Known {
    fn tick(&self) -> u64 {
        self.moment.fetch_add(1, Ordering::SeqCst)
    }

    fn work(&self, servers: &[Server], turns: &[String], client: usize) {
        let mut rng = StdRng::seed_from_u64(client as u64);
        let clients: Vec<Client> = servers.iter().map(Server::client).collect();
        let began = Instant::now();
        for n in 0.. {
            if began.elapsed() > LASTS {
                return;
            }
            // Some sessions get most of the requests.
            let of = if rng.random_bool(0.3) { 4 } else { SESSIONS };
            let session = rng.random_range(0..of);
            let at = &clients[rng.random_range(0..clients.len())];
            let sent = self.tick();
            if rng.random_bool(0.5) {
                let text = format!("{client}-{n}");
                let item = text_item(&text, "assistant", "thought", &text);
                let path = format!("/s{session}/turns/{}/items", turns[session]);
                let seqs = at.post(&path, &json!({ "items": [item] })).wrote(201);
                let (seq, reported) = (seqs["last_seq"].as_u64().unwrap(), self.tick());
                let mut history = self.histories[session].lock().unwrap();
                history.appended.push(Appended {
                    text,
                    seq,
                    sent,
                    reported,
                });
            } else {
                let texts = list(at, session);
                let mut history = self.histories[session].lock().unwrap();
                history.reads.push(Read { texts, sent });
            }
        }
    }
}

/// The texts of the session's items, in order.
fn list(client: &Client, session: usize) -> Vec<String> {
    let items = client.all(&format!("/s{session}/items"), 200);
    assert!(items.iter().zip(1_u64..).all(|(i, seq)| i["seq"] == seq));
    let said = |item: &Value| item["parts"][0]["text"].as_str().unwrap().to_owned();
    items.iter().map(said).collect()
}

impl History {
    fn check(&self, end: &[String]) {
        let places: BTreeMap<&str, usize> = end
            .iter()
            .enumerate()
            .map(|(n, t)| (t.as_str(), n))
            .collect();
        assert_eq!(places.len(), end.len(), "nothing twice: {end:?}");
        assert_eq!(end.len(), self.appended.len() + 1, "and nothing else");
        for read in &self.reads {
            assert!(end.starts_with(&read.texts), "{end:?}: {:?}", read.texts);
        }
        for one in &self.appended {
            assert_eq!(places[one.text.as_str()] as u64 + 1, one.seq);
            // An item acknowledged before another request started must be in its answer, at an earlier position.
            for read in self.reads.iter().filter(|read| read.sent > one.reported) {
                assert!(read.texts.len() as u64 >= one.seq, "{}", one.text);
            }
            for later in self
                .appended
                .iter()
                .filter(|other| other.sent > one.reported)
            {
                assert!(later.seq > one.seq, "{} {}", one.text, later.text);
            }
        }
    }
}

#[test]
fn acknowledged_items_are_in_every_later_answer_of_both_servers() {
    let (worlds, servers) = two();
    let turns: Vec<String> = (0..SESSIONS)
        .map(|n| {
            let body = json!({ "request_id": "r", "question_neutral": format!("question {n}") });
            let turn = servers[n % 2].client().post(&format!("/s{n}/turns"), &body);
            turn.wrote(201)["turn_id"].as_str().unwrap().to_owned()
        })
        .collect();
    let known = Known {
        moment: AtomicU64::new(0),
        histories: (0..SESSIONS).map(|_| Mutex::default()).collect(),
    };
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (known, servers, turns) = (&known, &servers, &turns);
            scope.spawn(move || known.work(servers, turns, client));
        }
    });
    let mut appended = 0;
    for (session, history) in known.histories.into_iter().enumerate() {
        let history = history.into_inner().unwrap();
        appended += history.appended.len();
        let ends = [0, 1].map(|n| list(&servers[n].client(), session));
        assert_eq!(ends[0], ends[1]);
        history.check(&ends[0]);
    }
    assert!(appended > 100, "{appended} items were appended");
    worlds[1].verify();
}
