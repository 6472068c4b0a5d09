//! SIGKILL at random moments under a mixed load, repeatedly on one store.

use std::time::Duration;

use rand::Rng;

use crate::disk::Faults;
use crate::server::{CrashServer, Home};
use crate::world::CrashWorld;
use crate::{Seed, env_number};

/// A start that takes longer is reported as slow.
const SLOW_START: Duration = Duration::from_secs(2);

#[test]
fn acknowledged_writes_survive_kills() {
    let seed = Seed::new("acknowledged_writes_survive_kills");
    let mut rng = seed.rng(0);
    let rounds = env_number("FILROUGE_CRASH_ROUNDS", 15);
    let home = Home::new();
    let mut world = CrashWorld::new(8, 20, &mut rng);
    let mut starts = Vec::new();
    for round in 1..=rounds {
        if rng.random_bool(0.1) {
            CrashServer::start_and_kill(
                &home,
                &Faults::default(),
                Duration::from_millis(rng.random_range(0..60)),
            );
        }
        let mut server = CrashServer::start(&home);
        starts.push(server.ready_after());
        world.resolve_unknown_outcomes(server.origin());
        world.check(server.origin());
        if round % 10 == 0 {
            home.verify();
        }
        if round % 5 == 0 {
            world.next_sessions();
        }
        world.write_until_killed(
            &mut server,
            Duration::from_millis(rng.random_range(50..400)),
        );
    }

    let server = CrashServer::start(&home);
    world.resolve_unknown_outcomes(server.origin());
    world.check_all(server.origin());
    server.stop();
    home.verify();
    report(rounds, world.acked(), starts);
}

fn report(rounds: u64, acked: usize, mut starts: Vec<Duration>) {
    starts.sort_unstable();
    let slowest = starts.last().copied().unwrap_or_default();
    let median = starts.get(starts.len() / 2).copied().unwrap_or_default();
    eprintln!(
        "{rounds} kills, {acked} acknowledged writes, ready after {median:?} (median), {slowest:?} (slowest)"
    );
    if slowest > SLOW_START {
        eprintln!("warning: a start took {slowest:?}, more than {SLOW_START:?}");
    }
}
