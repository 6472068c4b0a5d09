//! Changes every byte of the victim's stored rows, one at a time.

use super::{Fixture, World, anyone, attempt, block_on, refused_operations, world};
use filrouge_store::verify::Verdict;

const PK: &str = "(SELECT pk FROM session WHERE session_id = 'victim')";

/// Changes each byte of `column` in turn. While it is changed, the operations in `letters` must be refused, for example
/// `s`, which reads the session's record (see `OPERATIONS` in tamper.rs).
async fn flip(
    world: &World,
    f: &Fixture,
    table: &str,
    column: &str,
    row: &str,
    letters: &str,
    is_body: bool,
) {
    let conn = world.raw();
    let row = row.replace("$pk", PK);
    let read = format!("SELECT {column}, rowid FROM {table} WHERE {row}");
    let (bytes, rowid): (Vec<u8>, i64) = conn
        .query_row(&read, [], |r| Ok((r.get(0)?, r.get(1)?)))
        .unwrap();
    let write = format!("UPDATE {table} SET {column} = ?1 WHERE rowid = ?2");
    let before: Vec<String> = readings(f, world).await;
    for at in 0..bytes.len() {
        let name = format!("{table}.{column} byte {at} of {}", bytes.len());
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        conn.execute(&write, rusqlite::params![changed, rowid])
            .unwrap();
        // A new ledger is opened each time: a running one may know a session as damaged by an earlier byte.
        let g = super::fixture_at(&world.path(), super::keyring());
        let report = g.ledger.verify(None).await.unwrap();
        if report.verdict() == Verdict::Intact {
            // Spare bits of a compressed frame may change the stored bytes without changing the content.
            assert!(is_body, "{name}");
            assert_eq!(readings(&g, world).await, before, "{name}");
        } else {
            super::assert_refused(
                &name,
                &refused_operations(&g, "victim", &name).await,
                letters,
            );
        }
        g.ledger.close().await;
    }
    conn.execute(&write, rusqlite::params![bytes, rowid])
        .unwrap();
}

async fn readings(f: &Fixture, world: &World) -> Vec<String> {
    let items = f
        .ledger
        .items(&anyone(), &world.open.session_id, 0, 100)
        .await;
    let turn = f
        .ledger
        .turn(&anyone(), &world.done.session_id, world.done.turn_id)
        .await;
    vec![format!("{items:?}"), format!("{turn:?}")]
}

#[test]
fn every_stored_byte_is_authenticated() {
    block_on(async {
        let (world, f) = world().await;
        attempt(&f, "victim", 's').await.unwrap();
        f.ledger.close().await;
        let f = super::fixture_at(&world.path(), super::keyring());
        let record =
            "id = (SELECT record_id FROM record_key WHERE session_pk = $pk AND first_seq = 1)";
        // `i` reads the items, `t` the turns, `1` the first turn; `a` appends to the open turn, `n` starts a new one.
        flip(&world, &f, "record", "head", record, "it1", false).await;
        flip(&world, &f, "record", "body", record, "it1", true).await;
        flip(&world, &f, "head", "data", "pk = $pk", "sit1an", false).await;
        let open = "id >> 32 = $pk AND open_since IS NOT NULL";
        flip(&world, &f, "turn", "data", open, "ta", false).await;
    });
}
