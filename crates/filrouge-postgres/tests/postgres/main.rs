//! The PostgreSQL ledger: the contract, and what only a server can suffer.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use filrouge_postgres::{Options, PostgresLedger, SCHEMA_VERSION};
use filrouge_store::contract::{CountingEntropy, Fixture, differential};
use filrouge_store::{Keyring, Ledger};
use filrouge_testbed::Database;
use filrouge_types::FixedClock;

mod alone;
mod bytes_alike;
mod copied;
mod direct;
mod faults;
mod guards;
mod held;
mod logged;
mod many;
mod newer;
mod pooled;
mod schema;
mod statements;
mod tamper;
mod text_index;
mod tls;
mod urls;
mod vacuum;

/// Where the clocks of tests stand.
const NOON: i64 = 1_700_000_000_000_000;

const MIGRATIONS: [&str; 3] = [
    include_str!("../../src/migrations/0001_journal.sql"),
    include_str!("../../src/migrations/0002_leases.sql"),
    include_str!("../../src/migrations/0003_search.sql"),
];

fn keyring() -> Arc<Keyring> {
    Arc::new(Keyring::single([5; 32]))
}

fn options(url: &str, keyring: Arc<Keyring>) -> Options {
    let mut options = Options::new(url, keyring, Arc::new(CountingEntropy::default())).unwrap();
    options.clock = Some(Arc::new(FixedClock::at(NOON)));
    options
}

/// A database with an empty store.
fn database() -> Database {
    let name = format!("store of schema {SCHEMA_VERSION} {}", MIGRATIONS.concat());
    Database::from_template(&name, |url| {
        drop(PostgresLedger::open(options(url, keyring())).unwrap());
    })
}

/// A ledger on the database at `url` with a clock of its own.
fn on(url: &str, keyring: Arc<Keyring>) -> Fixture {
    let clock = Arc::new(FixedClock::at(NOON));
    let mut options = options(url, keyring.clone());
    options.clock = Some(clock.clone());
    let ledger: Arc<dyn Ledger> = Arc::new(PostgresLedger::open(options).unwrap());
    Fixture {
        ledger,
        clock,
        keyring,
        keep: Box::new(()),
    }
}

fn fresh(keyring: Arc<Keyring>) -> Fixture {
    let database = database();
    let fixture = on(&database.url(), keyring);
    Fixture {
        keep: Box::new(database),
        ..fixture
    }
}

fn fixture() -> Fixture {
    fresh(keyring())
}

filrouge_store::contract_tests!(fixture);

#[test]
fn random_writes_are_the_same_as_in_memory() {
    let cases = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(12);
    differential::same_as_memory(cases, fresh);
}
