//! Streams that are recorded while their server is killed or stopped: everything that was shown or acknowledged is in
//! the ledger, once, and every turn can be continued (promises P1 and P4).

mod check;
mod flushes;
mod no_space;
mod script;
mod sender;
mod servers;
mod watcher;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rand::Rng;
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use self::check::{Played, StreamOutcome, question};
use self::script::Format;
use self::sender::{Ending, Plan, Sent};
use self::watcher::Shown;
use crate::http::CrashClient;
use crate::server::{CrashServer, Home};
use crate::{Seed, number};

const STREAMS: usize = 20;
/// Two concurrent streams per session.
const SESSIONS: usize = STREAMS / 2;
/// How often growing text is drafted (DESIGN §4, "at a bounded interval").
const DRAFT_EVERY: Duration = Duration::from_millis(250);
/// The additional delay on a machine with two busy cores.
const SLACK: Duration = Duration::from_millis(250);
/// A server that starts marks the streams of a killed one at once.
const MARKED_WITHIN: Duration = Duration::from_secs(10);

/// Starts a turn for each of this many streams.
fn plans(client: &CrashClient, name: &str, life: Duration, rng: &mut StdRng) -> Vec<Plan> {
    let plan = |n: usize| {
        let session = format!("{name}-{}", n % SESSIONS);
        let request = format!("{name}.{n}");
        let path = format!("/api/v1/sessions/{session}/turns");
        let turn = client
            .post(&path, &question(&request))
            .unwrap_or_else(|e| panic!("{path}: {}", e.0));
        let words = rng.random_range(3..60);
        let most = if rng.random_bool(0.2) { life } else { life / 4 };
        Plan {
            session,
            request,
            turn: turn.body["turn_id"].as_str().expect("a turn_id").to_owned(),
            format: Format::ALL[n % Format::ALL.len()],
            calls: rng.random_bool(0.5),
            ending: match rng.random_range(0..20) {
                0..10 => Ending::Never,
                10..12 => Ending::Silent(words),
                12..16 => Ending::Finish(words),
                16..18 => Ending::Vanish(words),
                _ => Ending::Cancel(words),
            },
            delay: most.mul_f64(rng.random_range(0.0..1.0)),
            pace: Duration::from_millis(rng.random_range(1..60)),
        }
    };
    (0..STREAMS).map(plan).collect()
}

/// One run of a server.
struct Life {
    played: Vec<Played>,
    shown: Vec<(String, Shown)>,
    killed: Instant,
    /// The slowest write of the other client, up to the kill.
    slowest: Duration,
}

/// Sends all streams while readers follow them, until the server is killed after `life`.
fn until_killed(
    server: &mut CrashServer,
    plans: Vec<Plan>,
    life: Duration,
    rng: &mut StdRng,
) -> Life {
    let origin = server.origin().to_owned();
    let (stop, slowest) = (AtomicBool::new(false), Mutex::new(Duration::ZERO));
    std::thread::scope(|scope| {
        let sessions = (0..SESSIONS).map(|n| plans[n].session.clone());
        let watchers: Vec<_> = sessions
            .map(|session| {
                let origin = &origin;
                scope.spawn(move || {
                    let shown = Shown::run(origin, &session);
                    (session, shown)
                })
            })
            .collect();
        let senders: Vec<_> = plans
            .into_iter()
            .map(|plan| {
                let (origin, stop) = (&origin, &stop);
                let mut rng = StdRng::from_rng(rng);
                scope.spawn(move || {
                    let sent = Sent::run(origin, &plan, stop, &mut rng);
                    Played { plan, sent }
                })
            })
            .collect();
        scope.spawn(|| write_concurrently(&origin, &stop, &slowest));
        std::thread::sleep(life);
        let killed = Instant::now();
        server.kill();
        stop.store(true, Ordering::SeqCst);
        Life {
            played: senders
                .into_iter()
                .map(|s| s.join().expect("a sender"))
                .collect(),
            shown: watchers
                .into_iter()
                .map(|w| w.join().expect("a watcher"))
                .collect(),
            killed,
            slowest: *slowest.lock().expect("the slowest"),
        }
    })
}

