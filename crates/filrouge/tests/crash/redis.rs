//! Two servers on one store, with one Redis or a cluster as hot store. Whatever happens to Redis, requests for durable
//! sessions succeed as without it. Requests for ephemeral sessions may fail with an error, but never get a wrong
//! response.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use filrouge_testbed::{Redis, RedisCluster};
use rand::Rng;
use rand::rngs::StdRng;

use crate::disk::Faults;
use crate::http::CrashClient;
use crate::server::{CrashServer, Home};
use crate::world::StopOnDrop;

mod durable;
mod ephemeral;

/// The longest time that a required event may take.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Two servers with one home.
struct Site {
    home: Home,
    servers: [CrashServer; 2],
}

impl Site {
    /// Starts the servers with the hot store at `hot`, and with further environment variables.
    fn new(hot: &str, variables: &[(&str, &str)]) -> Self {
        let home = Home::new();
        let mut all = vec![("FILROUGE_HOT", hot)];
        all.extend_from_slice(variables);
        let start = || CrashServer::start_with_env(&home, &Faults::default(), &all);
        let servers = [start(), start()];
        Self { home, servers }
    }

    fn client(&self, server: usize) -> CrashClient {
        CrashClient::new(self.servers[server % 2].origin())
    }
}

/// Work that runs until the flag is set.
type Worker<'a> = Box<dyn FnOnce(&AtomicBool) + Send + 'a>;

/// Runs each worker on its own thread during `inject_faults`, and then stops them.
fn run_during(workers: Vec<Worker<'_>>, inject_faults: impl FnOnce()) {
    let ending = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for worker in workers {
            let ending = &ending;
            scope.spawn(move || worker(ending));
        }
        let stop = StopOnDrop(&ending);
        inject_faults();
        drop(stop);
    });
}

/// Waits until `count` has grown by `more`, so that some work happens between two faults.
fn wait_for_progress(count: &AtomicUsize, more: usize) {
    let (begun, goal) = (Instant::now(), count.load(Ordering::SeqCst) + more);
    while count.load(Ordering::SeqCst) < goal {
        assert!(begun.elapsed() < TIME_LIMIT, "the workers make no progress");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A fault of one Redis.
#[derive(Clone, Copy)]
enum Fault {
    Kill,
    /// Redis loses all data.
    Flush,
    /// Redis restarts with an older dump.
    Restore,
    Freeze,
    /// Redis has no memory for writes.
    OutOfMemory,
}

/// Causes every fault of one Redis, once each and in random order; `wait_for_load` waits until some work has happened.
fn inject_single_redis_faults(redis: &Redis, rng: &mut StdRng, wait_for_load: &dyn Fn()) {
    let mut order = [
        Fault::Kill,
        Fault::Flush,
        Fault::Restore,
        Fault::Freeze,
        Fault::OutOfMemory,
    ];
    for n in (1..order.len()).rev() {
        order.swap(n, rng.random_range(0..=n));
    }
    wait_for_load();
    let mut older = redis.save();
    for fault in order {
        wait_for_load();
        match fault {
            Fault::Kill => {
                redis.kill();
                std::thread::sleep(Duration::from_millis(rng.random_range(0..700)));
                redis.restart();
            }
            Fault::Flush => {
                redis.cli(&["FLUSHALL"]);
            }
            Fault::Restore => {
                redis.start_from(&older);
                wait_for_load();
                older = redis.save();
            }
            Fault::Freeze => {
                redis.pause();
                std::thread::sleep(Duration::from_secs(5));
                redis.resume();
            }
            Fault::OutOfMemory => {
                redis.cli(&["CONFIG", "SET", "maxmemory", "100kb"]);
                std::thread::sleep(Duration::from_millis(rng.random_range(200..800)));
                redis.cli(&["CONFIG", "SET", "maxmemory", "0"]);
            }
        }
    }
    wait_for_load();
}

/// The master that is killed; the number of its replica is three higher.
const KILLED_MASTER: usize = 1;

/// Causes a failover, kills a master, and moves slots.
fn inject_cluster_faults(cluster: &RedisCluster, rng: &mut StdRng, wait_for_load: &dyn Fn()) {
    wait_for_load();
    cluster.fail_over_to(3);
    wait_for_load();
    for _ in 0..20 {
        let slot = rng.random_range(0..16_384);
        let from = cluster.owner(slot);
        // The killed master gets no slots: if its replica is promoted without knowing the newest ones, it does not
        // serve them.
        let mut others = (0..cluster.nodes()).filter(|n| ![from, KILLED_MASTER].contains(n));
        let to = others.find(|n| cluster.is_master(*n));
        if from != KILLED_MASTER {
            let to = to.expect("another master");
            cluster.begin_move(slot, to);
            cluster.end_move(slot, to);
        }
    }
    wait_for_load();
    cluster.kill(KILLED_MASTER);
    cluster.wait_for_promotion(KILLED_MASTER + 3);
    wait_for_load();
    cluster.restart(KILLED_MASTER);
    wait_for_load();
}
