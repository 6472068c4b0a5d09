//! The crash tests: the built server is killed, loses power, or runs out of disk space. After each, it must still have
//! every write that it acknowledged, exactly once and in order (promises P1, P2 and P9 of the design).
//!
//! - `kill`: SIGKILL at random moments under a mixed load.
//! - `kill_at`: SIGKILL before and in the middle of every single write and flush.
//! - `power`: power cuts. The disk's content after a cut is rebuilt from a record of all writes and flushes.
//! - `full_disk`: a disk without space, and flushes that fail.
//! - `clock`: the machine's clock is set while leases are held.
//! - `copy`: SIGKILL, and a disk without space, while a store is copied.
//! - `tails`: readers of live tails over many kills.
//! - `postgres`: two servers on one PostgreSQL database. A server is killed or frozen, also while it holds lanes, the
//!   database restarts, or connections are lost.
//! - `processes`: eight servers on one SQLite file, of which one is killed and one is frozen.
//! - `redis`: two servers with one Redis or a cluster. Redis is killed, emptied, restored, frozen or full; the cluster
//!   fails over, loses a master and moves slots.
//! - `search`: SIGKILL while turns are written, searched and redacted.
//! - `spool`: SIGKILL while PostgreSQL is unreachable and live calls are spooled, and while the spool is drained;
//!   a disk without space for the spool.
//! - `streams`: SIGKILL and SIGSTOP while streams are recorded.
//!
//! Every random choice follows from one seed, which a failing test prints. These variables set the seed and the
//! amounts: `FILROUGE_CRASH_SEED`, `FILROUGE_CRASH_ROUNDS`, `FILROUGE_CRASH_POSTGRES_ROUNDS`,
//! `FILROUGE_CRASH_SPOOL_ROUNDS`, `FILROUGE_CRASH_SEARCH_ROUNDS`, `FILROUGE_CRASH_TAIL_KILLS` and
//! `FILROUGE_CRASH_STREAM_KILLS` (kills), `FILROUGE_CRASH_STEPS` (points of `kill_at`) and `FILROUGE_CRASH_CUTS` (power
//! cuts). `scripts/torture` runs these tests with large numbers.
#![cfg(target_os = "linux")]
#![allow(
    clippy::expect_used,
    clippy::print_stderr,
    reason = "tests fail by panicking, and print what they measured"
)]

mod clock;
mod copy;
mod disk;
mod full_disk;
mod http;
mod image;
mod kill;
mod kill_at;
mod model;
mod op;
mod postgres;
mod power;
mod processes;
mod redis;
mod search;
mod server;
mod spool;
mod streams;
mod tails;
mod workload;
mod world;

use rand::SeedableRng;
use rand::rngs::StdRng;

/// Returns the number in a variable of the environment, or `default` if the variable is not set.
fn env_number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name} is not a number: {text:?}")),
        Err(_) => default,
    }
}

/// The seed of a test's random choices. It is printed when the test fails.
struct Seed {
    test: &'static str,
    value: u64,
}

impl Seed {
    fn new(test: &'static str) -> Self {
        Self {
            test,
            value: env_number("FILROUGE_CRASH_SEED", u64::from(rand::random::<u32>())),
        }
    }

    /// Returns one of many independent streams of random numbers.
    fn rng(&self, stream: u64) -> StdRng {
        StdRng::seed_from_u64(self.value.wrapping_mul(1_000_003).wrapping_add(stream))
    }
}

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "{}: to repeat this test's random choices, set FILROUGE_CRASH_SEED={}",
                self.test, self.value
            );
        }
    }
}
