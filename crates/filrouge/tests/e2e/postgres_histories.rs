//! Histories are append-only on every server: each acknowledged item is in every later response, once and at the same
//! position (promises P1 and P3 of the design).

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::http::{Client, text_item};
use crate::postgres_servers::two_servers;
use crate::world::Server;

const SESSIONS: usize = 200;
const CLIENTS: usize = 6;
const DURATION: Duration = Duration::from_secs(5);

/// An acknowledged item, and the times ([`Recorder::tick`]) at which it was sent and acknowledged.
struct Appended {
    text: String,
    seq: u64,
    sent: u64,
    acknowledged: u64,
}

/// The texts of a list, and the time at which it was requested.
struct Read {
    texts: Vec<String>,
    sent: u64,
}

#[derive(Default)]
struct History {
    appended: Vec<Appended>,
    reads: Vec<Read>,
}

/// Records what the clients wrote to each session and read from it.
struct Recorder {
    clock: AtomicU64,
    histories: Vec<Mutex<History>>,
}

impl Recorder {
    /// The next time of a logical clock that all clients share.
    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Appends to and reads random sessions of random servers.
    fn run_client(&self, servers: &[Server], turns: &[String], client: usize) {
        let mut rng = StdRng::seed_from_u64(client as u64);
        let clients: Vec<Client> = servers.iter().map(Server::client).collect();
        let began = Instant::now();
        for n in 0.. {
            if began.elapsed() > DURATION {
                return;
            }
            // Some sessions get most of the requests.
            let choice = if rng.random_bool(0.3) { 4 } else { SESSIONS };
            let session = rng.random_range(0..choice);
            let random_client = &clients[rng.random_range(0..clients.len())];
            let sent = self.tick();
            if rng.random_bool(0.5) {
                let text = format!("{client}-{n}");
                let item = text_item(&text, "assistant", "thought", &text);
                let path = format!("/s{session}/turns/{}/items", turns[session]);
                let answer = random_client
                    .post(&path, &json!({ "items": [item] }))
                    .wrote(201);
                let (seq, acknowledged) = (answer["last_seq"].as_u64().unwrap(), self.tick());
                let mut history = self.histories[session].lock().unwrap();
                history.appended.push(Appended {
                    text,
                    seq,
                    sent,
                    acknowledged,
                });
            } else {
                let texts = list(random_client, session);
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
    let text = |item: &Value| item["parts"][0]["text"].as_str().unwrap().to_owned();
    items.iter().map(text).collect()
}

impl History {
    /// Checks the history against `last`, the list that was read after all clients had stopped.
    fn check(&self, last: &[String]) {
        let positions: BTreeMap<&str, usize> = last
            .iter()
            .enumerate()
            .map(|(n, text)| (text.as_str(), n))
            .collect();
        assert_eq!(positions.len(), last.len(), "duplicates: {last:?}");
        // The session also has the question of its turn.
        let expected = self.appended.len() + 1;
        assert_eq!(last.len(), expected, "lost or unacknowledged: {last:?}");
        for read in &self.reads {
            assert!(last.starts_with(&read.texts), "{last:?}: {:?}", read.texts);
        }
        for item in &self.appended {
            assert_eq!(positions[item.text.as_str()] as u64 + 1, item.seq);
            // Reads that started after the acknowledgement return the item; later appends get a greater seq.
            for read in self.reads.iter().filter(|r| r.sent > item.acknowledged) {
                assert!(
                    read.texts.len() as u64 >= item.seq,
                    "a later read lacks {}",
                    item.text
                );
            }
            for later in self
                .appended
                .iter()
                .filter(|other| other.sent > item.acknowledged)
            {
                assert!(
                    later.seq > item.seq,
                    "{} is after the later {}",
                    item.text,
                    later.text
                );
            }
        }
    }
}

#[test]
fn acknowledged_items_are_in_every_later_response_of_both_servers() {
    let (worlds, servers) = two_servers();
    let turns: Vec<String> = (0..SESSIONS)
        .map(|n| {
            let body = json!({ "request_id": "r", "question_neutral": format!("question {n}") });
            let turn = servers[n % 2].client().post(&format!("/s{n}/turns"), &body);
            turn.wrote(201)["turn_id"].as_str().unwrap().to_owned()
        })
        .collect();
    let recorder = Recorder {
        clock: AtomicU64::new(0),
        histories: (0..SESSIONS).map(|_| Mutex::default()).collect(),
    };
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (recorder, servers, turns) = (&recorder, &servers, &turns);
            scope.spawn(move || recorder.run_client(servers, turns, client));
        }
    });
    let mut appended = 0;
    for (session, history) in recorder.histories.into_iter().enumerate() {
        let history = history.into_inner().unwrap();
        appended += history.appended.len();
        let lists = [0, 1].map(|n| list(&servers[n].client(), session));
        assert_eq!(lists[0], lists[1]);
        history.check(&lists[0]);
    }
    assert!(appended > 100, "{appended} items were appended");
    worlds[1].verify();
}
