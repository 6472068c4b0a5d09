//! A store of schema 1 is brought up to date with all that stands in it.

use std::sync::Arc;

use filrouge_postgres::{Options, PostgresLedger, migrate_up, schema};
use filrouge_store::command::NewEvent;
use filrouge_store::contract::asks::{event, json};
use filrouge_store::contract::fixture::{Fixture, anyone, sid};
use filrouge_store::{Ledger, OsEntropy};
use filrouge_testbed::{Database, Row};
use filrouge_types::{ErrorCode, EventKey, SessionEvent, SessionId, Timestamp};

use crate::held::{acquire, checkpoint};
use crate::{MIGRATIONS, NOON, database, keyring, on};

use super::block_on;

fn options(url: &str) -> Options {
    Options::new(url, keyring(), Arc::new(OsEntropy)).unwrap()
}

/// Events whose keys and kinds take one and two bytes for their lengths, at times before and after 1970.
fn events(s: &str) -> Vec<NewEvent> {
    let made = |key: &str, kind: usize, at: Option<i64>, detail: bool| NewEvent {
        key: EventKey::new(key).unwrap(),
        kind: "k".repeat(kind).into(),
        at: at.map(Timestamp::from_micros),
        detail: detail.then(|| json(r#"{"détail":"…"}"#)),
        ..event(s, "e", "k")
    };
    vec![
        made("short", 4, None, false),
        made(&"n".repeat(127), 127, Some(-1), true),
        made(&"m".repeat(200), 64, Some(-62_135_596_800_000_000), false),
        made("late", 1, Some(253_402_300_799_999_999), true),
        made("é", 2, Some(0), false),
    ]
}

/// A database with a store as schema 1 had it: its tables made by the first migration alone, its rows as they are now.
async fn of_schema_1() -> Database {
    let database = database();
    let f = on(&database.url(), keyring());
    for s in ["s", "other"] {
        f.whole(&anyone(), s, "r", "a").await;
        f.start(&anyone(), s, "open").await;
        for event in events(s) {
            f.record(&anyone(), event).await.unwrap();
        }
    }
    f.ledger.close().await;
    let old = [
        "session",
        "head",
        "turn",
        "record",
        "item_key",
        "session_agent",
        "note",
        "commit_log",
    ]
    .map(|t| format!("INSERT INTO filrouge.{t} SELECT * FROM newer.{t};"));
    database.sql(&format!(
        "ALTER SCHEMA filrouge RENAME TO newer; {} DELETE FROM filrouge.store; {}
         INSERT INTO filrouge.event SELECT session_pk, number, key, data FROM newer.event;
         INSERT INTO filrouge.store SELECT name, CASE name WHEN 'schema' THEN '1' ELSE value END FROM newer.store;
         DROP SCHEMA newer CASCADE",
        MIGRATIONS[0],
        old.concat()
    ));
    database
}

/// The columns, indexes, guards and functions.
fn structure(database: &Database) -> Vec<Row> {
    database.sql(
        "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns
         WHERE table_schema = 'filrouge' ORDER BY table_name, ordinal_position;
         SELECT indexdef FROM pg_indexes WHERE schemaname = 'filrouge' ORDER BY 1;
         SELECT pg_get_triggerdef(t.oid), t.tgenabled::text FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
         WHERE c.relnamespace = 'filrouge'::regnamespace ORDER BY 1;
         SELECT proname::text, prosrc FROM pg_proc WHERE pronamespace = 'filrouge'::regnamespace ORDER BY 1",
    )
}

async fn by_time(f: &Fixture, from: i64, to: i64) -> Vec<(SessionId, SessionEvent)> {
    let tenant = anyone().tenant;
    let asked = f.ledger.ask(move |sight| {
        let span = [from, to].map(Timestamp::from_micros);
        let mut all = Vec::new();
        sight.tenant_events(&tenant, span.into(), &mut |session, event| {
            all.push((session.clone(), event.clone()));
            Ok(())
        })?;
        Ok(all)
    });
    asked.await.unwrap()
}

/// Everything is as it was, and what is new works.
async fn up_to_date(database: &Database) {
    let f = on(&database.url(), keyring());
    f.intact().await;
    let all = by_time(&f, i64::MIN, i64::MAX).await;
    let times: Vec<i64> = all.iter().map(|(_, e)| e.at.as_micros()).collect();
    assert!(times.is_sorted() && all.len() == 10, "{all:?}");
    for s in ["s", "other"] {
        let of_session = f.ledger.events(&anyone(), &sid(s), 0, 99).await.unwrap();
        assert_eq!(of_session.0.len(), 5);
        for event in of_session.0 {
            assert!(all.contains(&(sid(s), event)));
        }
        for event in events(s) {
            assert!(!f.record(&anyone(), event).await.unwrap().1, "it is known");
        }
    }
    assert_eq!(by_time(&f, -1, 1).await.len(), 4);
    assert_eq!(by_time(&f, NOON, NOON + 1_000_000_000).await.len(), 2);
    f.write(&anyone(), checkpoint("s", None, "STATE", 3))
        .await
        .unwrap();
    f.write(&anyone(), acquire("s", "holder", Some(None)))
        .await
        .unwrap();
    f.intact().await;
    f.ledger.close().await;
}

/// The server that finds an older schema brings it up to date when it starts; one of several.
#[test]
fn a_server_brings_it_up_to_date() {
    block_on(async {
        let database = of_schema_1().await;
        let opened = super::at_once(&database.url(), vec![keyring(); 4]);
        for ledger in opened {
            ledger.unwrap().close().await;
        }
        assert_eq!(structure(&database), structure(&crate::database()));
        up_to_date(&database).await;
    });
}

#[test]
fn it_is_brought_up_to_date_apart() {
    block_on(async {
        let database = of_schema_1().await;
        let url = database.url();
        let before = migrate_up(&options(&url)).unwrap();
        assert_eq!((before.version, before.known), (1, 3));
        let now = schema(&options(&url)).unwrap();
        assert_eq!((now.version, now.pending().count()), (3, 0));
        up_to_date(&database).await;
    });
}

/// The statements that are pending do the same when they are run by hand, in one transaction.
#[test]
fn its_statements_are_run_by_hand() {
    block_on(async {
        let database = of_schema_1().await;
        let before = structure(&database);
        let told = schema(&options(&database.url())).unwrap();
        let pending: Vec<_> = told
            .pending()
            .map(|step| (step.number, step.name))
            .collect();
        assert_eq!(pending, [(2, "leases"), (3, "search")]);
        assert_eq!(structure(&database), before, "nothing was done");
        let statements: String = told.pending().map(|step| step.sql).collect();
        database.sql(&format!("BEGIN; {statements} COMMIT"));
        assert_eq!(structure(&database), structure(&crate::database()));
        up_to_date(&database).await;
    });
}

/// An event that is malformed keeps nobody from bringing the store up to date, and is told of as before.
#[test]
fn a_malformed_event_stays_one() {
    block_on(async {
        for data in [
            "''",
            "substr(data, 1, 9)",
            "'\\x01ffffffffffffffffffffffffffffff'",
            "'\\x0100000001ff'",
        ] {
            let database = of_schema_1().await;
            database.sql(&format!(
                "SET session_replication_role = replica;
                 UPDATE filrouge.event SET data = {data} WHERE session_pk = 1 AND number = 2"
            ));
            let f = on(&database.url(), keyring());
            let report = f.ledger.verify(None).await.unwrap();
            assert!(
                report
                    .findings
                    .iter()
                    .any(|f| f.session_id.as_deref() == Some("s")),
                "{data}: {report:?}"
            );
            let read = f.ledger.events(&anyone(), &sid("s"), 0, 9).await;
            assert_eq!(read.unwrap_err().code, ErrorCode::IntegrityError, "{data}");
            let other = f.ledger.events(&anyone(), &sid("other"), 0, 9).await;
            assert_eq!(other.unwrap().0.len(), 5);
            f.ledger.close().await;
        }
    });
}

/// A role that may use the tables may use those that are new.
#[test]
fn a_role_keeps_its_rights() {
    block_on(async {
        let database = of_schema_1().await;
        let role = format!("clerk_{}", database.name());
        database.sql(&format!(
            "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA filrouge TO {role};
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA filrouge TO {role}"
        ));
        let url = database.url().replace("postgres@", &format!("{role}@"));
        let refused = PostgresLedger::open(options(&url));
        let refused = refused.map(drop).unwrap_err();
        assert!(
            refused.detail.contains("42501") && refused.hint.is_some(),
            "{refused:?}"
        );
        migrate_up(&options(&database.url())).unwrap();
        let f = on(&url, keyring());
        f.write(&anyone(), checkpoint("s", None, "STATE", 1))
            .await
            .unwrap();
        f.erase(&anyone(), "s").await.unwrap();
        f.intact().await;
        f.ledger.close().await;
        database.sql(&format!("DROP OWNED BY {role}"));
    });
}
