//! A running ledger serves a damaged session again when the session's newest rows are back, and not before.

use rusqlite::Connection;

use super::{Fixture, VICTIM, World, block_on, refused_operations, world};

/// Runs a statement, in which `$pk` is the victim's number, as somebody with access to the file.
fn run(conn: &Connection, sql: &str) {
    let pk = "(SELECT pk FROM old.session WHERE session_id = 'victim')";
    let sql = format!("BEGIN IMMEDIATE; {sql}; COMMIT;").replace("$pk", pk);
    conn.execute_batch(&sql).unwrap();
}

/// A connection that has the victim's older rows as `old`.
fn attacker(world: &World) -> Connection {
    let conn = world.raw();
    let old = world.folder.path().join("old.db");
    let sql = format!(
        "PRAGMA foreign_keys = OFF; ATTACH '{}' AS old",
        old.display()
    );
    conn.execute_batch(&sql).unwrap();
    conn
}

const DAMAGES: [&str; 4] = [
    "UPDATE head SET data = CAST(x'ff' || substr(data, 2) AS BLOB) WHERE pk = $pk",
    "UPDATE session SET title = 'forged' WHERE pk = $pk",
    "DELETE FROM head WHERE pk = $pk",
    "DELETE FROM head WHERE pk = $pk; DELETE FROM session WHERE pk = $pk",
];
const OLDER_HEAD: &str = "REPLACE INTO head SELECT * FROM old.head WHERE pk = $pk";
const KEEP: &str = "DROP TABLE IF EXISTS temp.kept_session; DROP TABLE IF EXISTS temp.kept_head;
    CREATE TEMP TABLE kept_session AS SELECT * FROM main.session WHERE pk = $pk;
    CREATE TEMP TABLE kept_head AS SELECT * FROM main.head WHERE pk = $pk";
const REPAIR: [&str; 2] = [
    "REPLACE INTO main.session SELECT * FROM temp.kept_session",
    "REPLACE INTO main.head SELECT * FROM temp.kept_head",
];

async fn assert_refused(f: &Fixture, what: &str) {
    assert_eq!(
        refused_operations(f, VICTIM, what).await,
        "sit1an",
        "{what}"
    );
    assert_eq!(refused_operations(f, "other", what).await, "", "{what}");
    assert!(f.ledger.health().integrity.is_some(), "{what}");
}

#[test]
fn a_repaired_session_is_served_again() {
    block_on(async {
        let (world, f) = world().await;
        let conn = attacker(&world);
        for damage in DAMAGES {
            run(&conn, KEEP);
            run(&conn, damage);
            assert_refused(&f, damage).await;
            // Only the session's row is back, and then an older state of the session.
            run(&conn, REPAIR[0]);
            if damage.contains("head") {
                assert_refused(&f, damage).await;
            }
            run(&conn, OLDER_HEAD);
            assert_refused(&f, "older head").await;
            run(&conn, REPAIR[1]);
            assert_eq!(refused_operations(&f, VICTIM, "repaired").await, "");
            f.assert_intact().await;
        }
        f.ledger.close().await;
    });
}
