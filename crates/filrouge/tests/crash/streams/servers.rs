//! Two servers on one store, each with its own streams; one of them is killed or stopped.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::Value;

use super::check::{self, Played, journal, question, recorded};
use super::sender::{Ending, Plan, Sent};
use super::{SESSIONS, plans};
use crate::Seed;
use crate::disk::Faults;
use crate::http::CrashClient;
use crate::server::{CrashServer, Home};

/// A server checks every 5 s for streams of servers that are gone; the rest is for a slow machine.
const FOUND_WITHIN: Duration = Duration::from_secs(20);
/// Streams of a stopped server count as abandoned after this time.
const TIMEOUT_S: &str = "2";
/// The longest time of a write when the store's lock is free; less than the timeout.
const PROBE_WITHIN: Duration = Duration::from_millis(700);
/// The time between pieces: on a slow machine a server could not read and record them at full speed.
const PACE: Duration = Duration::from_millis(20);
/// The longest delay of a draft on any machine.
const LATE: Duration = Duration::from_secs(3);
/// The number of streams that continue; the others fall silent.
const STREAMS_THAT_FLOW: usize = 14;

/// Streams that end only on command, or when they are refused.
fn endless(client: &CrashClient, name: &str, rng: &mut StdRng) -> Vec<Plan> {
    let mut plans = plans(client, name, Duration::from_millis(200), rng);
    for plan in &mut plans {
        plan.ending = Ending::Never;
        plan.pace = plan.pace.max(PACE);
    }
    plans
}

fn send<'s, 'e: 's>(
    scope: &'s std::thread::Scope<'s, 'e>,
    origin: &'e str,
    plans: Vec<Plan>,
    stop: &'e AtomicBool,
    rng: &mut StdRng,
) -> Vec<std::thread::ScopedJoinHandle<'s, Played>> {
    let send = |plan: Plan| {
        let mut rng = StdRng::from_rng(rng);
        scope.spawn(move || {
            let sent = Sent::run(origin, &plan, stop, &mut rng);
            Played { plan, sent }
        })
    };
    plans.into_iter().map(send).collect()
}

fn status(client: &CrashClient, plan: &Plan) -> String {
    let turn = client.get(&plan.path());
    turn["status"].as_str().expect("a status").to_owned()
}

fn until_interrupted(client: &CrashClient, plans: &[Plan]) -> Duration {
    let begin = Instant::now();
    while !plans.iter().all(|p| status(client, p) == "interrupted") {
        assert!(begin.elapsed() < FOUND_WITHIN, "turns stay open");
        std::thread::sleep(Duration::from_millis(50));
    }
    begin.elapsed()
}

fn journals(client: &CrashClient, name: &str) -> Vec<Vec<Value>> {
    let sessions = (0..SESSIONS).map(|n| format!("{name}-{n}"));
    sessions.map(|session| journal(client, &session)).collect()
}

fn join(threads: Vec<std::thread::ScopedJoinHandle<'_, Played>>) -> Vec<Played> {
    let threads = threads.into_iter();
    threads.map(|t| t.join().expect("a sender")).collect()
}

#[test]
fn the_other_server_ends_the_streams_of_one_that_was_killed() {
    let seed = Seed::of("the_other_server_ends_the_streams_of_one_that_was_killed");
    let mut rng = seed.rng(0);
    let home = Home::new();
    let (mut a, b) = (CrashServer::start(&home), CrashServer::start(&home));
    let (origin_a, origin_b) = (a.origin().to_owned(), b.origin().to_owned());
    let client = CrashClient::new(b.origin());
    let (stop, never) = (AtomicBool::new(false), AtomicBool::new(false));
    let (hers, theirs) = (
        endless(&client, "a", &mut rng),
        plans(&client, "b", Duration::from_millis(200), &mut rng),
    );
    // These streams take some seconds, and end.
    let mut theirs = theirs;
    for (n, plan) in theirs.iter_mut().enumerate() {
        plan.ending = Ending::Finish(40 + 8 * n);
        plan.pace = Duration::from_millis(60);
    }
    std::thread::scope(|scope| {
        let killed = send(scope, &origin_a, hers.clone(), &stop, &mut rng);
        let kept = send(scope, &origin_b, theirs, &never, &mut rng);
        std::thread::sleep(Duration::from_secs(1));
        let at = Instant::now();
        a.kill();
        let took = until_interrupted(&client, &hers);
        stop.store(true, Ordering::SeqCst);
        let killed = join(killed);
        for played in &killed {
            let items = journal(&client, &played.plan.session);
            check::stream(&client, &items, played, at);
            check::restores(&client, &played.plan.session);
        }
        for played in &killed {
            check::again(b.origin(), &played.plan, "interrupted");
        }
        for Played { plan, sent } in join(kept) {
            assert!(
                matches!(sent.reported(), Some("finalized" | "open")),
                "{plan:?}: {:?}",
                sent.reply
            );
            let items = journal(&client, &plan.session);
            assert_eq!(recorded(&items, &plan.turn), sent.text, "{plan:?}");
        }
        eprintln!("{} turns were marked after {took:?}", hers.len());
    });
    b.stop();
    home.verify();
}

