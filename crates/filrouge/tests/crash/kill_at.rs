//! SIGKILL before and during every single change and flush of a file.

use std::sync::atomic::{AtomicUsize, Ordering};

use rand::Rng;
use rand::rngs::StdRng;

use crate::disk::Faults;
use crate::image;
use crate::server::{CrashServer, Home};
use crate::world::CrashWorld;
use crate::{Seed, number};

/// Servers that run in parallel.
const LANES: usize = 2;

/// A store, the known writes to it, and the number of writes to send while the server dies.
struct Plan {
    home: Home,
    world: CrashWorld,
    writes: usize,
}

#[test]
fn a_first_start_can_be_killed_at_every_step() {
    let seed = Seed::of("a_first_start_can_be_killed_at_every_step");
    let mut rng = seed.rng(0);
    let plan = Plan {
        home: Home::new(),
        world: CrashWorld::new(1, 1, &mut rng),
        writes: 4,
    };
    plan.die_everywhere(&mut rng);
}

#[test]
fn a_server_can_be_killed_at_every_step() {
    let seed = Seed::of("a_server_can_be_killed_at_every_step");
    let mut rng = seed.rng(0);
    let mut plan = Plan {
        home: Home::new(),
        world: CrashWorld::new(1, 3, &mut rng),
        writes: 30,
    };
    // The initial store was left by a kill too, so the start has something to recover.
    let mut server = CrashServer::start(&plan.home);
    assert!(
        plan.world.write_some(server.origin(), 150),
        "the server went away"
    );
    server.kill();
    plan.die_everywhere(&mut rng);
}

impl Plan {
    /// Kills a server at every point, or at a limited number of points that are spread over all of them.
    fn die_everywhere(&self, rng: &mut StdRng) {
        let wanted = number("FILROUGE_CRASH_STEPS", 80);
        let all = self.count_points();
        let spread = |n: u64| {
            if all <= wanted {
                n + 1
            } else {
                rng.random_range(n * all / wanted..(n + 1) * all / wanted) + 1
            }
        };
        let points: Vec<u64> = (0..all.min(wanted)).map(spread).collect();
        let next = AtomicUsize::new(0);
        let deaths = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..LANES {
                scope.spawn(|| {
                    while let Some(point) = points.get(next.fetch_add(1, Ordering::SeqCst)) {
                        deaths.fetch_add(usize::from(self.die_at(*point)), Ordering::SeqCst);
                    }
                });
            }
        });
        let deaths = deaths.into_inner();
        eprintln!("killed at {deaths} of {all} points");
        assert!(
            deaths * 10 >= points.len() * 8,
            "only {deaths} of {} points were reached",
            points.len()
        );
    }

    /// The number of points in an undisturbed run.
    fn count_points(&self) -> u64 {
        let (home, mut world) = (Home::copy_of(&self.home), self.world.clone());
        let record = home.beside("record");
        let faults = Faults {
            record: Some(record.clone()),
            ..Faults::default()
        };
        let server = CrashServer::start_with(&home, &faults).unwrap_or_else(|e| panic!("{e:?}"));
        assert!(
            world.write_some(server.origin(), self.writes),
            "the server went away"
        );
        drop(server);
        image::points(&record)
    }

    /// Kills a server at this point; returns whether the server reached it.
    fn die_at(&self, point: u64) -> bool {
        let (home, mut world) = (Home::copy_of(&self.home), self.world.clone());
        let faults = Faults {
            kill_at: Some(point),
            ..Faults::default()
        };
        let met = match CrashServer::start_with(&home, &faults) {
            Ok(mut server) => {
                let met = !world.write_some(server.origin(), self.writes);
                server.kill();
                met
            }
            Err(end) => {
                assert!(end.was_killed(), "point {point}: {end:?}");
                true
            }
        };
        let server = CrashServer::start(&home);
        world.settle(server.origin());
        assert!(world.write_some(server.origin(), 5), "the server went away");
        world.check_all(server.origin());
        server.stop();
        home.verify();
        met
    }
}
