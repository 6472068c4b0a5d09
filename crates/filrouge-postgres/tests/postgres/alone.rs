//! What one write or one row brings about stays its own affair, and what a database is set to is nobody's.

use std::sync::Arc;

use filrouge_store::command::{SessionFilter, Write};
use filrouge_store::contract::fixture::{Fixture, anyone, append, code, item, start, start_with};
use filrouge_store::contract::{concurrency, run};
use filrouge_types::{Channel, ErrorCode};

use super::{database, keyring, on};

/// Letters that no compression makes shorter than an index entry may be.
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
fn names_of_agents_may_be_long() {
    let database = database();
    run(on(&database.url(), keyring()), async |f: &Fixture| {
        let turn = f.start(&anyone(), "s", "r").await;
        let mut made = item(Channel::Observation, "seen");
        made.agent = Some(long_name().into());
        let write = append("s", turn.turn_id, vec![made], None);
        f.write(&anyone(), write).await.unwrap();
        let filter = SessionFilter {
            agent: Some(long_name().into()),
            ..SessionFilter::default()
        };
        let (found, _) = f.ledger.sessions(&anyone(), filter, None, 9).await.unwrap();
        assert_eq!(found.len(), 1);
        f.intact().await;
    });
}

#[test]
fn a_write_that_the_database_refuses_spoils_no_other() {
    let database = database();
    // Whatever it is that one write has brought along: here, a word.
    database.sql(
        "CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF NEW.agent = 'refused'::bytea THEN RAISE EXCEPTION 'no' USING ERRCODE = '54000'; END IF;
             RETURN NEW; END $$;
         CREATE TRIGGER refuse BEFORE INSERT ON filrouge.session_agent FOR EACH ROW EXECUTE FUNCTION public.refuse()",
    );
    run(on(&database.url(), keyring()), async |f: &Fixture| {
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
        f.intact().await;
    });
}

#[test]
fn sessions_are_made_also_when_the_newest_ones_row_is_gone() {
    let database = database();
    run(on(&database.url(), keyring()), async |f: &Fixture| {
        f.whole(&anyone(), "first", "r", "words").await;
        f.whole(&anyone(), "newest", "r", "words").await;
        database.sql(
            "SET session_replication_role = replica; DELETE FROM filrouge.session WHERE session_id = 'newest'",
        );
        let made = f.whole(&anyone(), "another", "r", "words").await;
        assert_eq!(made.first_seq, 1);
        f.whole(&anyone(), "first", "r2", "words").await;
    });
}

#[test]
fn what_the_database_is_set_to_changes_nothing() {
    let database = database();
    let name = database.name();
    database.sql(&format!(
        "ALTER DATABASE {name} SET default_transaction_isolation = 'repeatable read';
         ALTER DATABASE {name} SET default_transaction_read_only = on;
         ALTER DATABASE {name} SET search_path = public, filrouge;
         ALTER DATABASE {name} SET bytea_output = 'escape'"
    ));
    let other = on(&database.url(), keyring());
    run(on(&database.url(), keyring()), async |f: &Fixture| {
        concurrency::many_tasks_over_few_sessions(f).await;
        other.start(&anyone(), "from elsewhere", "r").await;
        let again = f.start(&anyone(), "from elsewhere", "r").await;
        assert!(again.replayed);
        f.intact().await;
    });
}

#[test]
fn a_store_that_is_copied_into_takes_no_writes() {
    let database = database();
    run(on(&database.url(), keyring()), async |f: &Fixture| {
        database.sql("INSERT INTO filrouge.store VALUES ('copying', 'another')");
        let refused = f
            .try_start(&anyone(), start(&anyone(), "s", "r", "q"))
            .await;
        assert_eq!(code(refused), ErrorCode::StoreUnavailable);
        database.sql("DELETE FROM filrouge.store WHERE name = 'copying'");
        let turn = f.start(&anyone(), "s", "r").await;
        assert!(!turn.replayed);
        f.intact().await;
    });
}
