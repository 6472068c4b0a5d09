//! The PostgreSQL ledger: the contract suite, and faults that only a server has.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use filrouge_postgres::{Options, PostgresLedger, SCHEMA_VERSION};
use filrouge_store::contract::fixture::{anyone, sid};
use filrouge_store::contract::{CountingEntropy, Fixture, differential, fair_reads, run};
use filrouge_store::{Keyring, Lane, Ledger};
use filrouge_testbed::Database;
use filrouge_types::FixedClock;

mod copy;
mod direct_url;
mod distributed;
mod faults;
mod guards;
mod isolated_failures;
mod lane_rules;
mod logging;
mod newer_schema;
mod one_lane;
mod pooler;
mod same_answers;
mod schema;
mod servers;
mod shared_leases;
mod statements;
mod tamper;
mod text_index;
mod tls;
mod urls;
mod vacuum;

/// The start time of the tests' clocks.
const START_TIME: i64 = 1_700_000_000_000_000;

/// The first migration; templates of databases are named after its text.
const SCHEMA: &str = include_str!("../../src/migrations/0001_ledger.sql");

fn keyring() -> Arc<Keyring> {
    Arc::new(Keyring::single([5; 32]))
}

fn options(url: &str, keyring: Arc<Keyring>) -> Options {
    let mut options = Options::new(url, keyring, Arc::new(CountingEntropy::default())).unwrap();
    options.clock = Some(Arc::new(FixedClock::at(START_TIME)));
    options
}

/// A database with an empty store.
fn database() -> Database {
    let name = format!("store of schema {SCHEMA_VERSION} {SCHEMA}");
    Database::from_template(&name, |url| {
        drop(PostgresLedger::open(options(url, keyring())).unwrap());
    })
}

/// The lane of a session of tenant `t`.
fn lane_of(ledger: &dyn Ledger, session: &str) -> Lane {
    ledger.lanes().of_session(&anyone().tenant, &sid(session))
}

/// A ledger on the database at `url` with its own clock.
fn fixture_at(url: &str, keyring: Arc<Keyring>) -> Fixture {
    let clock = Arc::new(FixedClock::at(START_TIME));
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
    let fixture = fixture_at(&database.url(), keyring);
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
fn a_caller_with_many_reads_delays_no_other() {
    run(
        fixture(),
        fair_reads::a_caller_with_many_reads_delays_no_other,
    );
}

#[test]
fn the_ledger_equals_the_in_memory_ledger() {
    let cases = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(12);
    differential::same_as_memory(cases, fresh);
}
