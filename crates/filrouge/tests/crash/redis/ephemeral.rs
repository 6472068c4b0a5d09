//! Sessions that are in a Redis in trouble, and nowhere else.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use filrouge_testbed::{Redis, RedisCluster};
use rand::Rng;
use rand::rngs::StdRng;
use serde_json::json;

use super::{PATIENCE, Site, meanwhile, trouble_of_cluster, trouble_of_one, wait_for};
use crate::Seed;
use crate::http::{Client, Reply};

const CALLERS: u32 = 6;
const AUTHENTICATED: &[(&str, &str)] = &[("FILROUGE_DURABLE", "authenticated")];

#[test]
fn ephemeral_sessions_are_never_answered_wrongly() {
    let seed = Seed::of("ephemeral_sessions_are_never_answered_wrongly");
    let redis = Redis::start();
    let site = Site::new(&redis.socket_url(), AUTHENTICATED);
    loud(&seed, &site, Loss::Told, |rng, calm| {
        trouble_of_one(&redis, rng, calm);
    });
}

#[test]
fn ephemeral_sessions_in_a_cluster_are_never_answered_wrongly() {
    let seed = Seed::of("ephemeral_sessions_in_a_cluster_are_never_answered_wrongly");
    let cluster = RedisCluster::with_replicas();
    let site = Site::new(&cluster.url(), AUTHENTICATED);
    loud(&seed, &site, Loss::OfTheNewest, |rng, calm| {
        trouble_of_cluster(&cluster, rng, calm);
    });
}

/// What becomes of acknowledged turns that Redis has lost.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Loss {
    /// The session is gone, as whoever asks is told.
    Told,
    /// A replica that was promoted may lack the newest ones.
    OfTheNewest,
}

fn loud(seed: &Seed, site: &Site, loss: Loss, trouble: impl FnOnce(&mut StdRng, &dyn Fn())) {
    let done = AtomicUsize::new(0);
    let workers = (1..=CALLERS).map(|n| {
        let (rng, done) = (seed.rng(n.into()), &done);
        let caller = Caller {
            session: format!("visitor-{n}"),
            clients: [site.client(0), site.client(1)],
            rng,
            loss,
            made: 0,
            turns: Vec::new(),
            redacted: BTreeSet::new(),
        };
        Box::new(move |ending: &AtomicBool| caller.live(done, ending)) as Box<_>
    });
    meanwhile(workers.collect(), || {
        trouble(&mut seed.rng(0), &|| wait_for(&done, 60));
    });
}

/// An acknowledged turn.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Turn {
    id: String,
    question: String,
}

/// A visitor, who goes from one server to the other.
struct Caller {
    session: String,
    clients: [Client; 2],
    rng: StdRng,
    loss: Loss,
    made: u64,
    /// What was acknowledged since the session last began, in order.
    turns: Vec<Turn>,
    /// Questions that were redacted, whenever that was.
    redacted: BTreeSet<String>,
}

impl Caller {
    fn live(mut self, done: &AtomicUsize, ending: &AtomicBool) {
        while !ending.load(Ordering::SeqCst) {
            match self.rng.random_range(0..10) {
                0..5 => self.speak(),
                5 => self.redact(),
                _ => self.look(),
            }
            done.fetch_add(1, Ordering::SeqCst);
        }
        self.look();
    }

    fn at(&mut self) -> &Client {
        &self.clients[self.rng.random_range(0..2)]
    }

    fn path(&self, rest: &str) -> String {
        format!("/api/v1/sessions/{}{rest}", self.session)
    }

    /// Asks until there is an answer other than that the hot store does not answer.
    fn settled(&mut self, ask: impl Fn(&Client) -> Reply) -> Reply {
        let begun = Instant::now();
        loop {
            let reply = ask(self.at());
            if reply.status != 503 {
                return reply;
            }
            assert_eq!(reply.code(), "hot_unavailable", "{}", reply.body);
            assert!(begun.elapsed() < PATIENCE, "never settled: {}", reply.body);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn speak(&mut self) {
        self.made += 1;
        let (session, n) = (&self.session, self.made);
        let question = format!("what {session} said as number {n}");
        let body = json!({
            "request_id": format!("r{n}"),
            "question_neutral": question,
            "answer_neutral": format!("the answer to number {n}"),
        });
        let path = self.path("/turns");
        let reply = self.settled(|client| post(client, &path, &body));
        assert!(reply.is_success(), "{}", reply.body);
        assert_eq!(reply.durability.as_deref(), Some("ephemeral"));
        let ordinal = reply.body["ordinal"].as_u64().expect("a number");
        let known = self.turns.len() as u64;
        if ordinal <= known {
            // The session began anew, or a replica had not heard of its newest turns.
            assert!(
                ordinal == 1 || self.loss == Loss::OfTheNewest,
                "{}",
                reply.body
            );
            self.turns
                .truncate(usize::try_from(ordinal - 1).expect("small"));
        } else {
            assert_eq!(ordinal, known + 1, "{}", reply.body);
        }
        let id = reply.body["turn_id"].as_str().expect("an id").to_owned();
        self.turns.push(Turn { id, question });
    }

    fn redact(&mut self) {
        if self.turns.is_empty() {
            return;
        }
        let turn = self.turns[self.rng.random_range(0..self.turns.len())].clone();
        let path = self.path(&format!("/turns/{}/redact", turn.id));
        let body = json!({ "reason": "asked to" });
        let reply = self.settled(|client| post(client, &path, &body));
        match reply.status {
            200 => {
                self.redacted.insert(turn.question);
            }
            404 | 410 => self.lost(&reply),
            _ => panic!("{}", reply.body),
        }
    }

    /// What is shown is what was acknowledged, but for what was redacted; or it is said that nothing is there.
    fn look(&mut self) {
        let path = self.path("/turns?limit=500");
        let reply = self.settled(|client| get(client, &path));
        match reply.status {
            200 => {}
            404 | 410 => return self.lost(&reply),
            _ => panic!("{}", reply.body),
        }
        let shown: Vec<String> = reply.body["data"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|turn| turn["question_neutral"].as_str().unwrap_or("").to_owned())
            .collect();
        let mut expected: Vec<String> = self.turns.iter().map(|t| t.question.clone()).collect();
        expected.retain(|question| !self.redacted.contains(question));
        if self.loss == Loss::OfTheNewest && shown.len() < expected.len() {
            let kept = shown.last().cloned();
            expected.truncate(shown.len());
            let last = self
                .turns
                .iter()
                .position(|t| Some(&t.question) == kept.as_ref());
            self.turns.truncate(last.map_or(0, |at| at + 1));
        }
        assert_eq!(shown, expected, "{}", self.session);
    }

    /// The session is gone, as was said.
    fn lost(&mut self, reply: &Reply) {
        let known = ["session_not_found", "turn_not_found", "turn_expired"];
        assert!(known.contains(&reply.code()), "{}", reply.body);
        self.turns.clear();
    }
}

fn post(client: &Client, path: &str, body: &serde_json::Value) -> Reply {
    let reply = client.post(path, body);
    reply.unwrap_or_else(|e| panic!("{path}: {}", e.0))
}

fn get(client: &Client, path: &str) -> Reply {
    let reply = client.try_get(path);
    reply.unwrap_or_else(|e| panic!("{path}: {}", e.0))
}
