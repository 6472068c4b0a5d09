//! Two servers with separate homes on one PostgreSQL database that flushes each commit. Whatever happens to a server,
//! to the database or to the connections: no acknowledged write is lost or duplicated, and both servers accept writes
//! again without a restart.

use std::fs;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use filrouge_testbed::{FaultProxy, Loss, Options, Server as Database};
use rand::Rng;
use rand::rngs::StdRng;
use serde_json::json;

use crate::disk::Faults;
use crate::http::CrashClient;
use crate::model;
use crate::server::{CrashServer, Home};
use crate::workload::Writer;
use crate::world::{Clock, StopOnDrop, wait_until};
use crate::{Seed, env_number};

const WRITERS: u32 = 6;
const SESSIONS: usize = 20;
/// The longest time until a server accepts a write.
const WRITABLE_WITHIN: Duration = Duration::from_secs(30);

/// How each transaction of a writer begins.
const BEGIN: &[u8] = b"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";

/// Two homes, as on two machines, and their running servers.
struct Site {
    homes: [Home; 2],
    servers: [Mutex<CrashServer>; 2],
    origins: [Mutex<Arc<str>>; 2],
    /// The number of writes sent by [`Site::accepts_writes`].
    probes: Mutex<u64>,
}

impl Site {
    /// Starts two servers, each with its own URL of the same database.
    fn new(urls: [&str; 2]) -> Self {
        let homes = urls.map(Home::with_store);
        let first = start(&homes[0]);
        let keyring = |home: &Home| home.root().join("config/filrouge/keyring.json");
        let copy = keyring(&homes[1]);
        fs::create_dir_all(copy.parent().expect("a folder")).expect("create the folder");
        fs::copy(keyring(&homes[0]), copy).expect("copy the keyring");
        let second = start(&homes[1]);
        let origins = [&first, &second].map(|server| Mutex::new(server.origin().into()));
        Self {
            homes,
            servers: [first, second].map(Mutex::new),
            origins,
            probes: Mutex::new(0),
        }
    }

    fn client(&self, machine: usize) -> CrashClient {
        CrashClient::new(&self.origins[machine].lock().expect("no thread panicked"))
    }

    /// Kills a server, runs `while_down`, and starts the server again.
    fn kill_and_restart(&self, machine: usize, while_down: impl FnOnce()) {
        let mut server = self.servers[machine].lock().expect("no thread panicked");
        server.kill();
        while_down();
        *server = start(&self.homes[machine]);
        *self.origins[machine].lock().expect("no thread panicked") = server.origin().into();
    }

    /// Freezes a server (SIGSTOP) until `while_frozen` has returned and the other server has accepted a write.
    fn freeze(&self, machine: usize, while_frozen: impl FnOnce()) {
        let server = self.servers[machine].lock().expect("no thread panicked");
        server.signal("STOP");
        while_frozen();
        let written = self.accepts_writes(1 - machine);
        server.signal("CONT");
        assert!(written, "a frozen server blocks the other one");
    }

    /// Returns whether the server accepts a write in time.
    fn accepts_writes(&self, machine: usize) -> bool {
        let begun = Instant::now();
        let number = {
            let mut probes = self.probes.lock().expect("no thread panicked");
            *probes += 1;
            *probes
        };
        let body = json!({ "request_id": format!("probe-{number}"), "question_neutral": "?" });
        while begun.elapsed() < WRITABLE_WITHIN {
            let response = self
                .client(machine)
                .post("/api/v1/sessions/probes/turns", &body);
            if response.is_ok_and(|response| response.is_success()) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        false
    }

    /// Checks that both servers accept writes and read intact data.
    fn assert_healthy(&self) {
        for machine in [0, 1] {
            assert!(
                self.accepts_writes(machine),
                "server {machine} accepts no writes"
            );
            let ready = self.client(machine).get("/readyz");
            assert_eq!(ready["integrity"], json!(null), "{ready}");
        }
    }
}

fn start(home: &Home) -> CrashServer {
    CrashServer::start_with_env(home, &Faults::default(), &[])
}

/// Runs writers on both servers during `inject_faults`, then compares the servers' data with all responses.
fn under_load(seed: &Seed, site: &Site, inject_faults: impl FnOnce(&mut StdRng)) {
    let clock = Clock::default();
    let sessions: Vec<String> = (1..=SESSIONS).map(|n| format!("session-{n}")).collect();
    let mut writers: Vec<Writer> = (1..=WRITERS)
        .map(|n| Writer::new(format!("writer-{n}"), seed.rng(n.into())))
        .collect();
    let ending = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (n, writer) in writers.iter_mut().enumerate() {
            writer.switch_to(&sessions);
            let (clock, ending, requests) = (&clock, &ending, Mutex::new(n));
            scope.spawn(move || {
                // The writer alternates between the servers: a request that one does not answer is sent to the other.
                let next_server = || {
                    let mut requests = requests.lock().expect("no thread panicked");
                    *requests += 1;
                    site.client(*requests % 2)
                };
                writer.write_anywhere(&next_server, clock, ending);
            });
        }
        let stop = StopOnDrop(&ending);
        inject_faults(&mut seed.rng(0));
        site.assert_healthy();
        drop(stop);
    });
    let acked = writers
        .iter()
        .flat_map(|w| w.ops())
        .filter(|op| op.acked().is_some())
        .count();
    eprintln!("{acked} acknowledged writes");
    assert!(acked > 50, "too little load: only {acked} writes");
    for machine in [0, 1] {
        let ops = writers.iter().flat_map(|w| w.ops());
        model::check(&site.client(machine), ops);
        site.homes[machine].verify();
    }
}

