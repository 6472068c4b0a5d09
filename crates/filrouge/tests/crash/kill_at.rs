//! SIGKILL before and during every single change and flush of a file, each time on a copy of one store.

use std::sync::atomic::{AtomicUsize, Ordering};

use rand::Rng;
use rand::rngs::StdRng;

use crate::disk::Faults;
use crate::image;
use crate::server::{CrashServer, Home};
use crate::world::CrashWorld;
use crate::{Seed, env_number};

/// The number of servers that run in parallel.
const PARALLEL_SERVERS: usize = 2;

/// A store, the known writes to it, and the number of writes to send while the server dies.
struct Plan {
    home: Home,
    world: CrashWorld,
    writes: usize,
}

#[test]
fn a_first_start_can_be_killed_at_every_step() {
    let seed = Seed::new("a_first_start_can_be_killed_at_every_step");
    let mut rng = seed.rng(0);
    let plan = Plan {
        home: Home::new(),
        world: CrashWorld::new(1, 1, &mut rng),
        writes: 4,
    };
    plan.kill_at_all_points(&mut rng);
}

#[test]
fn a_server_can_be_killed_at_every_step() {
    let seed = Seed::new("a_server_can_be_killed_at_every_step");
    let mut rng = seed.rng(0);
    let mut plan = Plan {
        home: Home::new(),
        world: CrashWorld::new(1, 3, &mut rng),
        writes: 30,
    };
    // The server of the initial store was killed too, so that the next start has something to recover.
    let mut server = CrashServer::start(&plan.home);
    assert!(
        plan.world.write_sequentially(server.origin(), 150),
        "the server ended unexpectedly"
    );
    server.kill();
    plan.kill_at_all_points(&mut rng);
}

impl Plan {
    /// Kills a server at every point, or at a limited number of points that are spread over the run.
    fn kill_at_all_points(&self, rng: &mut StdRng) {
        let limit = env_number("FILROUGE_CRASH_STEPS", 80);
        let all = self.count_points();
        let spread = |n: u64| {
            if all <= limit {
                n + 1
            } else {
                rng.random_range(n * all / limit..(n + 1) * all / limit) + 1
            }
        };
        let points: Vec<u64> = (0..all.min(limit)).map(spread).collect();
        let next = AtomicUsize::new(0);
        let kills = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..PARALLEL_SERVERS {
                scope.spawn(|| {
                    while let Some(point) = points.get(next.fetch_add(1, Ordering::SeqCst)) {
                        kills.fetch_add(usize::from(self.kill_at_point(*point)), Ordering::SeqCst);
                    }
                });
            }
        });
        let kills = kills.into_inner();
        eprintln!("{kills} servers killed, at {all} possible points");
        assert!(
            kills * 10 >= points.len() * 8,
            "only {kills} of {} servers reached their point",
            points.len()
        );
    }

    /// Counts the points of an undisturbed run.
    fn count_points(&self) -> u64 {
        let (home, mut world) = (Home::copy_of(&self.home), self.world.clone());
        let record = home.test_file("record");
        let faults = Faults {
            record: Some(record.clone()),
            ..Faults::default()
        };
        let server =
            CrashServer::start_with_faults(&home, &faults).unwrap_or_else(|e| panic!("{e:?}"));
        assert!(
            world.write_sequentially(server.origin(), self.writes),
            "the server ended unexpectedly"
        );
        drop(server);
        image::points(&record)
    }

    /// Kills a server at this point, restarts it and checks the store; returns whether the server reached the point.
    fn kill_at_point(&self, point: u64) -> bool {
        let (home, mut world) = (Home::copy_of(&self.home), self.world.clone());
        let faults = Faults {
            kill_at: Some(point),
            ..Faults::default()
        };
        let reached = match CrashServer::start_with_faults(&home, &faults) {
            Ok(mut server) => {
                let reached = !world.write_sequentially(server.origin(), self.writes);
                server.kill();
                reached
            }
            Err(failure) => {
                assert!(failure.was_killed(), "point {point}: {failure:?}");
                true
            }
        };
        let server = CrashServer::start(&home);
        world.resolve_unknown_outcomes(server.origin());
        assert!(
            world.write_sequentially(server.origin(), 5),
            "the server ended unexpectedly"
        );
        world.check_all(server.origin());
        server.stop();
        home.verify();
        reached
    }
}
