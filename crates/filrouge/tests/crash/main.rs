//! The crash tier: the built server is killed, loses power, runs out of disk space or has a disk that fakes flushes, and
//! must still have every write that it acknowledged, exactly once and in order (promises P1, P2 and P9 of the design).
//!
//! - `kill`: SIGKILL at random moments under a mixed load.
//! - `kill_at`: SIGKILL before and in the middle of every single write and flush.
//! - `power`: the content of a disk after a power cut is rebuilt from a record of all writes and flushes.
//! - `full_disk`: no space, and flushes that fail.
//! - `copy`: SIGKILL and no space while a store is copied.
//! - `tails`: readers of live tails over many kills.
//! - `postgres`: two servers on one PostgreSQL database: a server is killed or frozen, the database restarts, or connections
//!   are lost.
//! - `redis`: two servers with one Redis or a cluster, which is killed, emptied, restored, stopped or full, or moves slots.
//! - `search`: SIGKILL while turns are written, searched and redacted.
//! - `spool`: SIGKILL while live calls wait for an unreachable PostgreSQL, and while they are drained; a disk
//!   without space for the spool.
//! - `streams`: SIGKILL and SIGSTOP while streams are recorded.
//!
//! Every random choice follows from one seed, which a failing test prints. The environment can change the amounts:
//! `FILROUGE_CRASH_SEED`, `FILROUGE_CRASH_ROUNDS`, `FILROUGE_CRASH_POSTGRES_ROUNDS`, `FILROUGE_CRASH_SPOOL_ROUNDS`,
//! `FILROUGE_CRASH_SEARCH_ROUNDS`, `FILROUGE_CRASH_TAIL_KILLS` and `FILROUGE_CRASH_STREAM_KILLS` (kills),
//! `FILROUGE_CRASH_STEPS` (points of `kill_at`) and `FILROUGE_CRASH_CUTS` (power cuts). `scripts/torture` runs all of
//! it with large numbers.
#![cfg(target_os = "linux")]
#![allow(
    clippy::expect_used,
    clippy::print_stderr,
    reason = "test helpers fail by panicking, and print what they measured"
)]

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

/// A number from the environment, or `otherwise`.
fn number(name: &str, otherwise: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name} is not a number: {text:?}")),
        Err(_) => otherwise,
    }
}

/// The seed of a test's random choices; printed when the test fails.
struct Seed {
    test: &'static str,
    value: u64,
}

impl Seed {
    fn of(test: &'static str) -> Self {
        Self {
            test,
            value: number("FILROUGE_CRASH_SEED", u64::from(rand::random::<u32>())),
        }
    }

    /// One of many independent streams of random numbers.
    fn rng(&self, stream: u64) -> StdRng {
        StdRng::seed_from_u64(self.value.wrapping_mul(1_000_003).wrapping_add(stream))
    }
}

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "{}: to repeat the same choices, set FILROUGE_CRASH_SEED={}",
                self.test, self.value
            );
        }
    }
}