/// Starts a PostgreSQL server that flushes each commit; returns it and the name of an empty database.
fn durable_database() -> (Database, String) {
    let database = Database::start(Options {
        durable: true,
        ..Options::default()
    });
    let name = database.database();
    (database, name)
}

fn rounds() -> u64 {
    env_number("FILROUGE_CRASH_POSTGRES_ROUNDS", 4)
}

#[test]
fn servers_on_postgres_are_killed_and_frozen() {
    let seed = Seed::new("servers_on_postgres_are_killed_and_frozen");
    let (database, name) = durable_database();
    let url = database.url(&name);
    let site = Site::new([&url; 2]);
    under_load(&seed, &site, |rng| {
        for _ in 0..rounds() {
            std::thread::sleep(Duration::from_millis(rng.random_range(100..600)));
            site.kill_and_restart(rng.random_range(0..2), || {});
            std::thread::sleep(Duration::from_millis(rng.random_range(100..600)));
            site.freeze(rng.random_range(0..2), || {});
        }
    });
}

/// Holds the connections of server 0 at a random statement of a transaction that has locked lanes. Returns the process
/// of PostgreSQL that runs the transaction.
fn hold_with_lanes(
    database: &Database,
    name: &str,
    proxy: &FaultProxy,
    rng: &mut StdRng,
) -> String {
    // Only the server behind the proxy uses TCP.
    let holder =
        "SELECT a.pid FROM filrouge.lane l JOIN pg_stat_activity a ON a.backend_xid = l.xmax
        WHERE a.datname = current_database() AND a.client_addr IS NOT NULL";
    for _ in 0..200 {
        proxy.hold_after(BEGIN, rng.random_range(1..=12));
        wait_until("server 0 writes", || proxy.is_held());
        if let Some([Some(pid), ..]) = database.sql(name, holder).first().map(Vec::as_slice) {
            return pid.clone();
        }
        // The transaction has found no lane free, or it is committed, or it belongs to the search index.
        proxy.release();
    }
    panic!("server 0 was never held while it had locked lanes");
}

#[test]
fn a_server_on_postgres_is_killed_and_frozen_while_it_holds_lanes() {
    let seed = Seed::new("a_server_on_postgres_is_killed_and_frozen_while_it_holds_lanes");
    let (database, name) = durable_database();
    let proxy = FaultProxy::before(database.tcp());
    let site = Site::new([&proxy.url(&name), &database.url(&name)]);
    under_load(&seed, &site, |rng| {
        for round in 0..rounds() {
            let holder = hold_with_lanes(&database, &name, &proxy, rng);
            if round % 2 == 0 {
                site.kill_and_restart(0, || {
                    // The operating system closes the connections of a killed process; the proxy does not notice that.
                    proxy.cut();
                    proxy.release();
                    assert!(
                        site.accepts_writes(1),
                        "a killed server blocks the other one"
                    );
                });
            } else {
                site.freeze(0, || {
                    let holds = format!(
                        "SELECT pid FROM pg_stat_activity WHERE pid = {holder} AND backend_xid IS NOT NULL"
                    );
                    wait_until("the lanes are free", || database.sql(&name, &holds).is_empty());
                    proxy.release();
                });
            }
        }
    });
}

#[test]
fn servers_survive_restarts_of_postgres_under_load() {
    let seed = Seed::new("servers_survive_restarts_of_postgres_under_load");
    let (database, name) = durable_database();
    let url = database.url(&name);
    let site = Site::new([&url; 2]);
    let terminate_all = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = '{name}' AND pid <> pg_backend_pid()"
    );
    under_load(&seed, &site, |rng| {
        for _ in 0..rounds().div_ceil(2) {
            std::thread::sleep(Duration::from_millis(rng.random_range(100..800)));
            database.stop_immediate();
            std::thread::sleep(Duration::from_millis(rng.random_range(0..500)));
            database.restart();
            site.assert_healthy();
            let mut ended = 0;
            for _ in 0..5 {
                std::thread::sleep(Duration::from_millis(rng.random_range(0..300)));
                // There are none if the servers have not reconnected since the last round.
                ended += database.sql("postgres", &terminate_all).len();
            }
            assert!(
                ended > 0,
                "the servers had no connection that could be ended"
            );
            site.assert_healthy();
        }
        database.pause();
        std::thread::sleep(Duration::from_secs(2));
        database.resume();
    });
}

#[test]
fn connections_to_postgres_are_lost_after_commits() {
    let seed = Seed::new("connections_to_postgres_are_lost_after_commits");
    let (database, name) = durable_database();
    let proxy = FaultProxy::before(database.tcp());
    let url = proxy.url(&name);
    let site = Site::new([&url; 2]);
    under_load(&seed, &site, |rng| {
        for _ in 0..rounds() {
            for loss in [Loss::Request, Loss::Connection, Loss::Answer] {
                let cuts = proxy.cuts();
                proxy.cut_after(b"COMMIT\0", loss);
                proxy.wait_for_cuts(cuts + 1);
                std::thread::sleep(Duration::from_millis(rng.random_range(0..200)));
            }
            proxy.cut();
            site.assert_healthy();
        }
        proxy.hold();
        std::thread::sleep(Duration::from_secs(2));
        proxy.release();
    });
}
