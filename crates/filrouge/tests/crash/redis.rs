//! Two servers on one store with one Redis in front, or a cluster of them: whatever happens to Redis, what is durable is
//! written and answered as if there were none, and what is ephemeral fails loudly and is never answered wrongly.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use filrouge_testbed::{Redis, RedisCluster};
use rand::Rng;
use rand::rngs::StdRng;

use crate::disk::Faults;
use crate::http::Client;
use crate::server::{Home, Server};

mod durable;
mod ephemeral;

/// What must happen is given so long before it counts as hung.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two servers on one machine.
struct Site {
    home: Home,
    servers: [Server; 2],
}

impl Site {
    fn new(hot: &str, variables: &[(&str, &str)]) -> Self {
        let home = Home::new();
        let mut all = vec![("FILROUGE_HOT", hot)];
        all.extend_from_slice(variables);
        let start = || Server::start_set(&home, &Faults::default(), &all);
        let servers = [start(), start()];
        Self { home, servers }
    }

    fn client(&self, server: usize) -> Client {
        Client::new(self.servers[server % 2].origin())
    }
}

/// What is done until it is told to end.
type Worker<'a> = Box<dyn FnOnce(&AtomicBool) + Send + 'a>;

/// Has each worker on a thread of its own while `trouble` is made, and tells it to end then.
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

/// Ends the workers, also when the trouble made has failed.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Waits until `count` has grown by `more`: work is done between two troubles.
fn wait_for(count: &AtomicUsize, more: usize) {
    let (begun, goal) = (Instant::now(), count.load(Ordering::SeqCst) + more);
    while count.load(Ordering::SeqCst) < goal {
        assert!(begun.elapsed() < PATIENCE, "no work is done any more");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// All that can happen to one server, each once and in an order of its own; `calm` lets some work be done.
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
                redis.start_again();
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

/// The master that is killed; its replica is the third node after it.
const DOOMED: usize = 1;

/// A master that hands over, one that is killed, and slots that move.
fn trouble_of_cluster(cluster: &RedisCluster, rng: &mut StdRng, calm: &dyn Fn()) {
    calm();
    cluster.fail_over_to(3);
    calm();
    for _ in 0..20 {
        let slot = rng.random_range(0..16_384);
        let from = cluster.owner(slot);
        // A replica that has not heard of its master's newest slots does not serve them when it takes its place.
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
    cluster.start_again(DOOMED);
    calm();
}
