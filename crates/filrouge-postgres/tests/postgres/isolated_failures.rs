//! A failed write or a damaged row does not affect others, and a database's settings have no effect.

use std::sync::Arc;

use filrouge_store::Lane;
use filrouge_store::command::{SessionFilter, Write};
use filrouge_store::contract::fixture::{Fixture, anyone, append, code, item, start, start_with};
use filrouge_store::contract::lanes::session_in;
use filrouge_store::contract::{concurrency, run};
use filrouge_types::{Channel, ErrorCode};

use super::{database, fixture_at, keyring};

/// A name that exceeds the maximum size of an index entry even when it is compressed.
fn long_name() -> String {
    let mut state = 1_u64;
    let letters = (0..4000).map(|_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        char::from(b'0' + u8::try_from(state >> 33 & 0x3f).unwrap())
    });
    letters.collect()
}

#[test]
fn an_agents_name_may_be_long() {
    let database = database();
    run(
        fixture_at(&database.url(), keyring()),
        async |f: &Fixture| {
            let turn = f.start(&anyone(), "s", "r").await;
            let mut body = item(Channel::Observation, "seen");
            body.agent = Some(long_name().into());
            let write = append("s", turn.turn_id, vec![body], None);
            f.write(&anyone(), write).await.unwrap();
            let filter = SessionFilter {
                agent: Some(long_name().into()),
                ..SessionFilter::default()
            };
            let (found, _) = f.ledger.sessions(&anyone(), filter, None, 9).await.unwrap();
            assert_eq!(found.len(), 1);
            f.assert_intact().await;
        },
    );
}

#[test]
fn a_write_that_the_database_refuses_does_not_fail_others() {
    let database = database();
    // The database refuses a write because of its contents: here, an agent's name.
    database.sql(
        "CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF NEW.agent = 'refused'::bytea THEN RAISE EXCEPTION 'no' USING ERRCODE = '54000'; END IF;
             RETURN NEW; END $$;
         CREATE TRIGGER refuse BEFORE INSERT ON filrouge.session_agent FOR EACH ROW EXECUTE FUNCTION public.refuse()",
    );
    run(
        fixture_at(&database.url(), keyring()),
        async |f: &Fixture| {
            let mut tasks = Vec::new();
            for n in 0..40 {
                let ledger = f.ledger.clone();
                let refused = n % 4 == 0;
                let write = start_with(&anyone(), &format!("s{n}"), "r", "q", None, |_, items| {
                    if refused {
                        items[0].agent = Some("refused".into());
                    }
                });
                let command = filrouge_store::Command {
                    scope: anyone(),
                    write: Write::Start(Arc::new(write)),
                };
                tasks.push((
                    refused,
                    tokio::spawn(async move { ledger.write(command).await }),
                ));
            }
            for (refused, task) in tasks {
                assert_eq!(task.await.unwrap().is_err(), refused);
            }
            f.assert_intact().await;
        },
    );
}

#[test]
fn a_session_is_created_even_if_the_newest_row_is_missing() {
    let database = database();
    run(
        fixture_at(&database.url(), keyring()),
        async |f: &Fixture| {
            // Each lane numbers its own sessions.
            let lanes = f.ledger.lanes();
            let [first, newest, another] =
                ["first", "newest", "another"].map(|name| session_in(lanes, Lane::new(2), name));
            f.complete_turn(&anyone(), &first, "r", "words").await;
            f.complete_turn(&anyone(), &newest, "r", "words").await;
            database.sql(&format!(
                "SET session_replication_role = replica; DELETE FROM filrouge.session WHERE session_id = '{newest}'"
            ));
            let turn = f.complete_turn(&anyone(), &another, "r", "words").await;
            assert_eq!(turn.first_seq, 1);
            f.complete_turn(&anyone(), &first, "r2", "words").await;
        },
    );
}

#[test]
fn settings_of_the_database_have_no_effect() {
    let database = database();
    let name = database.name();
    database.sql(&format!(
        "ALTER DATABASE {name} SET default_transaction_isolation = 'repeatable read';
         ALTER DATABASE {name} SET default_transaction_read_only = on;
         ALTER DATABASE {name} SET search_path = public, filrouge;
         ALTER DATABASE {name} SET bytea_output = 'escape'"
    ));
    let other = fixture_at(&database.url(), keyring());
    run(
        fixture_at(&database.url(), keyring()),
        async |f: &Fixture| {
            concurrency::many_tasks_write_to_few_sessions(f).await;
            other.start(&anyone(), "of another server", "r").await;
            let again = f.start(&anyone(), "of another server", "r").await;
            assert!(again.replayed);
            f.assert_intact().await;
        },
    );
}

#[test]
fn a_store_that_is_the_target_of_a_copy_accepts_no_writes() {
    let database = database();
    run(
        fixture_at(&database.url(), keyring()),
        async |f: &Fixture| {
            database.sql("INSERT INTO filrouge.store VALUES ('copying', 'another')");
            let refused = f
                .try_start(&anyone(), start(&anyone(), "s", "r", "q"))
                .await;
            assert_eq!(code(refused), ErrorCode::StoreUnavailable);
            database.sql("DELETE FROM filrouge.store WHERE name = 'copying'");
            let turn = f.start(&anyone(), "s", "r").await;
            assert!(!turn.replayed);
            f.assert_intact().await;
        },
    );
}
