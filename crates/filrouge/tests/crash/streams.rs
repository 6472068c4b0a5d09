//! Streams whose server is killed or stopped while it records them. Everything that was shown or acknowledged is in the
//! ledger, once, and every turn can be continued (promises P1 and P4).

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

use self::check::{SentStream, StreamOutcome, question};
use self::script::Format;
use self::sender::{Ending, Plan, Sent};
use self::watcher::Shown;
use crate::http::CrashClient;
use crate::server::{CrashServer, Home};
use crate::{Seed, env_number};

const STREAMS: usize = 20;
/// The number of sessions; each has two concurrent streams.
const SESSIONS: usize = STREAMS / 2;
/// The interval at which the server writes drafts (DESIGN §4, "at a bounded interval").
const DRAFT_EVERY: Duration = Duration::from_millis(250);
/// The additional delay of a draft on a machine with two busy cores.
const SLACK: Duration = Duration::from_millis(250);
/// The longest time until a restarted server marks the turns of its predecessor as interrupted.
const MARKED_WITHIN: Duration = Duration::from_secs(10);

/// Plans streams for a run of this duration, and starts a turn for each.
fn plans(client: &CrashClient, name: &str, duration: Duration, rng: &mut StdRng) -> Vec<Plan> {
    let plan = |n: usize| {
        let session = format!("{name}-{}", n % SESSIONS);
        let request = format!("{name}.{n}");
        let path = format!("/api/v1/sessions/{session}/turns");
        let turn = client
            .post(&path, &question(&request))
            .unwrap_or_else(|e| panic!("{path}: {}", e.0));
        let words = rng.random_range(3..60);
        let max_delay = if rng.random_bool(0.2) {
            duration
        } else {
            duration / 4
        };
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
                16..18 => Ending::Disconnect(words),
                _ => Ending::Cancel(words),
            },
            delay: max_delay.mul_f64(rng.random_range(0.0..1.0)),
            pace: Duration::from_millis(rng.random_range(1..60)),
        }
    };
    (0..STREAMS).map(plan).collect()
}

/// One run of a server, which ended with a kill.
struct Run {
    streams: Vec<SentStream>,
    /// What a reader of each session received.
    shown: Vec<(String, Shown)>,
    killed: Instant,
    /// The slowest write of a client that writes turns meanwhile.
    slowest_write: Duration,
}

/// Sends all streams while readers follow the sessions, until the server is killed after `duration`.
fn run_until_killed(
    server: &mut CrashServer,
    plans: Vec<Plan>,
    duration: Duration,
    rng: &mut StdRng,
) -> Run {
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
                    SentStream { plan, sent }
                })
            })
            .collect();
        scope.spawn(|| write_turns(&origin, &stop, &slowest));
        std::thread::sleep(duration);
        let killed = Instant::now();
        server.kill();
        stop.store(true, Ordering::SeqCst);
        Run {
            streams: senders
                .into_iter()
                .map(|s| s.join().expect("the sender did not panic"))
                .collect(),
            shown: watchers
                .into_iter()
                .map(|w| w.join().expect("the watcher did not panic"))
                .collect(),
            killed,
            slowest_write: *slowest.lock().expect("no thread panicked"),
        }
    })
}

