//! Sessions that exist only in a Redis with faults.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use filrouge_testbed::{Redis, RedisCluster};
use rand::Rng;
use rand::rngs::StdRng;
use serde_json::json;

use super::{PATIENCE, Site, meanwhile, trouble_of_cluster, trouble_of_one, wait_for};
use crate::Seed;
use crate::http::{CrashClient, CrashReply};

mod history;

use history::{History, Loss, State, Turn};

const CALLERS: u32 = 6;
const AUTHENTICATED: &[(&str, &str)] = &[("FILROUGE_DURABLE", "authenticated")];

#[test]
fn ephemeral_sessions_are_never_answered_wrongly() {
    let seed = Seed::of("ephemeral_sessions_are_never_answered_wrongly");
    let redis = Redis::start();
    let site = Site::new(&redis.socket_url(), AUTHENTICATED);
    loud(&seed, &site, Loss::Reported, |rng, calm| {
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

fn loud(seed: &Seed, site: &Site, loss: Loss, trouble: impl FnOnce(&mut StdRng, &dyn Fn())) {
    let done = AtomicUsize::new(0);
    let workers = (1..=CALLERS).map(|n| {
        let (rng, done) = (seed.rng(n.into()), &done);
        let caller = Caller {
            session: format!("visitor-{n}"),
            clients: [site.client(0), site.client(1)],
            rng,
            made: 0,
            history: History::new(loss),
            redacted: BTreeSet::new(),
        };
        Box::new(move |ending: &AtomicBool| caller.live(done, ending)) as Box<_>
    });
    meanwhile(workers.collect(), || {
        trouble(&mut seed.rng(0), &|| wait_for(&done, 60));
    });
}

/// A visitor who alternates between the two servers.
struct Caller {
    session: String,
    clients: [CrashClient; 2],
    rng: StdRng,
    made: u64,
    history: History,
    /// Questions whose turns were redacted.
    redacted: BTreeSet<String>,
}

/// An answer that is not `hot_unavailable`.
struct Settled {
    reply: CrashReply,
    /// The server that gave it.
    server: usize,
    /// All servers that were asked: each but the last may have executed the request and failed to answer.
    asked: BTreeSet<usize>,
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

    fn path(&self, rest: &str) -> String {
        format!("/api/v1/sessions/{}{rest}", self.session)
    }

    /// Sends a request to either server until it is settled.
    fn settled(&mut self, ask: impl Fn(&CrashClient) -> CrashReply) -> Settled {
        let rng = &mut self.rng;
        settled(&self.clients, || rng.random_range(0..2), ask)
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
        let settled = self.settled(|client| post(client, &path, &body));
        let (reply, server) = (&settled.reply, settled.server);
        assert!(reply.is_success(), "{}", reply.body);
        assert_eq!(reply.durability.as_deref(), Some("ephemeral"));
        let number = |name: &str| reply.body[name].as_u64().expect("a number");
        let (before, items) = (number("ordinal") - 1, number("first_seq") - 1);
        let id = reply.body["turn_id"].as_str().expect("an id").to_owned();
        let turn = Turn { id, question };
        let mut from = vec![None];
        if before > 0 {
            let fits = |state: &State| {
                let cluster = self.history.loss == Loss::OfTheNewest;
                state.turns.len() as u64 == before && (cluster || state.items == items)
            };
            let open = self.history.open_to(&settled.asked);
            from = open.into_iter().filter(fits).map(Some).collect();
        }
        let say = |from| {
            let say = |state: &mut State| state.say(turn.clone());
            self.history.changed(server, from, say)
        };
        let made: Vec<State> = from.into_iter().filter_map(say).collect();
        self.found(server, &made, reply);
    }

    fn redact(&mut self) {
        let turns = self.history.turns();
        if turns.is_empty() {
            return;
        }
        let turn = turns[self.rng.random_range(0..turns.len())].clone();
        let path = self.path(&format!("/turns/{}/redact", turn.id));
        let body = json!({ "reason": "asked to" });
        let settled = self.settled(|client| post(client, &path, &body));
        let (reply, server) = (&settled.reply, settled.server);
        match (reply.status, reply.code()) {
            (200, _) if self.redacted.insert(turn.question.clone()) => {
                let mut open = self.history.open_to(&settled.asked);
                open.retain(|state| state.has(&turn));
                let redact = |from| self.history.changed(server, Some(from), State::redact);
                let made: Vec<State> = open.into_iter().filter_map(redact).collect();
                self.found(server, &made, reply);
            }
            // The redaction is repeated, which changes nothing.
            (200, _) => {
                let mut open = self.history.open_to(&BTreeSet::from([server]));
                open.retain(|state| state.has(&turn));
                self.found(server, &open, reply);
            }
            // The session exists in a state from before that turn.
            (404, "turn_not_found") => {
                let mut open = self.history.open_to(&BTreeSet::from([server]));
                open.retain(|state| !state.has(&turn));
                self.found(server, &open, reply);
            }
            (404 | 410, _) => self.lost(reply),
            _ => panic!("{}", reply.body),
        }
    }

    /// Checks that the server shows the acknowledged turns, without the redacted ones, or reports that the session is
    /// gone.
    fn look(&mut self) {
        let path = self.path("/turns?limit=500");
        let settled = self.settled(|client| get(client, &path));
        let open = self.history.open_to(&BTreeSet::from([settled.server]));
        self.looked(&settled, &open);
    }

    /// Notes that a server answered from one of these states; where several are possible, a read from the same server
    /// decides.
    fn found(&mut self, server: usize, states: &[State], reply: &CrashReply) {
        let name = &self.session;
        match states {
            [] => panic!("{name}: server {server} cannot say {}", reply.body),
            [state] => self.history.saw(server, state),
            // Any of the others may be shown next, so the choice does not matter.
            [state, ..] if self.history.loss == Loss::OfTheNewest => {
                self.history.saw(server, state);
            }
            _ => {
                let path = self.path("/turns?limit=500");
                let settled = settled(&self.clients, || server, |client| get(client, &path));
                if settled.reply.status != 200 {
                    self.history.one_of(states);
                }
                self.looked(&settled, states);
            }
        }
    }

    fn looked(&mut self, settled: &Settled, open: &[State]) {
        let reply = &settled.reply;
        match reply.status {
            200 => {}
            404 | 410 => return self.lost(reply),
            _ => panic!("{}", reply.body),
        }
        let shown: Vec<String> = reply.body["data"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|turn| turn["question_neutral"].as_str().unwrap_or("").to_owned())
            .collect();
        let questions = |state: &State| state.questions(&self.redacted);
        let Some(state) = open.iter().find(|state| questions(state) == shown) else {
            let (name, server) = (&self.session, settled.server);
            let reported: Vec<_> = self.history.turns().iter().map(|t| &t.question).collect();
            let open: Vec<_> = open.iter().map(questions).collect();
            panic!(
                "{name}: server {server} shows {shown:?}, may show {open:?}; shown last {reported:?}"
            );
        };
        self.history.saw(settled.server, state);
    }

    /// The server reported that the session is gone.
    fn lost(&mut self, reply: &CrashReply) {
        let known = ["session_not_found", "turn_expired"];
        assert!(known.contains(&reply.code()), "{}", reply.body);
        self.history.lost();
    }
}

/// Sends a request to one server after the other until the answer is not `hot_unavailable`.
fn settled(
    clients: &[CrashClient; 2],
    mut next: impl FnMut() -> usize,
    ask: impl Fn(&CrashClient) -> CrashReply,
) -> Settled {
    let (begun, mut asked) = (Instant::now(), BTreeSet::new());
    loop {
        let server = next();
        asked.insert(server);
        let reply = ask(&clients[server]);
        if reply.status != 503 {
            return Settled {
                reply,
                server,
                asked,
            };
        }
        assert_eq!(reply.code(), "hot_unavailable", "{}", reply.body);
        assert!(
            begun.elapsed() < PATIENCE,
            "not settled in time: {}",
            reply.body
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn post(client: &CrashClient, path: &str, body: &serde_json::Value) -> CrashReply {
    let reply = client.post(path, body);
    reply.unwrap_or_else(|e| panic!("{path}: {}", e.0))
}

fn get(client: &CrashClient, path: &str) -> CrashReply {
    let reply = client.try_get(path);
    reply.unwrap_or_else(|e| panic!("{path}: {}", e.0))
}
