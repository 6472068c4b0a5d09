//! The machine's clock is set while leases are held: no lease outlives its duration.

use std::fs;
use std::path::PathBuf;

use filrouge_testbed::{Options, Server as Database};
use serde_json::json;
use tempfile::TempDir;

use crate::disk::{Faults, compile};
use crate::http::{CrashClient, CrashResponse};
use crate::server::{CrashServer, Home};

/// The duration of the leases that these tests wait for, in milliseconds.
const SHORT_TTL: u64 = 2_000;
const TWO_DAYS: i64 = 2 * 24 * 60 * 60;

/// A machine whose clock the test sets.
struct Machine {
    home: Home,
    /// `clock.c`, compiled.
    library: (TempDir, PathBuf),
}

impl Machine {
    fn new(home: Home) -> Self {
        let library = compile("clock.c");
        Self { home, library }
    }

    /// Sets the clock to this many seconds after the true time.
    fn set_clock(&self, seconds: i64) {
        let file = self.home.test_file("offset");
        let new = self.home.test_file("offset.new");
        fs::write(&new, seconds.to_string()).expect("write the offset");
        fs::rename(new, file).expect("replace the offset");
    }

    fn start(&self) -> CrashServer {
        let library = self.library.1.display().to_string();
        let offset = self.home.test_file("offset").display().to_string();
        let variables = [("LD_PRELOAD", &*library), ("CLOCK_OFFSET", &*offset)];
        CrashServer::start_with_env(&self.home, &Faults::default(), &variables)
    }
}

/// Acquires the lease of the session `s`, or waits for it for at most `wait_ms`.
fn acquire(client: &CrashClient, holder: &str, ttl_ms: u64, wait_ms: u64) -> CrashResponse {
    let body = json!({ "holder": holder, "ttl_ms": ttl_ms, "wait_ms": wait_ms });
    let response = client.post("/api/v1/sessions/s/lease", &body);
    response.expect("the server responds")
}

fn create_session(client: &CrashClient) {
    let created = client.post("/api/v1/sessions", &json!({ "session_id": "s" }));
    assert_eq!(created.expect("the server responds").status, 201);
}

/// Sets the clock of a running server; after each step, the next holder gets the lease when the previous one has ended.
fn set_the_clock_while_leases_are_held(machine: Machine) {
    machine.set_clock(0);
    let server = machine.start();
    let client = CrashClient::new(server.origin());
    create_session(&client);
    for (n, seconds) in [0, -60, -7_200, -TWO_DAYS, 0, TWO_DAYS, 0]
        .into_iter()
        .enumerate()
    {
        machine.set_clock(seconds);
        let acquired = acquire(&client, &format!("holder-{n}"), SHORT_TTL, 10_000);
        assert_eq!(acquired.status, 201, "{seconds}: {acquired:?}");
        assert_eq!(acquired.body["fence"], n + 1, "{seconds}");
    }
    server.stop();
    machine.home.verify();
}

#[test]
fn a_lease_does_not_outlive_its_duration_when_the_clock_is_set() {
    set_the_clock_while_leases_are_held(Machine::new(Home::new()));
}

/// On PostgreSQL, leases end by the database's clock.
#[test]
fn on_postgresql_a_servers_clock_prolongs_no_lease() {
    let database = Database::start(Options::default());
    let home = Home::with_store(&database.url(&database.database()));
    set_the_clock_while_leases_are_held(Machine::new(home));
}

#[test]
fn after_a_restart_a_lease_from_a_clock_that_was_ahead_has_ended() {
    let machine = Machine::new(Home::new());
    machine.set_clock(TWO_DAYS);
    let mut server = machine.start();
    let client = CrashClient::new(server.origin());
    create_session(&client);
    assert_eq!(acquire(&client, "early", 600_000, 1).status, 201);
    server.kill();
    machine.set_clock(0);
    let server = machine.start();
    let client = CrashClient::new(server.origin());
    let acquired = acquire(&client, "late", SHORT_TTL, 1);
    assert_eq!(acquired.status, 201, "{acquired:?}");
    assert_eq!(acquired.body["fence"], 2);
    server.stop();
    machine.home.verify();
}
