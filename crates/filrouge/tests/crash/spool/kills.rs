//! SIGKILL while writes of live calls wait in the spool, and while the spool is drained.

use std::time::Duration;

use filrouge_testbed::{FaultProxy, Options, Server as Database};
use rand::Rng;

use super::call::{Call, wait_until_drained};
use crate::disk::Faults;
use crate::http::CrashClient;
use crate::server::{CrashServer, Home};
use crate::{Seed, env_number};

const CALLS: usize = 3;

fn start(home: &Home) -> CrashServer {
    let spool_after = [("FILROUGE_SPOOL_AFTER_MS", "150")];
    CrashServer::start_with_env(home, &Faults::default(), &spool_after)
}

#[test]
fn spooled_writes_survive_every_kill() {
    let seed = Seed::new("spooled_writes_survive_every_kill");
    let mut rng = seed.rng(0);
    let rounds = env_number("FILROUGE_CRASH_SPOOL_ROUNDS", 4);
    let database = Database::start(Options::default());
    let proxy = FaultProxy::before(database.tcp());
    let home = Home::with_store(&proxy.url(&database.database()));
    let mut server = start(&home);
    let mut spooled = 0;
    for round in 0..rounds {
        let client = CrashClient::new(server.origin());
        let names: Vec<_> = (0..CALLS).map(|n| format!("call-{round}-{n}")).collect();
        let mut calls: Vec<_> = names.iter().map(|s| Call::begin(&client, s)).collect();
        proxy.hold();
        proxy.cut();
        for _ in 0..rng.random_range(5..25) {
            let call = rng.random_range(0..CALLS);
            let response = calls[call].write(&client);
            assert!(response.is_success(), "round {round}: {response:?}");
        }
        // The server is killed while PostgreSQL is unreachable, or shortly after it is reachable again.
        if rng.random_bool(0.7) {
            proxy.release();
            std::thread::sleep(Duration::from_millis(rng.random_range(0..400)));
        }
        server.kill();
        proxy.release();
        server = start(&home);
        if rng.random_bool(0.5) {
            std::thread::sleep(Duration::from_millis(rng.random_range(0..40)));
            server.kill();
            server = start(&home);
        }
        let client = CrashClient::new(server.origin());
        wait_until_drained(&client);
        for call in &calls {
            call.check(&client);
            spooled += call.spooled();
        }
    }
    assert!(spooled > 0, "no write was spooled");
    server.stop();
    home.verify();
}
