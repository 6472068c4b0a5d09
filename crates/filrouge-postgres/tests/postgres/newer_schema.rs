//! A store that a newer filrouge migrates while this one runs.

use filrouge_postgres::SCHEMA_VERSION;
use filrouge_store::Ledger;
use filrouge_testbed::Database;
use filrouge_types::{ErrorCode, TurnId};

use super::database;
use super::faults::{put, retry_until_written};
use super::servers::callers::{eventually, items};
use super::servers::{block_on, close, open, separate_server_options, start_turn};

fn set_schema(database: &Database, schema: &str) {
    database.sql(&format!(
        "UPDATE filrouge.store SET value = '{schema}' WHERE name = 'schema'"
    ));
}

async fn assert_refuses_writes(ledger: &dyn Ledger, turn: TurnId) {
    let refused = put(ledger, turn, "k").await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::StoreReadOnly, "{refused:?}");
    assert!(refused.detail.contains("99"), "{refused:?}");
    assert!(refused.hint.unwrap().contains("newer"));
    assert!(ledger.health().read_only.unwrap().contains("99"));
    assert_eq!(
        items(ledger, "s").await.len(),
        1,
        "the store can still be read"
    );
}

#[test]
fn a_store_with_a_newer_schema_is_not_written() {
    let database = database();
    block_on(async {
        let ledger = open(separate_server_options(&database.url()));
        let turn = start_turn(&*ledger, "s", "r").await.turn_id;
        set_schema(&database, "99");
        eventually("the newer schema is detected", || {
            ledger.health().read_only.is_some()
        })
        .await;
        assert_refuses_writes(&*ledger, turn).await;
        set_schema(&database, &SCHEMA_VERSION.to_string());
        eventually("the known schema is detected", || {
            ledger.health().read_only.is_none()
        })
        .await;
        put(&*ledger, turn, "k").await.unwrap();
        close(vec![ledger]).await;
    });
}

#[test]
fn a_newer_schema_is_detected_over_a_new_connection() {
    let database = database();
    block_on(async {
        let ledger = open(separate_server_options(&database.url()));
        let turn = start_turn(&*ledger, "s", "r").await.turn_id;
        set_schema(&database, "99");
        database.terminate_backends();
        assert_refuses_writes(&*ledger, turn).await;
        set_schema(&database, &SCHEMA_VERSION.to_string());
        eventually("the known schema is detected", || {
            ledger.health().read_only.is_none()
        })
        .await;
        retry_until_written(&*ledger, turn, "k").await;
        close(vec![ledger]).await;
    });
}
