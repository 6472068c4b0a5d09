//! The database itself refuses every change that filrouge never makes, to every role (SQLSTATE FR001).

use filrouge_store::contract::fixture::{Fixture, anyone, item, keyed, redact_items, sid};
use filrouge_store::contract::session_writes::event;
use filrouge_store::verify::Verdict;
use filrouge_testbed::Database;
use filrouge_types::{Channel, ErrorCode, ItemBody};
use tokio_postgres::{Client, NoTls};

use super::{database, fixture_at, keyring};

fn block_on(work: impl Future<Output = ()>) {
    tokio::runtime::Runtime::new().unwrap().block_on(work);
}

/// A store with a row in every guarded table.
async fn filled_store() -> (Database, Fixture) {
    let database = database();
    let f = fixture_at(&database.url(), keyring());
    for s in ["s", "other"] {
        let turn = f.start(&anyone(), s, "r").await;
        let body = ItemBody {
            agent: Some("planner".into()),
            ..keyed("k", "x")
        };
        f.append(&anyone(), &turn, vec![body, item(Channel::Plan, "y")])
            .await
            .unwrap();
        f.record(&anyone(), event(s, "e", "kind")).await.unwrap();
        let put = super::shared_leases::checkpoint(s, None, "STATE", 3);
        f.write(&anyone(), put).await.unwrap();
    }
    assert!(f.ledger.put_note("n", 0, vec![1]).await.unwrap());
    (database, f)
}