/// Stops a server at a moment when it does not hold the store's lock, so that the other server can write. Returns when
/// it was stopped.
fn stop_between_writes(server: &CrashServer, other: &str) -> Instant {
    for n in 0..40 {
        let at = Instant::now();
        server.signal("STOP");
        let (notify, reported) = std::sync::mpsc::channel();
        let origin = other.to_owned();
        let probe = std::thread::spawn(move || {
            let mut body = question(&format!("probe-{n}"));
            body["answer_neutral"] = "Left.".into();
            let answer = CrashClient::new(&origin).post("/api/v1/sessions/probe/turns", &body);
            notify.send(answer.is_ok_and(|reply| reply.is_success()))
        });
        if reported.recv_timeout(PROBE_WITHIN) == Ok(true) {
            return at;
        }
        server.signal("CONT");
        let _ = probe.join().expect("a probe");
        // Within this time all streams send a heartbeat.
        std::thread::sleep(super::DRAFT_EVERY * 2);
    }
    panic!("the server held the store's lock at every stop");
}

/// Of every four turns, one is continued and ended, one is continued, and two are left.
fn continue_some(server: &CrashServer, plans: &[Plan]) {
    let client = CrashClient::new(server.origin());
    for (n, plan) in plans.iter().enumerate() {
        match n % 4 {
            0 => check::again(server.origin(), plan, "interrupted"),
            1 => {
                let path = format!("/api/v1/sessions/{}/turns", plan.session);
                let reply = client
                    .post(&path, &question(&plan.request))
                    .unwrap_or_else(|e| panic!("{path}: {}", e.0));
                assert_eq!(reply.body["status"], "open", "{reply:?}");
            }
            _ => {}
        }
    }
}

/// Checks the answer that the client of a stopped server received for stream `n`, and the record of the stream.
fn check_stopped(client: &CrashClient, n: usize, played: &Played, stopped: Instant) {
    let Played { plan, sent } = played;
    let reply = sent.reply.as_ref().expect("an answer");
    match n % 4 {
        1 => assert_eq!(reply.code(), "stream_lost", "{plan:?}: {reply:?}"),
        0 => assert_eq!(sent.reported(), Some("finalized"), "{plan:?}"),
        _ => assert_eq!(sent.reported(), Some("interrupted"), "{plan:?}"),
    }
    let items = journal(client, &plan.session);
    let first = items
        .iter()
        .position(|i| i["turn_id"] == *plan.turn && i["channel"] == "interrupted")
        .expect("the turn was interrupted");
    let text = recorded(&items[..first], &plan.turn);
    assert!(sent.text.starts_with(&text), "{plan:?}: {text:?}");
    let missing = sent.marks.iter().find(|m| m.end > text.len() && m.shown);
    let missing = missing.map(|m| stopped.saturating_duration_since(m.at));
    assert!(missing < Some(LATE), "{plan:?}: {missing:?}");
    check::restores(client, &plan.session);
}

#[test]
fn a_stopped_server_does_not_continue_streams_that_were_ended() {
    let seed = Seed::of("a_stopped_server_does_not_continue_streams_that_were_ended");
    let mut rng = seed.rng(0);
    let home = Home::new();
    let timeout = [("FILROUGE_STREAM_TIMEOUT_S", TIMEOUT_S)];
    let start = || CrashServer::start_set(&home, &Faults::default(), &timeout);
    let (a, b) = (start(), start());
    let origin = a.origin().to_owned();
    let client = CrashClient::new(b.origin());
    let stop = AtomicBool::new(false);
    let mut plans = endless(&client, "a", &mut rng);
    // A silent stream is still alive.
    for plan in plans.iter_mut().skip(STREAMS_THAT_FLOW) {
        plan.ending = Ending::Silent(5);
    }
    std::thread::scope(|scope| {
        let senders = send(scope, &origin, plans.clone(), &stop, &mut rng);
        std::thread::sleep(Duration::from_secs(6));
        for plan in &plans {
            assert_eq!(status(&client, plan), "open", "{plan:?}");
        }
        let at = stop_between_writes(&a, b.origin());
        let took = until_interrupted(&client, &plans);
        continue_some(&b, &plans);
        let before = journals(&client, "a");
        a.signal("CONT");
        let played = join(senders);
        assert!(
            before == journals(&client, "a"),
            "a stopped recording continued"
        );
        for (n, played) in played.iter().enumerate() {
            check_stopped(&client, n, played, at);
        }
        eprintln!("{} turns were marked after {took:?}", plans.len());
    });
    a.stop();
    b.stop();
    home.verify();
}
