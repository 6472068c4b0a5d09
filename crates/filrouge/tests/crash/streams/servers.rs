//! Two servers on one store, each with streams of its own, one of which is killed or stopped.

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
use crate::http::Client;
use crate::server::{Home, Server};

/// A server looks every 5 s for streams whose server is gone; the rest is for a slow machine.
const FOUND_WITHIN: Duration = Duration::from_secs(20);
/// Streams of a server that stands still are taken for gone after this.
const TIMEOUT_S: &str = "2";
/// A write takes no longer when nobody holds the store's lock; less than the timeout.
const PROBE_WITHIN: Duration = Duration::from_millis(700);
/// Pieces come no faster: a slow machine has not read yet what comes at full speed, and nobody could record that.
const PACE: Duration = Duration::from_millis(20);
/// No draft is later, whatever the machine.
const LATE: Duration = Duration::from_secs(3);
/// The others fall silent.
const STREAMS_THAT_FLOW: usize = 14;

/// Streams that end only when they are told to, or refused.
fn endless(client: &Client, name: &str, rng: &mut StdRng) -> Vec<Plan> {
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

fn status(client: &Client, plan: &Plan) -> String {
    let turn = client.get(&plan.path());
    turn["status"].as_str().expect("a status").to_owned()
}

fn until_interrupted(client: &Client, plans: &[Plan]) -> Duration {
    let begin = Instant::now();
    while !plans.iter().all(|p| status(client, p) == "interrupted") {
        assert!(begin.elapsed() < FOUND_WITHIN, "turns stay open");
        std::thread::sleep(Duration::from_millis(50));
    }
    begin.elapsed()
}

fn journals(client: &Client, name: &str) -> Vec<Vec<Value>> {
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
    let (mut a, b) = (Server::start(&home), Server::start(&home));
    let (origin_a, origin_b) = (a.origin().to_owned(), b.origin().to_owned());
    let client = Client::new(b.origin());
    let (stop, never) = (AtomicBool::new(false), AtomicBool::new(false));
    let (hers, theirs) = (
        endless(&client, "a", &mut rng),
        plans(&client, "b", Duration::from_millis(200), &mut rng),
    );
    // They go on for seconds, and have an end.
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
                matches!(sent.told(), Some("finalized" | "open")),
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

/// Stops a server where it does not hold the store's lock: then nobody else could write, whoever it is. Gives when it
/// was stopped.
fn stop_between_writes(server: &Server, other: &str) -> Instant {
    for n in 0..40 {
        let at = Instant::now();
        server.signal("STOP");
        let (tell, told) = std::sync::mpsc::channel();
        let origin = other.to_owned();
        let probe = std::thread::spawn(move || {
            let mut body = question(&format!("probe-{n}"));
            body["answer_neutral"] = "Left.".into();
            let answer = Client::new(&origin).post("/api/v1/sessions/probe/turns", &body);
            tell.send(answer.is_ok_and(|reply| reply.is_success()))
        });
        if told.recv_timeout(PROBE_WITHIN) == Ok(true) {
            return at;
        }
        server.signal("CONT");
        let _ = probe.join().expect("a probe");
        // All streams give a sign of life.
        std::thread::sleep(super::DRAFT_EVERY * 2);
    }
    panic!("wherever it is stopped, it holds the store's lock");
}

/// One turn of each four goes on and ends, one goes on, two are left.
fn go_on_with_some(server: &Server, plans: &[Plan]) {
    let client = Client::new(server.origin());
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

/// What the client of a stopped server was told of stream `n`, and what is recorded of it.
fn check_stopped(client: &Client, n: usize, played: &Played, stopped: Instant) {
    let Played { plan, sent } = played;
    let reply = sent.reply.as_ref().expect("an answer");
    match n % 4 {
        1 => assert_eq!(reply.code(), "stream_lost", "{plan:?}: {reply:?}"),
        0 => assert_eq!(sent.told(), Some("finalized"), "{plan:?}"),
        _ => assert_eq!(sent.told(), Some("interrupted"), "{plan:?}"),
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
fn a_server_that_stood_still_does_not_go_on_with_what_was_taken_from_it() {
    let seed = Seed::of("a_server_that_stood_still_does_not_go_on_with_what_was_taken_from_it");
    let mut rng = seed.rng(0);
    let home = Home::new();
    let timeout = [("FILROUGE_STREAM_TIMEOUT_S", TIMEOUT_S)];
    let start = || Server::start_set(&home, &Faults::default(), &timeout);
    let (a, b) = (start(), start());
    let origin = a.origin().to_owned();
    let client = Client::new(b.origin());
    let stop = AtomicBool::new(false);
    let mut plans = endless(&client, "a", &mut rng);
    // Who falls silent is there all the same.
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
        go_on_with_some(&b, &plans);
        let before = journals(&client, "a");
        a.signal("CONT");
        let played = join(senders);
        assert!(before == journals(&client, "a"), "somebody has gone on");
        for (n, played) in played.iter().enumerate() {
            check_stopped(&client, n, played, at);
        }
        eprintln!("{} turns were marked after {took:?}", plans.len());
    });
    a.stop();
    b.stop();
    home.verify();
}
