//! Two servers on one store, each with streams of its own; one of them is killed or stopped (SIGSTOP).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::Value;

use super::check::{self, SentStream, ledger_items, question, recorded};
use super::sender::{Ending, Plan, Sent};
use super::{SESSIONS, plans};
use crate::Seed;
use crate::disk::Faults;
use crate::http::CrashClient;
use crate::server::{CrashServer, Home};

/// The longest time until a server interrupts the turns of another one. It checks every 5 s; the rest is for a slow
/// machine.
const INTERRUPTED_WITHIN: Duration = Duration::from_secs(20);
/// The time after which streams of a stopped server count as abandoned, in seconds.
const TIMEOUT_S: &str = "2";
/// The longest time of a write while the store's lock is free; less than [`TIMEOUT_S`].
const PROBE_WITHIN: Duration = Duration::from_millis(700);
/// The least value of [`Plan::pace`]: at full speed, a slow machine could not record the pieces in time.
const PACE: Duration = Duration::from_millis(20);
/// The longest delay of a draft on any machine.
const MAX_DRAFT_DELAY: Duration = Duration::from_secs(3);
/// The number of streams that continue; the others send nothing more after some words.
const ACTIVE_STREAMS: usize = 14;

/// Plans streams that end only when the test stops them or the server refuses them.
fn endless_plans(client: &CrashClient, name: &str, rng: &mut StdRng) -> Vec<Plan> {
    let mut plans = plans(client, name, Duration::from_millis(200), rng);
    for plan in &mut plans {
        plan.ending = Ending::Never;
        plan.pace = plan.pace.max(PACE);
    }
    plans
}

/// Sends each stream on its own thread.
fn spawn_senders<'s, 'e: 's>(
    scope: &'s std::thread::Scope<'s, 'e>,
    origin: &'e str,
    plans: Vec<Plan>,
    stop: &'e AtomicBool,
    rng: &mut StdRng,
) -> Vec<std::thread::ScopedJoinHandle<'s, SentStream>> {
    let spawn = |plan: Plan| {
        let mut rng = StdRng::from_rng(rng);
        scope.spawn(move || {
            let sent = Sent::run(origin, &plan, stop, &mut rng);
            SentStream { plan, sent }
        })
    };
    plans.into_iter().map(spawn).collect()
}

fn status(client: &CrashClient, plan: &Plan) -> String {
    let turn = client.get(&plan.path());
    turn["status"].as_str().expect("a status").to_owned()
}

