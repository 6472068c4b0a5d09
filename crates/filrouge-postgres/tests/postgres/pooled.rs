//! Behind PgBouncer in transaction mode: every transaction may be another connection of the server's.

use filrouge_postgres::Options;
use filrouge_store::contract::Fixture;
use filrouge_testbed::{Options as ServerOptions, PgBouncer, Server};
use tokio_postgres::{NoTls, SimpleQueryMessage};

use super::many::callers::{Crowd, intact};
use super::many::{close, is_told, of_its_own, open, started, two, wait};
use super::{database, keyring, on};

/// A part of the contract once more: every statement at least once, and whatever asks for several.
mod contract {
    use std::sync::OnceLock;

    use super::{Fixture, PgBouncer, database, keyring, on};

    fn fixture() -> Fixture {
        // Of the server that all databases are on; it ends with this process.
        static POOL: OnceLock<PgBouncer> = OnceLock::new();
        let database = database();
        let pool = POOL.get_or_init(|| PgBouncer::before(&database, 4));
        let fixture = on(&pool.url(database.name()), keyring());
        Fixture {
            keep: Box::new(database),
            ..fixture
        }
    }

    filrouge_store::contract_tests! { @each fixture;
        bytes { every_byte_comes_back }
        chain { the_commit_log_counts_every_commit }
        changes { each_kind_of_change, a_reader_beside_writers_misses_nothing, commits_are_told }
        checkpoints { once_for_each_seq, states_of_any_size, one_of_many_checkpoints_is_new }
        checkpoints_kept { the_newest_are_kept, redaction_takes_what_covers }
        concurrency { many_tasks_over_few_sessions, all_writes_at_once_twice_have_one_effect }
        conflicts { a_refused_write_leaves_nothing }
        drafts { growing, becoming_items, gone_with_the_session }
        drafts_kept { kept_whoever_ends_the_turn }
        erasure { nothing_stays_but_the_name, a_session_of_many_records }
        events { once_for_each_key, events_page_in_order }
        full_pages { large_sessions }
        idempotency { append_again, retry_after_every_failure }
        leases { the_fence_only_grows, made_by_acquiring, going_on_is_told_once }
        leases_release { given_free_with_the_last_write }
        leases_together { one_of_many_takes_it }
        leases_writes { a_live_lease_keeps_others_from_writing }
        life { every_status_meets_every_write, reopening }
        links { one_of_many_logins_wins }
        notes { compared_and_set, notes_beside_sessions }
        order { big_batches_keep_their_order }
        owners { lists_show_ones_own }
        paging { sessions_page_while_others_write, status_filter, session_filters }
        patches { each_field_by_itself }
        redact { a_redacted_turn, items_of_an_open_turn }
        redact_many { interleaved_and_long_turns }
        replace { replacing }
        sessions { closing, a_secret_keeps_an_anonymous_session }
    }
}

#[test]
fn two_servers_share_two_connections() {
    let database = database();
    let pool = PgBouncer::before(&database, 2);
    wait(async {
        let ledgers = two(&pool.url(database.name()));
        let crowd = Crowd::at_work(&ledgers, 6, 5);
        crowd.goes_on(600).await;
        assert_eq!(crowd.ends_well().await, 0, "nothing was refused");
        close(ledgers).await;
    });
}

#[test]
fn a_pooler_that_dies_under_load_loses_nothing() {
    let server = Server::start(ServerOptions {
        durable: true,
        ..ServerOptions::default()
    });
    let database = server.database();
    let mut pool = PgBouncer::before(&server, 4);
    wait(async {
        let ledgers = vec![
            open(of_its_own(&pool.url(&database))),
            open(of_its_own(&pool.socket_url(&database))),
        ];
        let crowd = Crowd::at_work(&ledgers, 8, 4);
        for _ in 0..8 {
            crowd.goes_on(40).await;
            tokio::task::block_in_place(|| pool.kill_and_restart());
        }
        crowd.goes_on(40).await;
        crowd.ends_well().await;
        close(ledgers).await;
    });
}

/// The server behind the pooler dies: the pooler itself tells its clients so.
#[test]
fn a_server_that_dies_behind_a_pooler_loses_nothing() {
    let server = Server::start(ServerOptions {
        durable: true,
        ..ServerOptions::default()
    });
    let database = server.database();
    let pool = PgBouncer::with_settings(&server, 4, &[("server_login_retry", "1")]);
    wait(async {
        let ledgers = two(&pool.url(&database));
        let crowd = Crowd::at_work(&ledgers, 8, 4);
        for _ in 0..2 {
            crowd.goes_on(40).await;
            tokio::task::block_in_place(|| {
                server.stop_immediate();
                server.start_again();
            });
        }
        crowd.goes_on(40).await;
        crowd.ends_well().await;
        close(ledgers).await;
    });
}

fn with_direct(pool: &str, direct: &str) -> Options {
    of_its_own(pool).with_direct(direct).unwrap()
}

#[test]
fn the_server_itself_tells_of_commits() {
    let database = database();
    let pool = PgBouncer::before(&database, 3);
    wait(async {
        let url = pool.url(database.name());
        let far = open(with_direct(&url, &database.url()));
        let near = open(of_its_own(&url));
        is_told(&*far, &*near).await;
        close(vec![far, near]).await;
    });
}

/// Wake-ups are a convenience: without them everything else goes on.
#[test]
fn a_direct_way_that_leads_nowhere_stops_nothing() {
    let database = database();
    let pool = PgBouncer::before(&database, 3);
    wait(async {
        let url = pool.url(database.name());
        let nowhere = format!("postgres://postgres@127.0.0.1:1/{}", database.name());
        let ledgers = vec![open(with_direct(&url, &nowhere)), open(of_its_own(&url))];
        let crowd = Crowd::at_work(&ledgers, 4, 4);
        crowd.goes_on(200).await;
        assert_eq!(crowd.ends_well().await, 0, "nothing was refused");
        close(ledgers).await;
    });
}

#[test]
fn nothing_is_left_on_the_pooled_connections() {
    let database = database();
    // One connection: what anybody leaves on it is seen.
    let pool = PgBouncer::before(&database, 1);
    wait(async {
        let url = pool.url(database.name());
        let ledger = open(of_its_own(&url));
        started(&*ledger, "s", "r").await;
        intact(&*ledger).await;
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        for (what, expected) in [
            ("SELECT count(*) FROM pg_prepared_statements", "0"),
            ("SELECT count(*) FROM pg_listening_channels()", "0"),
            ("SHOW enable_seqscan", "on"),
            ("SHOW idle_in_transaction_session_timeout", "0"),
            ("SHOW lock_timeout", "0"),
            ("SHOW transaction_isolation", "read committed"),
        ] {
            let answer = client.simple_query(what).await.unwrap();
            let value = answer.iter().find_map(|message| match message {
                SimpleQueryMessage::Row(row) => row.get(0),
                _ => None,
            });
            assert_eq!(value, Some(expected), "{what}");
        }
        close(vec![ledger]).await;
    });
}
