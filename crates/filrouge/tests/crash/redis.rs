//! Two servers on one store, with one Redis or a cluster as hot store. Whatever happens to Redis: durable sessions are
//! written and answered as without it; ephemeral sessions fail with an error and never get a wrong answer.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use filrouge_testbed::{Redis, RedisCluster};
use rand::Rng;
use rand::rngs::StdRng;

use crate::disk::Faults;
use crate::http::CrashClient;
use crate::server::{CrashServer, Home};

mod durable;
mod ephemeral;

/// A required event that takes longer counts as hung.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two servers on one machine.
struct Site {
    home: Home,
    servers: [CrashServer; 2],
}

impl Site {
    fn new(hot: &str, variables: &[(&str, &str)]) -> Self {
        let home = Home::new();
        let mut all = vec![("FILROUGE_HOT", hot)];
        all.extend_from_slice(variables);
        let start = || CrashServer::start_set(&home, &Faults::default(), &all);
        let servers = [start(), start()];
        Self { home, servers }
    }

    fn client(&self, server: usize) -> CrashClient {
        CrashClient::new(self.servers[server % 2].origin())
    }
}

/// Work that runs until the flag is set.
type Worker<'a> = Box<dyn FnOnce(&AtomicBool) + Send + 'a>;

/// Runs each worker on its own thread during `trouble`, and then stops them.
fn meanwhile(workers: Vec<Worker<'_>>, trouble: impl FnOnce()) {
    let ending = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for worker in workers {
            let ending = &ending;
            scope.spawn(move || worker(ending));
        }
        let end = End(&ending);
        trouble();
        drop(end);
    });
}

/// Stops the workers, even when `trouble` panics.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Waits until `count` has grown by `more`, so that some work happens between two faults.
fn wait_for(count: &AtomicUsize, more: usize) {
    let (begun, goal) = (Instant::now(), count.load(Ordering::SeqCst) + more);
    while count.load(Ordering::SeqCst) < goal {
        assert!(begun.elapsed() < PATIENCE, "the workers make no progress");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Causes every fault of one Redis, once each and in random order; `calm` waits until some work has happened.
fn trouble_of_one(redis: &Redis, rng: &mut StdRng, calm: &dyn Fn()) {
    let mut order = [0, 1, 2, 3, 4];
    for n in (1..order.len()).rev() {
        order.swap(n, rng.random_range(0..=n));
    }
    calm();
    let mut older = redis.save();
    for kind in order {
        calm();
        match kind {
            0 => {
                redis.kill();
                std::thread::sleep(Duration::from_millis(rng.random_range(0..700)));
                redis.restart();
            }
            1 => {
                redis.cli(&["FLUSHALL"]);
            }
            2 => {
                redis.start_from(&older);
                calm();
                older = redis.save();
            }
            3 => {
                redis.pause();
                std::thread::sleep(Duration::from_secs(5));
                redis.resume();
            }
            _ => {
                redis.cli(&["CONFIG", "SET", "maxmemory", "100kb"]);
                std::thread::sleep(Duration::from_millis(rng.random_range(200..800)));
                redis.cli(&["CONFIG", "SET", "maxmemory", "0"]);
            }
        }
    }
    calm();
}

/// The master that is killed; its replica has the number three higher.
const DOOMED: usize = 1;

/// Causes a failover, kills a master, and moves slots.
fn trouble_of_cluster(cluster: &RedisCluster, rng: &mut StdRng, calm: &dyn Fn()) {
    calm();
    cluster.fail_over_to(3);
    calm();
    for _ in 0..20 {
        let slot = rng.random_range(0..16_384);
        let from = cluster.owner(slot);
        // A promoted replica that does not know its master's newest slots does not serve them.
        let mut others = (0..cluster.nodes()).filter(|n| ![from, DOOMED].contains(n));
        let to = others.find(|n| cluster.is_master(*n));
        if from != DOOMED {
            let to = to.expect("another master");
            cluster.begin_move(slot, to);
            cluster.end_move(slot, to);
        }
    }
    calm();
    cluster.kill(DOOMED);
    cluster.promoted(DOOMED + 3);
    calm();
    cluster.restart(DOOMED);
    calm();
}
