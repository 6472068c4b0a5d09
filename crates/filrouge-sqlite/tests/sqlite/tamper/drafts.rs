//! Drafts are not chained, but every change of them is detected: every byte of their rows is authenticated, and the
//! commit log names the newest chunk.

use std::collections::BTreeMap;

use filrouge_store::Outcome;
use filrouge_store::contract::drafts::{abandon, delta, put, stream};
use filrouge_store::contract::fixture::{anyone, code, sid};
use filrouge_store::contract::removed_drafts::{self, Removal};
use filrouge_store::verify::Verdict;
use filrouge_types::{Channel, ErrorCode};
use rusqlite::Connection;

use super::super::{fixture_at, keyring};
use super::block_on;

#[test]
fn a_changed_draft_is_refused_and_does_not_block_the_turn() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.db");
        let f = fixture_at(&path, keyring());
        let who = anyone();
        let id = f.start(&who, "s", "r").await.turn_id;
        f.write(&who, put("s", id, stream(1), 0, Vec::new()))
            .await
            .unwrap();
        for n in 1..=2 {
            let deltas = vec![delta(0, n == 1, "shown")];
            f.write(&who, put("s", id, stream(1), n, deltas))
                .await
                .unwrap();
        }
        f.assert_intact().await;
        f.ledger.close().await;
        let conn = Connection::open(&path).unwrap();
        let flips = flips(&conn);
        assert!(flips.len() > 100, "{}", flips.len());
        let others = [
            "DELETE FROM draft_chunk WHERE number = 1".to_owned(),
            "DELETE FROM draft_chunk".to_owned(),
            "UPDATE draft_chunk SET number = number + 2".to_owned(),
            "UPDATE draft_chunk SET data = (SELECT data FROM draft_chunk WHERE number = 1)"
                .to_owned(),
            "UPDATE draft SET turn = turn + 256".to_owned(),
        ];
        let all = flips.iter().step_by(3).chain(&others).enumerate();
        for (n, sql) in all {
            let copy = folder.path().join(format!("{n}.db"));
            conn.execute("VACUUM INTO ?1", [copy.to_str().unwrap()])
                .unwrap();
            Connection::open(&copy).unwrap().execute(sql, []).unwrap();
            let g = fixture_at(&copy, keyring());
            let report = g.ledger.verify(None).await.unwrap();
            assert_ne!(report.verdict(), Verdict::Intact, "{sql}");
            let read = g.ledger.drafts(&who, &sid("s"), BTreeMap::new()).await;
            if !sql.starts_with("UPDATE draft SET turn") {
                let refused = [ErrorCode::IntegrityError, ErrorCode::KeyMissing];
                assert!(refused.contains(&code(read)), "{sql}");
            }
            // The turn can still end, without the unverifiable draft.
            let ended = g.write(&who, abandon("s", id, stream(1), i64::MAX)).await;
            if matches!(ended, Ok(Outcome::Interrupted(Some(_)))) {
                let items = g.items(&who, "s", 9).await;
                let channels: Vec<_> = items.iter().map(|i| i.body.channel.clone()).collect();
                assert_eq!(channels, [Channel::Question, Channel::Interrupted], "{sql}");
                g.assert_intact().await;
            }
            g.ledger.close().await;
        }
    });
}

#[test]
fn the_removed_end_of_a_draft_is_found() {
    let removals = [
        (Removal::Chunk, "DELETE FROM draft_chunk WHERE number = 3"),
        (
            Removal::ChunkAndRow,
            "DELETE FROM draft_chunk WHERE number = 3; UPDATE draft SET data = (SELECT data FROM old)",
        ),
        (Removal::Draft, "DELETE FROM draft_chunk; DELETE FROM draft"),
    ];
    for ((removal, sql), reopens) in removals.into_iter().flat_map(|r| [(r, false), (r, true)]) {
        block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("f.db");
            let mut f = fixture_at(&path, keyring());
            let turn = removed_drafts::begin(&f).await;
            let conn = Connection::open(&path).unwrap();
            conn.execute_batch("CREATE TEMP TABLE old AS SELECT * FROM draft")
                .unwrap();
            removed_drafts::write_chunk(&f, turn, 3).await.unwrap();
            f.assert_intact().await;
            conn.execute_batch(sql).unwrap();
            if reopens {
                f.ledger.close().await;
                f = fixture_at(&path, keyring());
            }
            removed_drafts::check(&f, turn, removal).await;
            f.ledger.close().await;
        });
    }
}

/// For each byte of the drafts' rows, a statement that changes it.
fn flips(conn: &Connection) -> Vec<String> {
    let mut all = Vec::new();
    for (table, key) in [("draft", "turn"), ("draft_chunk", "number")] {
        let sql = format!("SELECT {key}, data FROM {table}");
        let mut statement = conn.prepare(&sql).unwrap();
        let rows = statement.query_map([], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?))
        });
        for row in rows.unwrap() {
            let (id, bytes) = row.unwrap();
            for at in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << (at % 8);
                let hex: String = changed.iter().map(|b| format!("{b:02x}")).collect();
                all.push(format!(
                    "UPDATE {table} SET data = x'{hex}' WHERE {key} = {id}"
                ));
            }
        }
    }
    all
}
