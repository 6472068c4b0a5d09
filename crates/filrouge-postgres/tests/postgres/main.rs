//! The PostgreSQL ledger: the contract suite, and faults that only a server has.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use filrouge_postgres::{Options, PostgresLedger, SCHEMA_VERSION};
use filrouge_store::contract::fixture::{anyone, sid};
use filrouge_store::contract::{CountingEntropy, Fixture, differential, fair_reads, run};
use filrouge_store::{Keyring, Lane, Ledger};
use filrouge_testbed::Database;
use filrouge_types::FixedClock;

/// A part of the contract suite: every statement at least once, and every operation that needs several. The caller has a
/// function `fixture`.
macro_rules! selected_contract_tests {
    () => {
        filrouge_store::contract_tests! { @each fixture;
            bytes { every_byte_is_returned_unchanged }
            chain { the_commit_log_counts_every_commit }
            changes { each_kind_of_change_is_in_the_feed, a_concurrent_reader_misses_nothing, commits_are_reported }
            checkpoints {
                a_checkpoint_is_written_once_per_seq, states_of_any_size_are_stored, one_of_many_equal_checkpoints_is_new,
            }
            checkpoints_kept {
                the_newest_checkpoints_are_kept, redaction_deletes_covering_checkpoints,
                a_deleted_checkpoint_can_be_written_again,
            }
            concurrency { many_tasks_write_to_few_sessions, repeated_concurrent_writes_have_one_effect }
            conflicts { a_refused_write_changes_nothing }
            drafts { drafts_grow_by_deltas, drafts_become_items, erasure_deletes_drafts }
            drafts_kept { drafts_are_kept_however_the_turn_ends }
            erasure { only_the_name_remains, a_session_of_many_records_is_erased }
            events { an_event_is_recorded_once_per_key, events_are_paged_in_order }
            full_pages { pages_of_large_sessions_are_bounded }
            idempotency { a_repeated_append_is_replayed, retries_after_every_failure_are_safe }
            lanes {
                the_feed_misses_and_repeats_nothing_while_lanes_are_written, a_write_commits_in_one_lane,
                each_lane_has_a_dense_log_of_its_own_sessions,
            }
            leases { fences_only_grow, acquiring_creates_the_session, a_resume_is_reported_once }
            leases_servers {
                a_lease_whose_server_has_exited_is_acquired, writes_extend_the_lease,
                a_session_that_began_while_the_store_was_down_is_created,
            }
            leases_release { the_last_write_releases_the_lease }
            leases_together { one_of_many_acquires_the_lease }
            leases_writes { a_live_lease_keeps_others_from_writing }
            life { every_write_has_a_defined_effect_in_every_status, a_repeated_start_reopens_an_interrupted_turn }
            links { one_of_many_logins_wins }
            notes { notes_are_compared_and_set, notes_are_independent_of_sessions }
            order { big_batches_keep_their_order }
            owners { lists_show_only_own_sessions }
            paging { sessions_are_paged_while_others_write, turns_are_filtered_by_status, sessions_are_filtered }
            patches { each_field_is_patched_separately }
            redact { a_turn_is_redacted, items_of_an_open_turn_are_redacted }
            redact_many { interleaved_and_long_turns_are_redacted }
            replace { a_turn_is_replaced_by_a_new_version }
            sessions { a_closed_session_stays_closed, a_secret_protects_an_anonymous_session }
        }
    };
}
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
mod presence;
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
        .unwrap_or(12);
    differential::same_as_memory(cases, fresh);
}