/// Writes one turn after the other and measures the slowest write: a draft may take as long.
fn write_turns(origin: &str, stop: &AtomicBool, slowest: &Mutex<Duration>) {
    let client = CrashClient::new(origin);
    let mut n = 0;
    while !stop.load(Ordering::SeqCst) {
        let mut body = question(&format!("{}.{n}", origin.len()));
        body["answer_neutral"] = json!("Left.");
        let begin = Instant::now();
        let result = client.post(&format!("/api/v1/sessions/other-{n}/turns"), &body);
        // The write that the kill interrupts is measured too.
        let mut slowest = slowest.lock().expect("no thread panicked");
        *slowest = begin.elapsed().max(*slowest);
        if result.is_err() {
            return;
        }
        n += 1;
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until the server has marked the turns of all interrupted streams; returns how long that took.
fn wait_until_marked(client: &CrashClient, streams: &[SentStream]) -> Duration {
    let begin = Instant::now();
    for SentStream { plan, sent } in streams {
        while sent.answered_status() != Some("open") && begin.elapsed() < MARKED_WITHIN {
            let open = client.get(&plan.path())["status"] == "open";
            let path = format!(
                "/api/v1/sessions/{}/turns/{}/finalize",
                plan.session, plan.turn
            );
            // A turn without an answer cannot be finalized. While the server considers the stream open, it refuses with
            // `stream_open`.
            if !open || finalize_refusal(client, &path) != "stream_open" {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    begin.elapsed()
}

/// Returns the code of the error with which a turn without an answer is not finalized.
fn finalize_refusal(client: &CrashClient, path: &str) -> String {
    let response = client
        .post(path, &json!({}))
        .unwrap_or_else(|e| panic!("{path}: {}", e.0));
    assert!(!response.is_success(), "{path}: {response:?}");
    response.code().to_owned()
}

/// The results of all runs.
#[derive(Default)]
struct Totals {
    /// The number of turns by status.
    statuses: std::collections::BTreeMap<String, usize>,
    /// For each stream with missing text, how long before the kill the first missing text was sent.
    missing: Vec<Duration>,
    /// The number of bytes recorded.
    bytes: usize,
    longest_draft_delay: Duration,
    slowest_write: Duration,
    /// The longest time from a start until all turns were marked.
    marked_after: Duration,
}

impl Totals {
    fn report(&mut self, kills: u64) {
        self.missing.sort_unstable();
        let percentile = |percent: usize| {
            let last = self.missing.len().saturating_sub(1);
            let index = (self.missing.len() * percent / 100).min(last);
            self.missing.get(index).copied().unwrap_or_default()
        };
        eprintln!(
            "{kills} kills, {} streams, {} bytes recorded; statuses: {:?}\n\
             {} streams lack text that was sent before the kill: {:?} before (median), {:?} (99 %), {:?} (max)\n\
             longest delay of a draft: {:?}; slowest other write: {:?}; longest time until turns were marked: {:?}",
            self.statuses.values().sum::<usize>(),
            self.bytes,
            self.statuses,
            self.missing.len(),
            percentile(50),
            percentile(99),
            percentile(100),
            self.longest_draft_delay,
            self.slowest_write,
            self.marked_after
        );
    }
}

/// Checks the streams of a run on the restarted server.
fn check_run(server: &CrashServer, run: &Run, totals: &mut Totals) {
    let client = CrashClient::new(server.origin());
    totals.marked_after = totals
        .marked_after
        .max(wait_until_marked(&client, &run.streams));
    let delay = check::longest_draft_delay(&run.streams, run.shown.iter().map(|(_, s)| s));
    totals.longest_draft_delay = totals.longest_draft_delay.max(delay);
    totals.slowest_write = totals.slowest_write.max(run.slowest_write);
    // A draft starts when the interval is over. It waits for the running commit, then for its own.
    let allowed = DRAFT_EVERY + SLACK + 2 * run.slowest_write;
    let mut ended = Vec::new();
    for (session, shown) in &run.shown {
        let items: Vec<Value> = check::ledger_items(&client, session);
        check::assert_shown_kept(&items, shown);
        for stream in run.streams.iter().filter(|s| s.plan.session == *session) {
            let StreamOutcome { status, missing } =
                check::check_stream(&client, &items, stream, run.killed);
            assert!(
                missing.is_none_or(|missing| missing < allowed),
                "text sent {missing:?} before the kill is missing, {allowed:?} is allowed: {:?}",
                stream.plan
            );
            totals.missing.extend(missing);
            totals.bytes += check::recorded(&items, &stream.plan.turn).len();
            *totals.statuses.entry(status.clone()).or_default() += 1;
            ended.push((stream, status));
        }
        check::assert_restorable(&client, session);
    }
    for (stream, status) in ended {
        check::continue_turn(server.origin(), &stream.plan, &status);
    }
}

#[test]
fn streams_survive_kills() {
    let seed = Seed::new("streams_survive_kills");
    let mut rng = seed.rng(0);
    let kills = env_number("FILROUGE_CRASH_STREAM_KILLS", 8);
    let (home, mut totals) = (Home::new(), Totals::default());
    let mut server = CrashServer::start(&home);
    for kill in 0..kills {
        let duration = Duration::from_millis(rng.random_range(30..1500));
        let client = CrashClient::new(server.origin());
        let plans = plans(&client, &format!("k{kill}"), duration, &mut rng);
        let run = run_until_killed(&mut server, plans, duration, &mut rng);
        server = CrashServer::start(&home);
        check_run(&server, &run, &mut totals);
        home.verify();
    }
    totals.report(kills);
    server.stop();
    home.verify();
}
