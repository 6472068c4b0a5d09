//! Eight servers on one SQLite file: one is killed and another is frozen (SIGSTOP) while all of them write. Nothing that
//! was acknowledged is lost or duplicated, and the others go on.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rand::Rng;
use rusqlite::Connection;
use serde_json::json;

use crate::Seed;
use crate::disk::Faults;
use crate::http::CrashClient;
use crate::model;
use crate::server::{CrashServer, Home};
use crate::workload::Writer;
use crate::world::{Clock, StopOnDrop, wait_until};

const SERVERS: usize = 8;
const SESSIONS: usize = 20;
/// The index of the server that is killed.
const KILLED: usize = SERVERS - 1;
/// The index of the server that is frozen.
const FROZEN: usize = SERVERS - 2;

/// The servers, and what makes their faults happen.
struct Processes {
    home: Home,
    servers: Vec<CrashServer>,
    origins: Vec<String>,
    /// Once these files exist, the server is killed or frozen soon, while it writes to the disk.
    kill: PathBuf,
    freeze: PathBuf,
    /// The number of writes sent by [`Processes::assert_writable`].
    probes: usize,
}

impl Processes {
    fn start(seed: &Seed) -> Self {
        let mut rng = seed.rng(0);
        let home = Home::new();
        let (kill, freeze) = (home.test_file("kill"), home.test_file("freeze"));
        // Odd points precede a write or a flush.
        let mut point = || Some(rng.random_range(10..80) * 2 + 1);
        let (kill_at, freeze_at) = (point(), point());
        let faults = |n: usize| match n {
            KILLED => Faults {
                kill_at,
                arm: Some(kill.clone()),
                ..Faults::default()
            },
            FROZEN => Faults {
                freeze_at,
                arm: Some(freeze.clone()),
                ..Faults::default()
            },
            _ => Faults::default(),
        };
        let servers = (0..SERVERS).map(|n| CrashServer::start_with_env(&home, &faults(n), &[]));
        let servers: Vec<CrashServer> = servers.collect();
        let origins = servers.iter().map(|server| server.origin().to_owned());
        Self {
            origins: origins.collect(),
            servers,
            home,
            kill,
            freeze,
            probes: 0,
        }
    }

    /// Checks that each of these servers accepts a write.
    fn assert_writable(&mut self, servers: impl Iterator<Item = usize>) {
        for n in servers {
            self.probes += 1;
            let body =
                json!({ "request_id": format!("probe-{}", self.probes), "question_neutral": "?" });
            let client = CrashClient::new(&self.origins[n]);
            wait_until("the server accepts a write", || {
                let response = client.post("/api/v1/sessions/probes/turns", &body);
                response.is_ok_and(|response| response.is_success())
            });
        }
    }

    /// Kills a server, freezes another one twice, and checks that the others go on.
    fn inject_faults(&mut self) {
        create(&self.kill);
        wait_until("a server is killed", || self.servers[KILLED].has_ended());
        self.assert_writable(0..KILLED);

        create(&self.freeze);
        wait_until("a server is frozen", || self.servers[FROZEN].is_frozen());
        // It probably holds the lock of the store. Then the others can only read, and their writes wait.
        for origin in &self.origins[..FROZEN] {
            CrashClient::new(origin).get("/api/v1/sessions");
        }
        self.servers[FROZEN].signal("CONT");
        self.assert_writable(0..KILLED);

        self.freeze_between_writes();
        self.assert_writable(0..FROZEN);
        self.servers[FROZEN].signal("CONT");
        self.assert_writable(0..KILLED);
    }

    /// Freezes a server while it does not hold the lock of the store.
    fn freeze_between_writes(&self) {
        let store = self.home.root().join("data/filrouge/filrouge.db");
        let connection = Connection::open(store).expect("open the store");
        let timeout = connection.busy_timeout(Duration::from_secs(5));
        timeout.expect("set the timeout");
        for _ in 0..40 {
            self.servers[FROZEN].signal("STOP");
            let begun = connection.execute_batch("BEGIN IMMEDIATE");
            if begun.is_ok() {
                return connection.execute_batch("ROLLBACK").expect("roll back");
            }
            self.servers[FROZEN].signal("CONT");
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the server held the store's lock at every attempt");
    }
}

fn create(file: &Path) {
    fs::write(file, "").expect("create a file");
}

#[test]
fn seven_processes_go_on_when_another_is_killed_or_frozen() {
    let seed = Seed::new("seven_processes_go_on_when_another_is_killed_or_frozen");
    let mut processes = Processes::start(&seed);
    let origins = processes.origins.clone();
    let (clock, ending) = (Clock::default(), AtomicBool::new(false));
    let sessions: Vec<String> = (1..=SESSIONS).map(|n| format!("session-{n}")).collect();
    let writers = (1..).zip(0..SERVERS);
    let writers = writers.map(|(stream, n)| Writer::new(format!("writer-{n}"), seed.rng(stream)));
    let mut writers: Vec<Writer> = writers.collect();
    std::thread::scope(|scope| {
        for (n, writer) in writers.iter_mut().enumerate() {
            writer.switch_to(&sessions);
            let (origins, clock, ending) = (&origins, &clock, &ending);
            scope.spawn(move || {
                let requests = AtomicUsize::new(n);
                // A request that one server does not answer is sent to the next one.
                let next_server = || {
                    let request = requests.fetch_add(1, Ordering::SeqCst);
                    CrashClient::new(&origins[request % SERVERS])
                };
                writer.write_anywhere(&next_server, clock, ending);
            });
        }
        let stop = StopOnDrop(&ending);
        processes.inject_faults();
        drop(stop);
    });
    let ops = || writers.iter().flat_map(Writer::ops);
    let acked = ops().filter(|op| op.acked().is_some()).count();
    eprintln!("{acked} acknowledged writes");
    assert!(acked > 50, "too little load: only {acked} writes");
    for n in [0, FROZEN] {
        model::check(&CrashClient::new(&origins[n]), ops());
    }
    let Processes {
        home, mut servers, ..
    } = processes;
    servers.truncate(KILLED);
    servers.into_iter().for_each(CrashServer::stop);
    home.verify();
}
