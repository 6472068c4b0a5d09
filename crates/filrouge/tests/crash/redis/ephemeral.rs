//! Ephemeral sessions while Redis, their only store, has faults.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use filrouge_testbed::{Redis, RedisCluster};
use rand::Rng;
use rand::rngs::StdRng;
use serde_json::json;

use super::{
    Site, TIME_LIMIT, inject_cluster_faults, inject_single_redis_faults, run_during,
    wait_for_progress,
};
use crate::Seed;
use crate::http::{CrashClient, CrashResponse};

mod history;

use history::{History, Loss, State, Turn};

const CALLERS: u32 = 6;
/// Only sessions of authenticated identities are durable; the callers of these tests are anonymous.
const AUTHENTICATED: &[(&str, &str)] = &[("FILROUGE_DURABLE", "authenticated")];

#[test]
fn ephemeral_sessions_are_never_answered_wrongly() {
    let seed = Seed::new("ephemeral_sessions_are_never_answered_wrongly");
    let redis = Redis::start();
    let site = Site::new(&redis.socket_url(), AUTHENTICATED);
    assert_correct_responses(&seed, &site, Loss::Reported, |rng, wait_for_load| {
        inject_single_redis_faults(&redis, rng, wait_for_load);
    });
}

#[test]
fn ephemeral_sessions_in_a_cluster_are_never_answered_wrongly() {
    let seed = Seed::new("ephemeral_sessions_in_a_cluster_are_never_answered_wrongly");
    let cluster = RedisCluster::with_replicas();
    let site = Site::new(&cluster.url(), AUTHENTICATED);
    assert_correct_responses(&seed, &site, Loss::NewestTurns, |rng, wait_for_load| {
        inject_cluster_faults(&cluster, rng, wait_for_load);
    });
}

/// Checks during `inject_faults` that no caller gets a wrong response. `loss` is the permitted loss of acknowledged
/// turns.
fn assert_correct_responses(
    seed: &Seed,
    site: &Site,
    loss: Loss,
    inject_faults: impl FnOnce(&mut StdRng, &dyn Fn()),
) {
    let done = AtomicUsize::new(0);
    let workers = (1..=CALLERS).map(|n| {
        let (rng, done) = (seed.rng(n.into()), &done);
        let caller = Caller {
            session: format!("visitor-{n}"),
            clients: [site.client(0), site.client(1)],
            rng,
            recorded: 0,
            history: History::new(loss),
            redacted: BTreeSet::new(),
        };
        Box::new(move |ending: &AtomicBool| caller.run(done, ending)) as Box<_>
    });
    run_during(workers.collect(), || {
        inject_faults(&mut seed.rng(0), &|| wait_for_progress(&done, 60));
    });
}

/// An anonymous caller that sends each request to one of the two servers at random.
struct Caller {
    session: String,
    clients: [CrashClient; 2],
    rng: StdRng,
    /// The number of turns sent so far.
    recorded: u64,
    history: History,
    /// Questions whose turns were redacted.
    redacted: BTreeSet<String>,
}

/// A response other than `hot_unavailable`.
struct AvailableResponse {
    response: CrashResponse,
    /// The server that gave it.
    server: usize,
    /// All servers that received the request. Each of them may have executed it, even if it answered `hot_unavailable`.
    tried: BTreeSet<usize>,
}

impl Caller {
    /// Sends requests until `ending` is set.
    fn run(mut self, done: &AtomicUsize, ending: &AtomicBool) {
        while !ending.load(Ordering::SeqCst) {
            match self.rng.random_range(0..10) {
                0..5 => self.record_turn(),
                5 => self.redact(),
                _ => self.read(),
            }
            done.fetch_add(1, Ordering::SeqCst);
        }
        self.read();
    }

    fn path(&self, rest: &str) -> String {
        format!("/api/v1/sessions/{}{rest}", self.session)
    }

    /// Sends a request to a random server until its response is not `hot_unavailable`.
    fn send(&mut self, request: impl Fn(&CrashClient) -> CrashResponse) -> AvailableResponse {
        let rng = &mut self.rng;
        send_until_available(&self.clients, || rng.random_range(0..2), request)
    }

    /// Records a complete turn.
    fn record_turn(&mut self) {
        self.recorded += 1;
        let (session, n) = (&self.session, self.recorded);
        let question = format!("question {n} of {session}");
        let body = json!({
            "request_id": format!("r{n}"),
            "question_neutral": question,
            "answer_neutral": format!("answer {n}"),
        });
        let path = self.path("/turns");
        let outcome = self.send(|client| post(client, &path, &body));
        let (response, server) = (&outcome.response, outcome.server);
        assert!(response.is_success(), "{}", response.body);
        assert_eq!(response.durability.as_deref(), Some("ephemeral"));
        let number = |name: &str| response.body[name].as_u64().expect("a number");
        let (before, items) = (number("ordinal") - 1, number("first_seq") - 1);
        let id = response.body["turn_id"].as_str().expect("an id").to_owned();
        let turn = Turn { id, question };
        // A first turn creates the session. Any other turn was added to a state with one turn less and, except in a
        // cluster, as many items.
        let mut from = vec![None];
        if before > 0 {
            let fits = |state: &State| {
                let cluster = self.history.loss == Loss::NewestTurns;
                state.turns.len() as u64 == before && (cluster || state.items == items)
            };
            let possible = self.history.possible_states(&outcome.tried);
            from = possible.into_iter().filter(fits).map(Some).collect();
        }
        let add_turn = |from| {
            let change = |state: &mut State| state.add_turn(turn.clone());
            self.history.apply(server, from, change)
        };
        let states: Vec<State> = from.into_iter().filter_map(add_turn).collect();
        self.record_change(server, &states, response);
    }