/// Writes one turn after the other: the time of a write bounds the time of a draft.
fn write_concurrently(origin: &str, stop: &AtomicBool, slowest: &Mutex<Duration>) {
    let client = CrashClient::new(origin);
    let mut n = 0;
    while !stop.load(Ordering::SeqCst) {
        let mut body = question(&format!("{}.{n}", origin.len()));
        body["answer_neutral"] = json!("Left.");
        let begin = Instant::now();
        let answer = client.post(&format!("/api/v1/sessions/beside-{n}/turns"), &body);
        // The write that the kill interrupted is measured too.
        let mut slowest = slowest.lock().expect("the slowest");
        *slowest = begin.elapsed().max(*slowest);
        if answer.is_err() {
            return;
        }
        n += 1;
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until no turn is open whose stream had started; returns how long that took.
fn until_marked(client: &CrashClient, played: &[Played]) -> Duration {
    let begin = Instant::now();
    for Played { plan, sent } in played {
        while sent.reported() != Some("open") && begin.elapsed() < MARKED_WITHIN {
            let open = client.get(&plan.path())["status"] == "open";
            let path = format!(
                "/api/v1/sessions/{}/turns/{}/finalize",
                plan.session, plan.turn
            );
            // A turn without an answer cannot be finalized, but one that is being recorded is refused earlier, with
            // `stream_open`.
            if !open || refusal(client, &path) != "stream_open" {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    begin.elapsed()
}

fn refusal(client: &CrashClient, path: &str) -> String {
    let reply = client
        .post(path, &json!({}))
        .unwrap_or_else(|e| panic!("{path}: {}", e.0));
    assert!(!reply.is_success(), "{path}: {reply:?}");
    reply.code().to_owned()
}

/// Results of all rounds.
#[derive(Default)]
struct Tally {
    statuses: std::collections::BTreeMap<String, usize>,
    missing: Vec<Duration>,
    words: usize,
    readers_late: Duration,
    slowest_write: Duration,
    marked: Duration,
}

impl Tally {
    fn report(&mut self, kills: u64) {
        self.missing.sort_unstable();
        let at = |part: usize| {
            let at = (self.missing.len() * part / 100).min(self.missing.len().saturating_sub(1));
            self.missing.get(at).copied().unwrap_or_default()
        };
        eprintln!(
            "{kills} kills, {} streams, {} bytes recorded: {:?}\nmissing at the kill: {} streams, since {:?} (median), {:?} (99 %), {:?} (most)\n\
             drafts were seen {:?} late at the most, other writes took {:?}; all turns were marked {:?} after the start at the latest",
            self.statuses.values().sum::<usize>(),
            self.words,
            self.statuses,
            self.missing.len(),
            at(50),
            at(99),
            at(100),
            self.readers_late,
            self.slowest_write,
            self.marked
        );
    }
}

fn check_life(server: &CrashServer, life: &Life, tally: &mut Tally) {
    let client = CrashClient::new(server.origin());
    tally.marked = tally.marked.max(until_marked(&client, &life.played));
    let late = check::lateness(&life.played, life.shown.iter().map(|(_, s)| s));
    tally.readers_late = tally.readers_late.max(late);
    tally.slowest_write = tally.slowest_write.max(life.slowest);
    // A draft starts when the interval is over; it waits for the running commit, then for its own.
    let allowed = DRAFT_EVERY + SLACK + 2 * life.slowest;
    let mut ended = Vec::new();
    for (session, shown) in &life.shown {
        let items: Vec<Value> = check::journal(&client, session);
        check::shown(&items, shown);
        for played in life.played.iter().filter(|p| p.plan.session == *session) {
            let StreamOutcome { status, missing } =
                check::stream(&client, &items, played, life.killed);
            assert!(
                missing.is_none_or(|missing| missing < allowed),
                "missing since {missing:?}, allowed {allowed:?}: {:?}",
                played.plan
            );
            tally.missing.extend(missing);
            tally.words += check::recorded(&items, &played.plan.turn).len();
            *tally.statuses.entry(status.clone()).or_default() += 1;
            ended.push((played, status));
        }
        check::restores(&client, session);
    }
    for (played, status) in ended {
        check::again(server.origin(), &played.plan, &status);
    }
}

#[test]
fn streams_survive_kills() {
    let seed = Seed::of("streams_survive_kills");
    let mut rng = seed.rng(0);
    let kills = number("FILROUGE_CRASH_STREAM_KILLS", 8);
    let (home, mut tally) = (Home::new(), Tally::default());
    let mut server = CrashServer::start(&home);
    for kill in 0..kills {
        let life = Duration::from_millis(rng.random_range(30..1500));
        let client = CrashClient::new(server.origin());
        let plans = plans(&client, &format!("k{kill}"), life, &mut rng);
        let life = until_killed(&mut server, plans, life, &mut rng);
        server = CrashServer::start(&home);
        check_life(&server, &life, &mut tally);
        home.verify();
    }
    tally.report(kills);
    server.stop();
    home.verify();
}
