//! The SQLite ledger: the contract suite, and failures that only a file can have.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "tests"
)]

use std::path::Path;
use std::sync::Arc;

use filrouge_sqlite::{Options, SqliteLedger};
use filrouge_store::contract::{CountingEntropy, Fixture, differential, fair_reads, run};
use filrouge_store::{Keyring, Ledger};
use filrouge_types::FixedClock;

mod copy;
mod erasure;
mod file;
mod foreign;
mod leases;
mod processes;
mod rotation;
mod statements;
mod tamper;
mod text_index;

/// The time at which the tests' clocks start.
const START_TIME: i64 = 1_700_000_000_000_000;

fn options(path: &Path, keyring: Arc<Keyring>) -> Options {
    let entropy = Arc::new(CountingEntropy::default());
    Options::new(path, keyring, entropy, Arc::new(FixedClock::at(START_TIME)))
}

fn keyring() -> Arc<Keyring> {
    Arc::new(Keyring::single([5; 32]))
}

/// A ledger on `path` with its own clock.
fn fixture_at(path: &Path, keyring: Arc<Keyring>) -> Fixture {
    let clock = Arc::new(FixedClock::at(START_TIME));
    let options = Options {
        clock: clock.clone(),
        ..options(path, keyring.clone())
    };
    let ledger: Arc<dyn Ledger> = Arc::new(SqliteLedger::open(options).unwrap());
    Fixture {
        ledger,
        clock,
        keyring,
        keep: Box::new(()),
    }
}

fn fresh(keyring: Arc<Keyring>) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let fixture = fixture_at(&folder.path().join("f.db"), keyring);
    Fixture {
        keep: Box::new(folder),
        ..fixture
    }
}

fn fixture() -> Fixture {
    fresh(keyring())
}

mod contract {
    use super::fixture;
    filrouge_store::contract_tests!(fixture);
}

#[test]
fn a_caller_with_many_reads_delays_no_other() {
    run(
        fixture(),
        fair_reads::a_caller_with_many_reads_delays_no_other,
    );
}

#[test]
fn a_key_with_many_end_users_delays_no_other() {
    run(
        fixture(),
        fair_reads::a_key_with_many_end_users_delays_no_other,
    );
}

#[test]
fn the_ledger_equals_the_in_memory_ledger() {
    let cases = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(24);
    differential::same_as_memory(cases, fresh);
}
