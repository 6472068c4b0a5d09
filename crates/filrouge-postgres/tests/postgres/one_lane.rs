//! A store of one lane passes a part of the contract suite: what concerns commits, lists and the feed.

use std::sync::Arc;

use filrouge_postgres::{PostgresLedger, SCHEMA_VERSION};
use filrouge_store::contract::{Fixture, differential};
use filrouge_store::{Keyring, Lanes};
use filrouge_testbed::Database;

use super::{SCHEMA, fixture_at, keyring, options};

/// A database with an empty store of one lane.
pub(crate) fn database() -> Database {
    let name = format!("store of one lane, schema {SCHEMA_VERSION} {SCHEMA}");
    Database::from_template(&name, |url| {
        let mut options = options(url, keyring());
        options.lanes = Lanes::ONE;
        drop(PostgresLedger::open(options).unwrap());
    })
}

fn fresh(keyring: Arc<Keyring>) -> Fixture {
    let database = database();
    let fixture = fixture_at(&database.url(), keyring);
    assert_eq!(fixture.ledger.lanes(), Lanes::ONE);
    Fixture {
        keep: Box::new(database),
        ..fixture
    }
}

fn fixture() -> Fixture {
    fresh(keyring())
}

filrouge_store::contract_tests! { @each fixture;
    chain { the_commit_log_counts_every_commit, random_histories_verify_as_intact }
    changes {
        each_kind_of_change_is_in_the_feed, every_change_is_read_once_at_any_page_size,
        a_concurrent_reader_misses_nothing, cursors_are_checked_and_resume_the_feed,
        pages_without_visible_changes_continue, commits_are_reported,
    }
    concurrency { many_tasks_write_to_few_sessions }
    erasure { only_the_name_remains }
    lanes {
        sessions_of_all_lanes_are_listed_newest_first, the_feed_misses_and_repeats_nothing_while_lanes_are_written,
        a_cursor_of_more_lanes_than_the_store_has_is_refused, a_write_commits_in_one_lane,
        each_lane_has_a_dense_log_of_its_own_sessions,
    }
    notes { one_of_many_writers_writes_each_version, notes_are_independent_of_sessions }
    paging { sessions_are_paged_while_others_write }
    tenant_events { events_are_found_by_time, events_found_by_time_are_paged }
}

#[test]
fn the_ledger_equals_the_in_memory_ledger() {
    differential::same_as_memory(4, fresh);
}