    /// Redacts a random turn.
    fn redact(&mut self) {
        let turns = self.history.turns();
        if turns.is_empty() {
            return;
        }
        let turn = turns[self.rng.random_range(0..turns.len())].clone();
        let path = self.path(&format!("/turns/{}/redact", turn.id));
        let body = json!({ "reason": "requested" });
        let outcome = self.send(|client| post(client, &path, &body));
        let (response, server) = (&outcome.response, outcome.server);
        match (response.status, response.code()) {
            (200, _) if self.redacted.insert(turn.question.clone()) => {
                let mut possible = self.history.possible_states(&outcome.tried);
                possible.retain(|state| state.contains(&turn));
                let redact = |from| self.history.apply(server, Some(from), State::redact);
                let states: Vec<State> = possible.into_iter().filter_map(redact).collect();
                self.record_change(server, &states, response);
            }
            // The turn was redacted before: nothing changes.
            (200, _) => {
                let mut possible = self.history.possible_states(&BTreeSet::from([server]));
                possible.retain(|state| state.contains(&turn));
                self.record_change(server, &possible, response);
            }
            // The session has a state in which that turn does not exist.
            (404, "turn_not_found") => {
                let mut possible = self.history.possible_states(&BTreeSet::from([server]));
                possible.retain(|state| !state.contains(&turn));
                self.record_change(server, &possible, response);
            }
            (404 | 410, _) => self.record_loss(response),
            _ => panic!("{}", response.body),
        }
    }

    /// Reads the turns. The server must show the acknowledged turns without the redacted ones, or report that the
    /// session is gone.
    fn read(&mut self) {
        let path = self.path("/turns?limit=500");
        let outcome = self.send(|client| get(client, &path));
        let possible = self
            .history
            .possible_states(&BTreeSet::from([outcome.server]));
        self.check_read(&outcome, &possible);
    }

    /// Records that a change by a server led to one of these states. If several are possible, a read from the same
    /// server finds out which one.
    fn record_change(&mut self, server: usize, states: &[State], response: &CrashResponse) {
        let name = &self.session;
        match states {
            [] => panic!(
                "{name}: no known state explains the response of server {server}: {}",
                response.body
            ),
            [state] => self.history.record_state(server, state),
            // Any state may be shown next anyway, so the choice does not matter.
            [state, ..] if self.history.loss == Loss::NewestTurns => {
                self.history.record_state(server, state);
            }
            _ => {
                let path = self.path("/turns?limit=500");
                let outcome =
                    send_until_available(&self.clients, || server, |client| get(client, &path));
                if outcome.response.status != 200 {
                    self.history.record_one_of(states);
                }
                self.check_read(&outcome, states);
            }
        }
    }

    /// Checks that a response with turns shows one of the possible states, and records that state.
    fn check_read(&mut self, outcome: &AvailableResponse, possible: &[State]) {
        let response = &outcome.response;
        match response.status {
            200 => {}
            404 | 410 => return self.record_loss(response),
            _ => panic!("{}", response.body),
        }
        let shown: Vec<String> = response.body["data"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|turn| turn["question_neutral"].as_str().unwrap_or("").to_owned())
            .collect();
        let questions = |state: &State| state.questions(&self.redacted);
        let Some(state) = possible.iter().find(|state| questions(state) == shown) else {
            let (name, server) = (&self.session, outcome.server);
            let last: Vec<_> = self.history.turns().iter().map(|t| &t.question).collect();
            let allowed: Vec<_> = possible.iter().map(questions).collect();
            panic!(
                "{name}: server {server} shows {shown:?}, but may show only {allowed:?}; last shown: {last:?}"
            );
        };
        self.history.record_state(outcome.server, state);
    }

    /// Checks the server's report that the session is gone, and records it.
    fn record_loss(&mut self, response: &CrashResponse) {
        let known = ["session_not_found", "turn_expired"];
        assert!(known.contains(&response.code()), "{}", response.body);
        self.history.record_loss();
    }
}

/// Sends a request to the server that `choose` returns, until the response is not `hot_unavailable`.
fn send_until_available(
    clients: &[CrashClient; 2],
    mut choose: impl FnMut() -> usize,
    request: impl Fn(&CrashClient) -> CrashResponse,
) -> AvailableResponse {
    let (begun, mut tried) = (Instant::now(), BTreeSet::new());
    loop {
        let server = choose();
        tried.insert(server);
        let response = request(&clients[server]);
        if response.status != 503 {
            return AvailableResponse {
                response,
                server,
                tried,
            };
        }
        assert_eq!(response.code(), "hot_unavailable", "{}", response.body);
        assert!(
            begun.elapsed() < TIME_LIMIT,
            "hot_unavailable for {TIME_LIMIT:?}: {}",
            response.body
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn post(client: &CrashClient, path: &str, body: &serde_json::Value) -> CrashResponse {
    let response = client.post(path, body);
    response.unwrap_or_else(|e| panic!("{path}: {}", e.0))
}

fn get(client: &CrashClient, path: &str) -> CrashResponse {
    let response = client.try_get(path);
    response.unwrap_or_else(|e| panic!("{path}: {}", e.0))
}
