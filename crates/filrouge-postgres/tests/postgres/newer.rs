//! A store that a newer filrouge migrates while this one runs.

use filrouge_postgres::SCHEMA_VERSION;
use filrouge_store::Ledger;
use filrouge_testbed::Database;
use filrouge_types::{ErrorCode, TurnId};

use super::database;
use super::faults::{put, until_taken};
use super::many::callers::{eventually, items};
use super::many::{close, open, separate_server_options, started, wait};

fn set_schema(database: &Database, schema: &str) {
    database.sql(&format!(
        "UPDATE filrouge.store SET value = '{schema}' WHERE name = 'schema'"
    ));
}

async fn refuses(ledger: &dyn Ledger, turn: TurnId) {
    let refused = put(ledger, turn, "k").await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::StoreReadOnly, "{refused:?}");
    assert!(refused.detail.contains("99"), "{refused:?}");
    assert!(refused.hint.unwrap().contains("newer"));
    assert!(ledger.health().read_only.unwrap().contains("99"));
    assert_eq!(items(ledger, "s").await.len(), 1, "it can still be read");
}

#[test]
fn a_store_with_a_newer_schema_is_not_written() {
    let database = database();
    wait(async {
        let ledger = open(separate_server_options(&database.url()));
        let turn = started(&*ledger, "s", "r").await.turn_id;
        set_schema(&database, "99");
        eventually("it is seen", || ledger.health().read_only.is_some()).await;
        refuses(&*ledger, turn).await;
        set_schema(&database, &SCHEMA_VERSION.to_string());
        eventually("it is seen", || ledger.health().read_only.is_none()).await;
        put(&*ledger, turn, "k").await.unwrap();
        close(vec![ledger]).await;
    });
}

#[test]
fn a_newer_schema_is_detected_over_a_new_connection() {
    let database = database();
    wait(async {
        let ledger = open(separate_server_options(&database.url()));
        let turn = started(&*ledger, "s", "r").await.turn_id;
        set_schema(&database, "99");
        database.terminate_backends();
        refuses(&*ledger, turn).await;
        set_schema(&database, &SCHEMA_VERSION.to_string());
        eventually("it is seen", || ledger.health().read_only.is_none()).await;
        until_taken(&*ledger, turn, "k").await;
        close(vec![ledger]).await;
    });
}