/// Waits until all turns are interrupted; returns how long that took.
fn wait_until_interrupted(client: &CrashClient, plans: &[Plan]) -> Duration {
    let begin = Instant::now();
    while !plans.iter().all(|p| status(client, p) == "interrupted") {
        assert!(
            begin.elapsed() < INTERRUPTED_WITHIN,
            "turns are still open after {INTERRUPTED_WITHIN:?}"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    begin.elapsed()
}

/// Reads the items of all sessions of the plans of this name.
fn ledger_of_sessions(client: &CrashClient, name: &str) -> Vec<Vec<Value>> {
    let sessions = (0..SESSIONS).map(|n| format!("{name}-{n}"));
    sessions
        .map(|session| ledger_items(client, &session))
        .collect()
}

fn join_senders(threads: Vec<std::thread::ScopedJoinHandle<'_, SentStream>>) -> Vec<SentStream> {
    let threads = threads.into_iter();
    threads
        .map(|t| t.join().expect("the sender did not panic"))
        .collect()
}

#[test]
fn the_other_server_ends_the_streams_of_one_that_was_killed() {
    let seed = Seed::new("the_other_server_ends_the_streams_of_one_that_was_killed");
    let mut rng = seed.rng(0);
    let home = Home::new();
    let (mut a, b) = (CrashServer::start(&home), CrashServer::start(&home));
    let (origin_a, origin_b) = (a.origin().to_owned(), b.origin().to_owned());
    let client = CrashClient::new(b.origin());
    let (stop, never) = (AtomicBool::new(false), AtomicBool::new(false));
    let (killed_plans, mut kept_plans) = (
        endless_plans(&client, "a", &mut rng),
        plans(&client, "b", Duration::from_millis(200), &mut rng),
    );
    // The streams of the other server take some seconds, and end.
    for (n, plan) in kept_plans.iter_mut().enumerate() {
        plan.ending = Ending::Finish(40 + 8 * n);
        plan.pace = Duration::from_millis(60);
    }
    std::thread::scope(|scope| {
        let killed = spawn_senders(scope, &origin_a, killed_plans.clone(), &stop, &mut rng);
        let kept = spawn_senders(scope, &origin_b, kept_plans, &never, &mut rng);
        std::thread::sleep(Duration::from_secs(1));
        let at = Instant::now();
        a.kill();
        let took = wait_until_interrupted(&client, &killed_plans);
        stop.store(true, Ordering::SeqCst);
        let killed = join_senders(killed);
        for stream in &killed {
            let items = ledger_items(&client, &stream.plan.session);
            check::check_stream(&client, &items, stream, at);
            check::assert_restorable(&client, &stream.plan.session);
        }
        for stream in &killed {
            check::continue_turn(b.origin(), &stream.plan, "interrupted");
        }
        for SentStream { plan, sent } in join_senders(kept) {
            assert!(
                matches!(sent.answered_status(), Some("finalized" | "open")),
                "{plan:?}: {:?}",
                sent.response
            );
            let items = ledger_items(&client, &plan.session);
            assert_eq!(recorded(&items, &plan.turn), sent.text, "{plan:?}");
        }
        eprintln!("{} turns were marked after {took:?}", killed_plans.len());
    });
    b.stop();
    home.verify();
}

/// Stops a server (SIGSTOP) while it does not hold the store's lock, so that the other server can write. Returns when
/// it was stopped.
fn stop_between_writes(server: &CrashServer, other: &str) -> Instant {
    for n in 0..40 {
        let at = Instant::now();
        server.signal("STOP");
        let (sender, written) = std::sync::mpsc::channel();
        let origin = other.to_owned();
        let probe = std::thread::spawn(move || {
            let mut body = question(&format!("probe-{n}"));
            body["answer_neutral"] = "Left.".into();
            let result = CrashClient::new(&origin).post("/api/v1/sessions/probe/turns", &body);
            sender.send(result.is_ok_and(|response| response.is_success()))
        });
        if written.recv_timeout(PROBE_WITHIN) == Ok(true) {
            return at;
        }
        server.signal("CONT");
        let _ = probe.join().expect("a probe");
        // Gives all streams time for a heartbeat.
        std::thread::sleep(super::DRAFT_EVERY * 2);
    }
    panic!("the server held the store's lock at every attempt");
}

/// Of every four turns, continues and finalizes one, reopens one, and leaves two interrupted.
fn continue_some(server: &CrashServer, plans: &[Plan]) {
    let client = CrashClient::new(server.origin());
    for (n, plan) in plans.iter().enumerate() {
        match n % 4 {
            0 => check::continue_turn(server.origin(), plan, "interrupted"),
            1 => {
                let path = format!("/api/v1/sessions/{}/turns", plan.session);
                let response = client
                    .post(&path, &question(&plan.request))
                    .unwrap_or_else(|e| panic!("{path}: {}", e.0));
                assert_eq!(response.body["status"], "open", "{response:?}");
            }
            _ => {}
        }
    }
}

/// Checks the response that stream `n` received from the stopped server after [`continue_some`], and what is recorded.
fn check_stopped(client: &CrashClient, n: usize, stream: &SentStream, stopped: Instant) {
    let SentStream { plan, sent } = stream;
    let response = sent.response.as_ref().expect("the server responds");
    match n % 4 {
        1 => assert_eq!(response.code(), "stream_lost", "{plan:?}: {response:?}"),
        0 => assert_eq!(sent.answered_status(), Some("finalized"), "{plan:?}"),
        _ => assert_eq!(sent.answered_status(), Some("interrupted"), "{plan:?}"),
    }
    let items = ledger_items(client, &plan.session);
    let interruption = items
        .iter()
        .position(|i| i["turn_id"] == *plan.turn && i["channel"] == "interrupted")
        .expect("an item that interrupts the turn");
    let text = recorded(&items[..interruption], &plan.turn);
    assert!(sent.text.starts_with(&text), "{plan:?}: {text:?}");
    let missing = sent.marks.iter().find(|m| m.end > text.len() && m.shown);
    let missing = missing.map(|m| stopped.saturating_duration_since(m.at));
    assert!(missing < Some(MAX_DRAFT_DELAY), "{plan:?}: {missing:?}");
    check::assert_restorable(client, &plan.session);
}

#[test]
fn a_stopped_server_does_not_continue_streams_that_were_ended() {
    let seed = Seed::new("a_stopped_server_does_not_continue_streams_that_were_ended");
    let mut rng = seed.rng(0);
    let home = Home::new();
    let timeout = [("FILROUGE_STREAM_TIMEOUT_S", TIMEOUT_S)];
    let start = || CrashServer::start_with_env(&home, &Faults::default(), &timeout);
    let (a, b) = (start(), start());
    let origin = a.origin().to_owned();
    let client = CrashClient::new(b.origin());
    let stop = AtomicBool::new(false);
    let mut plans = endless_plans(&client, "a", &mut rng);
    // A silent stream is not abandoned.
    for plan in plans.iter_mut().skip(ACTIVE_STREAMS) {
        plan.ending = Ending::Silent(5);
    }
    std::thread::scope(|scope| {
        let senders = spawn_senders(scope, &origin, plans.clone(), &stop, &mut rng);
        std::thread::sleep(Duration::from_secs(6));
        for plan in &plans {
            assert_eq!(status(&client, plan), "open", "{plan:?}");
        }
        let at = stop_between_writes(&a, b.origin());
        let took = wait_until_interrupted(&client, &plans);
        continue_some(&b, &plans);
        let before = ledger_of_sessions(&client, "a");
        a.signal("CONT");
        let streams = join_senders(senders);
        assert!(
            before == ledger_of_sessions(&client, "a"),
            "the stopped server continued a recording"
        );
        for (n, stream) in streams.iter().enumerate() {
            check_stopped(&client, n, stream, at);
        }
        eprintln!("{} turns were marked after {took:?}", plans.len());
    });
    a.stop();
    b.stop();
    home.verify();
}
