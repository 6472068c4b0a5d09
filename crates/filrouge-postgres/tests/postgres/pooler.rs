//! Ledgers behind PgBouncer in transaction mode, where every transaction may run on another server connection.

use filrouge_postgres::Options;
use filrouge_store::contract::Fixture;
use filrouge_testbed::{Options as ServerOptions, PgBouncer, Server};
use tokio_postgres::{NoTls, SimpleQueryMessage};

use super::servers::callers::{Workload, assert_intact};
use super::servers::{
    assert_commits_are_announced, block_on, close, open, separate_server_options, start_turn,
    two_ledgers,
};
use super::{database, fixture_at, keyring};

/// A part of the contract suite: every statement at least once, and every operation that needs several.
mod contract {
    use std::sync::OnceLock;

    use super::{Fixture, PgBouncer, database, fixture_at, keyring};

    fn fixture() -> Fixture {
        // The pooler of the server that all tests' databases share; it ends with this process.
        static POOL: OnceLock<PgBouncer> = OnceLock::new();
        let database = database();
        let pool = POOL.get_or_init(|| PgBouncer::before(&database, 4));
        let fixture = fixture_at(&pool.url(database.name()), keyring());
        Fixture {
            keep: Box::new(database),
            ..fixture
        }
    }

    filrouge_store::contract_tests! { @each fixture;
        bytes { every_byte_is_returned_unchanged }
        chain { the_commit_log_counts_every_commit }
        changes { each_kind_of_change_is_in_the_feed, a_concurrent_reader_misses_nothing, commits_are_reported }
        checkpoints {
            a_checkpoint_is_written_once_per_seq, states_of_any_size_are_stored, one_of_many_equal_checkpoints_is_new,
        }
        checkpoints_kept { the_newest_checkpoints_are_kept, redaction_deletes_covering_checkpoints }
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
}

#[test]
fn two_servers_share_two_connections() {
    let database = database();
    let pool = PgBouncer::before(&database, 2);
    block_on(async {
        let ledgers = two_ledgers(&pool.url(database.name()));
        let workload = Workload::start(&ledgers, 6, 5);
        workload.wait_for_writes(600).await;
        assert_eq!(workload.finish_and_check().await, 0, "writes were refused");
        close(ledgers).await;
    });
}

#[test]
fn a_pooler_that_crashes_under_load_loses_no_write() {
    let server = Server::start(ServerOptions {
        durable: true,
        ..ServerOptions::default()
    });
    let database = server.database();
    let mut pool = PgBouncer::before(&server, 4);
    block_on(async {
        let ledgers = vec![
            open(separate_server_options(&pool.url(&database))),
            open(separate_server_options(&pool.socket_url(&database))),
        ];
        let workload = Workload::start(&ledgers, 8, 4);
        for _ in 0..8 {
            workload.wait_for_writes(40).await;
            tokio::task::block_in_place(|| pool.kill_and_restart());
        }
        workload.wait_for_writes(40).await;
        workload.finish_and_check().await;
        close(ledgers).await;
    });
}

/// Only the pooler can report the crash of the server behind it to its clients.
#[test]
fn a_server_that_crashes_behind_a_pooler_loses_no_write() {
    let server = Server::start(ServerOptions {
        durable: true,
        ..ServerOptions::default()
    });
    let database = server.database();
    let pool = PgBouncer::with_settings(&server, 4, &[("server_login_retry", "1")]);
    block_on(async {
        let ledgers = two_ledgers(&pool.url(&database));
        let workload = Workload::start(&ledgers, 8, 4);
        for _ in 0..2 {
            workload.wait_for_writes(40).await;
            tokio::task::block_in_place(|| {
                server.stop_immediate();
                server.restart();
            });
        }
        workload.wait_for_writes(40).await;
        workload.finish_and_check().await;
        close(ledgers).await;
    });
}

fn with_direct(pool: &str, direct: &str) -> Options {
    separate_server_options(pool).with_direct(direct).unwrap()
}

#[test]
fn commits_are_announced_over_the_direct_url() {
    let database = database();
    let pool = PgBouncer::before(&database, 3);
    block_on(async {
        let url = pool.url(database.name());
        let listener = open(with_direct(&url, &database.url()));
        let writer = open(separate_server_options(&url));
        assert_commits_are_announced(&*listener, &*writer).await;
        close(vec![listener, writer]).await;
    });
}

/// Notifications are optional: without them everything else works.
#[test]
fn an_unreachable_direct_url_does_not_affect_writes() {
    let database = database();
    let pool = PgBouncer::before(&database, 3);
    block_on(async {
        let url = pool.url(database.name());
        let nowhere = format!("postgres://postgres@127.0.0.1:1/{}", database.name());
        let ledgers = vec![
            open(with_direct(&url, &nowhere)),
            open(separate_server_options(&url)),
        ];
        let workload = Workload::start(&ledgers, 4, 4);
        workload.wait_for_writes(200).await;
        assert_eq!(workload.finish_and_check().await, 0, "writes were refused");
        close(ledgers).await;
    });
}

#[test]
fn pooled_connections_keep_no_state() {
    let database = database();
    // With a single connection, any leftover becomes visible.
    let pool = PgBouncer::before(&database, 1);
    block_on(async {
        let url = pool.url(database.name());
        let ledger = open(separate_server_options(&url));
        start_turn(&*ledger, "s", "r").await;
        assert_intact(&*ledger).await;
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        for (query, expected) in [
            ("SELECT count(*) FROM pg_prepared_statements", "0"),
            ("SELECT count(*) FROM pg_listening_channels()", "0"),
            ("SHOW enable_seqscan", "on"),
            ("SHOW idle_in_transaction_session_timeout", "0"),
            ("SHOW lock_timeout", "0"),
            ("SHOW transaction_isolation", "read committed"),
        ] {
            let answer = client.simple_query(query).await.unwrap();
            let value = answer.iter().find_map(|message| match message {
                SimpleQueryMessage::Row(row) => row.get(0),
                _ => None,
            });
            assert_eq!(value, Some(expected), "{query}");
        }
        close(vec![ledger]).await;
    });
}