async fn client(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The SQLSTATE with which a statement fails; `00000` if it succeeds.
async fn sqlstate(client: &Client, sql: &str) -> String {
    match client.batch_execute(sql).await {
        Ok(()) => "00000".to_owned(),
        Err(e) => {
            client.batch_execute("ROLLBACK").await.unwrap();
            e.code()
                .unwrap_or_else(|| panic!("{sql}: {e:?}"))
                .code()
                .to_owned()
        }
    }
}

/// Changes that filrouge never makes, by table.
const FORBIDDEN: [(&str, &str); 29] = [
    ("record", "UPDATE filrouge.record SET body = ''"),
    ("record", "UPDATE filrouge.record SET head = head"),
    ("record", "DELETE FROM filrouge.record"),
    ("record", "TRUNCATE filrouge.record"),
    ("commit_log", "UPDATE filrouge.commit_log SET data = ''"),
    ("commit_log", "DELETE FROM filrouge.commit_log"),
    ("commit_log", "TRUNCATE filrouge.commit_log"),
    ("session", "DELETE FROM filrouge.session"),
    ("session", "TRUNCATE filrouge.session"),
    ("head", "DELETE FROM filrouge.head"),
    ("head", "TRUNCATE filrouge.head"),
    ("turn", "DELETE FROM filrouge.turn"),
    ("turn", "TRUNCATE filrouge.turn"),
    ("item_key", "UPDATE filrouge.item_key SET seq = 1"),
    ("item_key", "DELETE FROM filrouge.item_key"),
    ("item_key", "TRUNCATE filrouge.item_key"),
    (
        "session_agent",
        "UPDATE filrouge.session_agent SET agent = 'x'",
    ),
    ("session_agent", "DELETE FROM filrouge.session_agent"),
    ("session_agent", "TRUNCATE filrouge.session_agent"),
    ("event", "UPDATE filrouge.event SET data = ''"),
    ("event", "UPDATE filrouge.event SET at = at + 1"),
    ("event", "DELETE FROM filrouge.event"),
    ("event", "TRUNCATE filrouge.event"),
    ("checkpoint", "TRUNCATE filrouge.checkpoint"),
    ("note", "DELETE FROM filrouge.note"),
    ("note", "TRUNCATE filrouge.note"),
    ("lane", "UPDATE filrouge.lane SET lane = lane + 8"),
    ("lane", "DELETE FROM filrouge.lane"),
    ("lane", "TRUNCATE filrouge.lane"),
];

#[test]
fn no_role_may_change_a_ledger() {
    block_on(async {
        let (database, f) = filled_store().await;
        let role = format!("clerk_{}", database.name());
        database.sql(&format!(
            "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA filrouge TO {role};
             GRANT ALL ON ALL TABLES IN SCHEMA filrouge TO {role}"
        ));
        let clerk = client(&database.url().replace("postgres@", &format!("{role}@"))).await;
        let owner = client(&database.url()).await;
        for who in [&clerk, &owner] {
            for (table, sql) in FORBIDDEN {
                assert_eq!(sqlstate(who, sql).await, "FR001", "{table}: {sql}");
            }
            // Functions and operators that shadow PostgreSQL's own have no effect.
            let shadows = "CREATE FUNCTION pg_temp.yes(text, text) RETURNS bool LANGUAGE sql AS 'SELECT true';
                CREATE OPERATOR pg_temp.= (LEFTARG = text, RIGHTARG = text, FUNCTION = pg_temp.yes);
                SET search_path = pg_temp, pg_catalog";
            who.batch_execute(shadows).await.unwrap();
            let erased =
                "BEGIN; SET LOCAL filrouge.erases = 'x'; DELETE FROM filrouge.turn; COMMIT";
            assert_eq!(sqlstate(who, erased).await, "FR001");
            who.batch_execute("RESET search_path").await.unwrap();
        }
        f.assert_intact().await;
        f.ledger.close().await;
        database.sql(&format!("DROP OWNED BY {role}"));
        drop(clerk);
    });
}

#[test]
fn redaction_and_erasure_are_allowed() {
    block_on(async {
        let (_database, f) = filled_store().await;
        f.write_redaction(&anyone(), redact_items("s", &[(2, 2)]))
            .await
            .unwrap();
        f.erase(&anyone(), "other").await.unwrap();
        assert!(f.items(&anyone(), "s", 9).await[1].redacted);
        f.assert_intact().await;
        f.ledger.close().await;
    });
}

/// A transaction that claims to redact may empty the named session's records, but change neither their position nor the
/// link to the previous record.
#[test]
fn a_transaction_that_claims_to_redact_can_only_empty_records() {
    block_on(async {
        let (database, f) = filled_store().await;
        let owner = client(&database.url()).await;
        let [pk, other] = [f.pk("s").await, f.pk("other").await];
        let claiming = |pk: u64, sql: &str| {
            format!(
                "BEGIN; SET LOCAL filrouge.redacts = '{pk}'; SET LOCAL filrouge.erases = '{pk}'; {sql}; COMMIT"
            )
        };
        let link = "set_byte(head, length(head) - 48, get_byte(head, length(head) - 48) # 1)";
        let update =
            |set: &str| format!("UPDATE filrouge.record SET {set} WHERE session_pk = {pk}");
        let delete = |table: &str| format!("DELETE FROM filrouge.{table} WHERE session_pk = {pk}");
        for (claimed, sql) in [
            (pk, update(&format!("head = {link}"))),
            (pk, update("head = ''")),
            (pk, update("head = substr(head, 1, 40)")),
            (pk, update("count = count + 1")),
            (pk, update("first_seq = first_seq + 100")),
            (pk, update("session_pk = session_pk + 8")),
            (pk, update("lane = lane + 1")),
            (other, update("body = ''")),
            (other, delete("record")),
            (other, delete("turn")),
            (pk, "TRUNCATE filrouge.record".to_owned()),
            (pk, format!("DELETE FROM filrouge.head WHERE pk = {pk}")),
        ] {
            assert_eq!(
                sqlstate(&owner, &claiming(claimed, &sql)).await,
                "FR001",
                "{sql}"
            );
        }
        f.assert_intact().await;
        // The guard cannot distinguish this change from a redaction, but the MAC reveals it.
        let emptied = claiming(pk, &update("body = ''"));
        assert_eq!(sqlstate(&owner, &emptied).await, "00000");
        let report = f.ledger.verify(None).await.unwrap();
        assert_eq!(report.verdict(), Verdict::Broken);
        f.ledger.close().await;
    });
}

/// A part of the finding that `verify` reports, a statement that damages the schema, and one that repairs it.
const FAULTS: [(&str, &str, &str); 10] = [
    (
        "guard_delete BEFORE DELETE ON filrouge.turn",
        "ALTER TABLE filrouge.turn DISABLE TRIGGER guard_delete",
        "ALTER TABLE filrouge.turn ENABLE TRIGGER guard_delete",
    ),
    (
        "guard_truncate BEFORE TRUNCATE ON filrouge.record",
        "ALTER TABLE filrouge.record ENABLE REPLICA TRIGGER guard_truncate",
        "ALTER TABLE filrouge.record ENABLE TRIGGER guard_truncate",
    ),
    (
        "guard_update BEFORE UPDATE ON filrouge.commit_log",
        "DROP TRIGGER guard_update ON filrouge.commit_log",
        "CREATE TRIGGER guard_update BEFORE UPDATE ON filrouge.commit_log FOR EACH ROW
         EXECUTE FUNCTION filrouge.guard_always()",
    ),
    (
        "guard_delete BEFORE DELETE ON filrouge.event",
        "CREATE OR REPLACE TRIGGER guard_delete BEFORE DELETE ON filrouge.event FOR EACH ROW
         WHEN (false) EXECUTE FUNCTION filrouge.guard_erasure()",
        "CREATE OR REPLACE TRIGGER guard_delete BEFORE DELETE ON filrouge.event FOR EACH ROW
         EXECUTE FUNCTION filrouge.guard_erasure()",
    ),
    (
        "guard_delete BEFORE DELETE ON filrouge.session",
        "ALTER TRIGGER guard_delete ON filrouge.session RENAME TO other",
        "ALTER TRIGGER other ON filrouge.session RENAME TO guard_delete",
    ),
    (
        "function guard_always",
        "ALTER FUNCTION filrouge.guard_always() RENAME TO kept; CREATE FUNCTION filrouge.guard_always() RETURNS trigger
         LANGUAGE plpgsql SET search_path = pg_catalog AS 'BEGIN RETURN OLD; END'",
        "DROP FUNCTION filrouge.guard_always(); ALTER FUNCTION filrouge.kept() RENAME TO guard_always",
    ),
    (
        "function guard_record",
        "ALTER FUNCTION filrouge.guard_record() RESET search_path",
        "ALTER FUNCTION filrouge.guard_record() SET search_path = pg_catalog",
    ),
    (
        "index turn_open is not valid",
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'filrouge.turn_open'::regclass",
        "UPDATE pg_index SET indisvalid = true WHERE indexrelid = 'filrouge.turn_open'::regclass",
    ),
    (
        "index event_at is missing",
        "DROP INDEX filrouge.event_at",
        "CREATE INDEX event_at ON filrouge.event (lane, at, session_pk, number)",
    ),
    (
        "guard_truncate BEFORE TRUNCATE ON filrouge.checkpoint",
        "DROP TRIGGER guard_truncate ON filrouge.checkpoint",
        "CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON filrouge.checkpoint FOR EACH STATEMENT
         EXECUTE FUNCTION filrouge.guard_always()",
    ),
];

#[test]
fn verify_reports_changed_guards_and_indexes() {
    block_on(async {
        let (database, f) = filled_store().await;
        f.assert_intact().await;
        for (what, damage, repair) in FAULTS {
            database.sql(damage);
            let report = f.ledger.verify(None).await.unwrap();
            assert_eq!(report.verdict(), Verdict::Broken, "{damage}");
            assert!(
                report.findings.iter().any(|f| f.what.contains(what)),
                "{what}: {report:?}"
            );
            database.sql(repair);
            f.assert_intact().await;
        }
        f.ledger.close().await;
    });
}

/// A missing or altered table is reported as damage, not as an internal error.
#[test]
fn a_missing_or_altered_table_is_reported() {
    for damage in [
        "DROP TABLE filrouge.event CASCADE",
        "ALTER TABLE filrouge.turn RENAME COLUMN data TO other",
    ] {
        block_on(async {
            let (database, f) = filled_store().await;
            f.ledger.close().await;
            database.sql(damage);
            let options = super::options(&database.url(), keyring());
            let opened = filrouge_postgres::PostgresLedger::open(options).map(|ledger| {
                let ledger: std::sync::Arc<dyn filrouge_store::Ledger> =
                    std::sync::Arc::new(ledger);
                ledger
            });
            let refused = match opened {
                Err(failure) => failure,
                Ok(ledger) => {
                    let read = ledger.events(&anyone(), &sid("s"), 0, 9).await;
                    ledger.close().await;
                    read.unwrap_err()
                }
            };
            assert_eq!(
                refused.code,
                ErrorCode::IntegrityError,
                "{damage}: {refused}"
            );
        });
    }
}
