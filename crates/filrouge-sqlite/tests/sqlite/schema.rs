//! Stores of older schemas are brought up to date with everything in them.

use filrouge_store::command::SessionFilter;
use filrouge_store::contract::asks::{event, link, patch, title};
use filrouge_store::contract::fixture::{anyone, item, keyed, operator, redact_items, sid, user};
use filrouge_store::verify::Verdict;
use filrouge_types::{Channel, ItemBody, Timestamp};
use rusqlite::Connection;

use super::{keyring, on};

/// Takes away what the third schema and the later ones have added. What sessions, turns and records are did not change with it, as long
/// as nothing was written that is new.
pub(crate) fn back_to(conn: &Connection, version: i64) {
    conn.execute_batch(&format!(
        "DROP TABLE checkpoint; DROP TABLE draft; DROP TABLE draft_chunk; DROP TABLE session_agent; DROP TABLE event; DROP TABLE note; DROP INDEX session_parent;
         ALTER TABLE session DROP COLUMN token; ALTER TABLE session DROP COLUMN erased;
         PRAGMA user_version = {version}; VACUUM;"
    ))
    .unwrap();
}

/// Takes away what the fifth schema has added.
fn back_to_drafts(conn: &Connection) {
    conn.execute_batch(
        "DROP TABLE checkpoint; DROP INDEX event_at; ALTER TABLE event DROP COLUMN at;
         PRAGMA user_version = 4; VACUUM;",
    )
    .unwrap();
}

/// Schema by name of table, index and column, as the migrations alone make it.
fn schema(conn: &Connection) -> Vec<String> {
    let sql = "SELECT m.name || ' ' || c.name || ' ' || c.type || ' ' || c.pk FROM sqlite_schema m, pragma_table_info(m.name) c
         UNION SELECT name FROM sqlite_schema WHERE type = 'index' ORDER BY 1";
    let mut statement = conn.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

fn block_on(work: impl std::future::Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .enable_time()
        .build()
        .unwrap()
        .block_on(work);
}

#[test]
fn what_is_taken_away_is_what_was_added() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.db");
    drop(on(&path, keyring()));
    let conn = Connection::open(&path).unwrap();
    back_to(&conn, 2);
    let older = Connection::open_in_memory().unwrap();
    for sql in [
        include_str!("../../src/migrations/0001_journal.sql"),
        include_str!("../../src/migrations/0002_redaction.sql"),
    ] {
        older.execute_batch(sql).unwrap();
    }
    assert_eq!(schema(&conn), schema(&older));
}

#[test]
fn older_stores_keep_everything() {
    for version in [1, 2] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.db");
        block_on(async {
            let (ann, f) = (user("ann"), on(&path, keyring()));
            let turn = f.start(&ann, "s", "r").await;
            let said = |agent: &str| ItemBody {
                agent: Some(agent.into()),
                ..item(Channel::Thought, agent)
            };
            // More than one record, and the last speaker alone in the last one.
            let many = (0..100).map(|n| keyed(&format!("k{n}"), "x"));
            let many = many.chain([said("coder")]).collect();
            f.append(&ann, &turn, many).await.unwrap();
            f.whole(&ann, "s", "r2", "a").await;
            f.append(&ann, &turn, vec![said("planner")]).await.unwrap();
            f.redacted(&ann, redact_items("s", &[(3, 4), (102, 102)]))
                .await
                .unwrap();
            f.whole(&anyone(), "open", "r", "a").await;
            f.create(&ann, "empty").await.unwrap();
            let before = (
                f.items(&ann, "s", 500).await,
                f.session(&ann, "s").await.unwrap(),
                f.ledger.position(),
                f.feed(&operator("t"), 3).await,
            );
            f.ledger.close().await;
            drop(f);
            back_to(&Connection::open(&path).unwrap(), version);

            let f = on(&path, keyring());
            f.intact().await;
            let after = (
                f.items(&ann, "s", 500).await,
                f.session(&ann, "s").await.unwrap(),
                f.ledger.position(),
                f.feed(&operator("t"), 3).await,
            );
            assert_eq!(after, before, "schema {version}");
            for (agent, found) in [("planner", 1), ("coder", 1), ("nobody", 0)] {
                let filter = SessionFilter {
                    agent: Some(agent.into()),
                    ..SessionFilter::default()
                };
                let (list, _) = f.ledger.sessions(&ann, filter, None, 9).await.unwrap();
                assert_eq!(list.len(), found, "{agent} of a store of schema {version}");
            }
            // And all that is new can be done to what is old.
            f.session_of(&ann, patch("s", title("t"))).await.unwrap();
            f.session_of(&ann, link("open", "ann")).await.unwrap();
            f.record(&ann, event("s", "k", "kind")).await.unwrap();
            f.ledger.put_note("n", 0, vec![1]).await.unwrap();
            f.erase(&ann, "s").await.unwrap();
            f.intact().await;
            f.ledger.close().await;
        });
    }
}

/// A session that cannot be read keeps no store from being opened; who has spoken in it is not known then.
#[test]
fn a_broken_session_does_not_hold_it_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.db");
    block_on(async {
        let f = on(&path, keyring());
        let said = ItemBody {
            agent: Some("coder".into()),
            ..item(Channel::Thought, "x")
        };
        for s in ["whole", "broken", "titled"] {
            let turn = f.start(&anyone(), s, "r").await;
            f.append(&anyone(), &turn, vec![said.clone()])
                .await
                .unwrap();
        }
        f.ledger.close().await;
        drop(f);
        let conn = Connection::open(&path).unwrap();
        back_to(&conn, 2);
        conn.execute_batch(
            "UPDATE record SET body = x'07' WHERE id IN (SELECT record_id FROM record_key WHERE session_pk = 2);
             UPDATE record_key SET count = 9223372036854775807 WHERE session_pk = 2 AND first_seq = 2;
             UPDATE session SET title = x'ff' WHERE session_id = 'titled'",
        )
        .unwrap();
        drop(conn);
        let f = on(&path, keyring());
        let filter = SessionFilter {
            agent: Some("coder".into()),
            ..SessionFilter::default()
        };
        let found = f.ledger.ask(move |sight| {
            let all = sight.view.sessions(&operator("t"), &filter, None, 9)?;
            Ok(all.into_iter().map(|s| s.pk).collect::<Vec<_>>())
        });
        assert_eq!(found.await.unwrap(), [1]);
        let report = f.ledger.verify(None).await.unwrap();
        assert_eq!(report.verdict(), Verdict::Broken);
        f.ledger.close().await;
    });
}

/// When events happened is told by the events themselves; it is noted of those that are there already.
#[test]
fn events_of_older_stores_are_found_by_their_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.db");
    block_on(async {
        let f = on(&path, keyring());
        // More than are noted at once.
        for n in 0..1100 {
            let session = if n % 2 == 0 { "a" } else { "b" };
            if n < 2 {
                f.create(&anyone(), session).await.unwrap();
            }
            let mut made = event(session, &format!("k{n}"), "kind");
            made.at = (n > 0).then(|| Timestamp::from_micros(5000 - n));
            f.record(&anyone(), made).await.unwrap();
        }
        f.ledger.close().await;
        drop(f);
        let conn = Connection::open(&path).unwrap();
        let dump = |conn: &Connection| {
            let sql = "SELECT session_pk, number, key, data FROM event ORDER BY 1, 2";
            let mut statement = conn.prepare(sql).unwrap();
            type Row = (i64, i64, Vec<u8>, Vec<u8>);
            let rows =
                statement.query_map([], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?)));
            rows.unwrap().map(Result::unwrap).collect::<Vec<Row>>()
        };
        let before = dump(&conn);
        back_to_drafts(&conn);
        drop(conn);
        let f = on(&path, keyring());
        f.intact().await;
        let found = f.ledger.ask(|sight| {
            let (mut times, mut after) = (Vec::new(), None);
            loop {
                let span = (Timestamp::from_micros(0), Timestamp::from_micros(5001));
                let rows = sight.view.events_at(span.0, span.1, after, 100)?;
                let Some((pk, last)) = rows.last() else {
                    return Ok(times);
                };
                after = Some((last.event.at, *pk, last.number));
                times.extend(rows.iter().map(|(_, row)| row.event.at.as_micros()));
            }
        });
        let times: Vec<i64> = (0..1099).map(|n| 3901 + n).collect();
        assert_eq!(found.await.unwrap(), times);
        f.ledger.close().await;
        assert_eq!(dump(&Connection::open(&path).unwrap()), before);
    });
}

/// An event that cannot be read keeps no store from being opened.
#[test]
fn a_broken_event_does_not_hold_it_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.db");
    block_on(async {
        let f = on(&path, keyring());
        f.create(&anyone(), "s").await.unwrap();
        for n in 0..3 {
            f.record(&anyone(), event("s", &format!("k{n}"), "kind"))
                .await
                .unwrap();
        }
        f.ledger.close().await;
        drop(f);
        let conn = Connection::open(&path).unwrap();
        back_to_drafts(&conn);
        let broken = "UPDATE event SET data = 'text' WHERE number = 2";
        conn.execute_batch(broken).unwrap();
        drop(conn);
        let f = on(&path, keyring());
        let report = f.ledger.verify(None).await.unwrap();
        assert_eq!(report.verdict(), Verdict::Broken);
        let first = f.ledger.events(&anyone(), &sid("s"), 2, 9).await.unwrap();
        assert_eq!(first.0.len(), 1, "the others are there");
        f.ledger.close().await;
    });
}
