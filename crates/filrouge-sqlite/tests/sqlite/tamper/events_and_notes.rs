//! Events and notes changed outside filrouge.

use filrouge_store::contract::fixture::{Fixture, anyone, code, keyed, operator, sid};
use filrouge_store::contract::live_writes::checkpoint;
use filrouge_store::contract::session_writes::{anyone_with_secret, event};
use filrouge_store::verify::{Verdict, VerificationReport};
use filrouge_types::{ErrorCode, Failure, ItemBody};
use rusqlite::Connection;

use super::block_on;
use crate::{fixture_at, keyring};

mod agents;
mod erased;

const BROKEN: ErrorCode = ErrorCode::IntegrityError;

/// A store in which `s` and `other` have four events each, notes `a` and `b` are at version 3, `kept` has a secret, and
/// `gone` is erased. The file `old.db` contains the notes at version 2, and `gone` before its erasure.
struct World(tempfile::TempDir);

impl World {
    async fn new() -> (Self, Fixture) {
        let folder = tempfile::tempdir().unwrap();
        let f = fixture_at(&folder.path().join("f.db"), keyring());
        for s in ["s", "other", "gone"] {
            f.complete_turn(&anyone(), s, "r", "a").await;
            let turn = f.start(&anyone(), s, "open").await;
            let body = ItemBody {
                agent: Some("planner".into()),
                ..keyed("k", "x")
            };
            f.append(&anyone(), &turn, vec![body]).await.unwrap();
            for n in 1..=4 {
                let new_event = event(s, &format!("k{n}"), "kind");
                f.record(&anyone(), new_event).await.unwrap();
            }
            f.write_checkpoint(&anyone(), checkpoint(s, None, None, "{}"))
                .await
                .unwrap();
        }
        f.create(&anyone_with_secret(&f, "secret"), "kept")
            .await
            .unwrap();
        for version in 0..3 {
            if version == 2 {
                let old = folder.path().join("old.db");
                let conn = Connection::open(folder.path().join("f.db")).unwrap();
                conn.execute("VACUUM INTO ?1", [old.to_str().unwrap()])
                    .unwrap();
            }
            for name in ["a", "b"] {
                let value = format!("{name} {version}");
                assert!(
                    f.ledger
                        .put_note(name, version, value.into())
                        .await
                        .unwrap()
                );
            }
        }
        f.erase(&anyone(), "gone").await.unwrap();
        f.assert_intact().await;
        (Self(folder), f)
    }

    fn sql(&self, sql: &str) {
        let conn = Connection::open(self.0.path().join("f.db")).unwrap();
        conn.busy_timeout(std::time::Duration::from_secs(5))
            .unwrap();
        let old = self.0.path().join("old.db");
        let pk = |name| format!("(SELECT pk FROM main.session WHERE session_id = '{name}')");
        let sql = sql
            .replace("$s", &pk("s"))
            .replace("$other", &pk("other"))
            .replace("$gone", &pk("gone"));
        let sql = format!(
            "ATTACH '{}' AS old; BEGIN IMMEDIATE; {sql}; COMMIT;",
            old.display()
        );
        conn.execute_batch(&sql)
            .unwrap_or_else(|e| panic!("{sql}: {e}"));
    }

    /// Creates a world and executes `sql` on it, under a running ledger or before the ledger is opened.
    async fn changed(sql: &str, running: bool) -> (Self, Fixture) {
        let (world, f) = Self::new().await;
        if running {
            world.sql(sql);
            return (world, f);
        }
        f.ledger.close().await;
        drop(f);
        world.sql(sql);
        let f = fixture_at(&world.0.path().join("f.db"), keyring());
        (world, f)
    }
}

async fn report(f: &Fixture) -> VerificationReport {
    f.ledger.verify(None).await.unwrap()
}

/// Asserts that `verify` names the session and no other.
async fn assert_names(f: &Fixture, session: &str, name: &str) {
    let report = report(f).await;
    assert_eq!(report.verdict(), Verdict::Broken, "{name}");
    let named = report
        .findings
        .iter()
        .map(|found| found.session_id.as_deref());
    assert!(
        named.clone().all(|n| n == Some(session)),
        "{name}: {report:?}"
    );
}

async fn events(f: &Fixture, session: &str) -> Result<usize, Failure> {
    let page = f.ledger.events(&anyone(), &sid(session), 0, 50).await?;
    Ok(page.0.len())
}

#[test]
fn changed_events_are_refused() {
    let at = |n: u32| format!("session_pk = $s AND number = {n}");
    for (name, sql, page_refused) in [
        ("changed", format!("UPDATE event SET data = CAST(substr(data, 1, 9) || x'55' || substr(data, 11) AS BLOB) WHERE {}", at(2)), true),
        ("emptied", format!("UPDATE event SET data = x'' WHERE {}", at(2)), true),
        ("at another time", format!("UPDATE event SET at = at + 1 WHERE {}", at(2)), true),
        ("at a time of another type", format!("UPDATE event SET at = 'soon' WHERE {}", at(2)), true),
        ("of another type", format!("UPDATE event SET data = 'text' WHERE {}", at(2)), true),
        ("deleted in the middle", format!("DELETE FROM event WHERE {}", at(2)), true),
        ("the first deleted", format!("DELETE FROM event WHERE {}", at(1)), true),
        ("moved to the end", format!("UPDATE event SET number = 5 WHERE {}", at(4)), true),
        ("of another session", format!("DELETE FROM event WHERE {}; UPDATE event SET session_pk = $s WHERE session_pk = $other AND number = 2", at(2)), true),
        ("two swapped", "UPDATE event SET number = 9 WHERE session_pk = $s AND number = 2;
            UPDATE event SET number = 2 WHERE session_pk = $s AND number = 3;
            UPDATE event SET number = 3 WHERE session_pk = $s AND number = 9".to_owned(), true),
        ("added", "INSERT INTO event SELECT $s, 5, randomblob(16), data, at FROM event WHERE session_pk = $s AND number = 4".to_owned(), true),
        // In these cases each page is consistent; only the log shows how many events existed.
        ("the newest deleted", format!("DELETE FROM event WHERE {}", at(4)), false),
        ("all deleted", "DELETE FROM event WHERE session_pk = $s".to_owned(), false),
    ] {
        for running in [false, true] {
            block_on(async {
                let (_world, f) = World::changed(&sql, running).await;
                let page = events(&f, "s").await;
                assert_eq!(page.is_err(), page_refused, "{name}: {page:?}");
                if let Err(failure) = page {
                    assert_eq!(failure.code, BROKEN, "{name}");
                    assert_eq!(failure.location.unwrap().session_id, "s", "{name}");
                }
                let only = f.ledger.verify(Some((anyone(), sid("s")))).await.unwrap();
                assert_eq!(only.verdict() == Verdict::Broken, page_refused, "{name}");
                assert_eq!(f.items(&anyone(), "s", 9).await.len(), 4, "{name}: items are not events");
                if name != "of another session" {
                    assert_names(&f, "s", name).await;
                    assert_eq!(events(&f, "other").await.unwrap(), 4, "{name}");
                } else {
                    assert_eq!(report(&f).await.verdict(), Verdict::Broken);
                }
                f.ledger.close().await;
            });
        }
    }
}

#[test]
fn reusing_an_events_number_is_detected() {
    block_on(async {
        let (_world, f) = World::changed(
            "DELETE FROM event WHERE session_pk = $s AND number = 4",
            true,
        )
        .await;
        f.record(&anyone(), event("s", "instead", "kind"))
            .await
            .unwrap();
        assert_eq!(events(&f, "s").await.unwrap(), 4);
        assert_names(&f, "s", "one too few").await;
    });
}

#[test]
fn changed_event_keys_are_refused() {
    let swapped = "UPDATE event SET key = x'00' WHERE session_pk = $s AND number = 1;
        UPDATE event SET key = (SELECT key FROM event WHERE session_pk = $other AND number = 1) WHERE session_pk = $s AND number = 2;
        UPDATE event SET key = (SELECT key FROM event WHERE session_pk = $other AND number = 2) WHERE session_pk = $s AND number = 1";
    for sql in [
        swapped,
        "UPDATE event SET key = x'00' WHERE session_pk = $s AND number = 1",
    ] {
        block_on(async {
            let (_world, f) = World::changed(sql, true).await;
            assert_names(&f, "s", sql).await;
            if sql == swapped {
                let refused = f.record(&anyone(), event("s", "k1", "kind")).await;
                assert_eq!(code(refused), BROKEN);
            }
            assert!(
                !f.record(&anyone(), event("s", "k4", "kind"))
                    .await
                    .unwrap()
                    .1
            );
        });
    }
}

#[test]
fn events_without_a_session_are_reported() {
    block_on(async {
        let sql =
            "INSERT INTO event SELECT 77, number, key, data, at FROM event WHERE session_pk = $s";
        let (_world, f) = World::changed(sql, false).await;
        let report = report(&f).await;
        assert_eq!(report.verdict(), Verdict::Broken);
        assert!(report.findings[0].what.contains("77"), "{report:?}");
        assert_eq!(events(&f, "s").await.unwrap(), 4);
    });
}

/// Asserts that the note `a` is refused and `verify` reports it, while `b` and all sessions remain readable.
async fn assert_note_refused(f: &Fixture, name: &str) {
    assert_eq!(code(f.ledger.note("a").await), BROKEN, "{name}");
    for version in [0, 2, 3] {
        let put = f.ledger.put_note("a", version, b"forged".to_vec()).await;
        assert_eq!(code(put), BROKEN, "{name}");
    }
    assert!(f.ledger.health().integrity.is_some(), "{name}");
    assert_eq!(report(f).await.verdict(), Verdict::Broken, "{name}");
}

#[test]
fn changed_notes_are_refused() {
    for (name, sql) in [
        (
            "changed",
            "UPDATE note SET data = substr(data, 1, 7) || x'55' || substr(data, 9) WHERE name = 'a'",
        ),
        ("emptied", "UPDATE note SET data = x'' WHERE name = 'a'"),
        ("deleted", "DELETE FROM note WHERE name = 'a'"),
        ("renamed", "UPDATE note SET name = 'c' WHERE name = 'a'"),
        (
            "older",
            "REPLACE INTO note SELECT * FROM old.note WHERE name = 'a'",
        ),
        (
            "of another name",
            "REPLACE INTO note SELECT 'a', data FROM note WHERE name = 'b'",
        ),
    ] {
        for running in [false, true] {
            block_on(async {
                let (_world, f) = World::changed(sql, running).await;
                assert_note_refused(&f, name).await;
                assert_eq!(f.ledger.note("b").await.unwrap().unwrap().value, b"b 2");
                assert!(f.ledger.put_note("b", 3, b"next".to_vec()).await.unwrap());
                f.complete_turn(&anyone(), "s", "more", "a").await;
                assert_eq!(f.feed(&operator("t"), 99).await.len(), 27);
                assert_note_refused(&f, name).await;
                f.ledger.close().await;
            });
        }
    }
}

/// Other damage does not hide an older note, such as one in which a key is not yet revoked.
#[test]
fn an_older_note_is_detected_despite_other_damage() {
    for other in [
        "UPDATE session SET title = 'x' WHERE session_id = 'other'",
        "DELETE FROM head WHERE pk = $other",
        "DELETE FROM note WHERE name = 'b'",
    ] {
        block_on(async {
            let sql = format!("{other}; REPLACE INTO note SELECT * FROM old.note WHERE name = 'a'");
            let (_world, f) = World::changed(&sql, false).await;
            assert_note_refused(&f, other).await;
            assert_eq!(f.items(&anyone(), "s", 9).await.len(), 4);
        });
    }
}

#[test]
fn restored_notes_and_commits_are_detected() {
    block_on(async {
        // The newest commit is kept, because otherwise the anchor would detect the change.
        let sql =
            "DELETE FROM commit_log WHERE commit_no > (SELECT max(commit_no) FROM old.commit_log)
            AND commit_no < (SELECT max(commit_no) FROM commit_log);
            REPLACE INTO note SELECT * FROM old.note";
        let (_world, f) = World::changed(sql, false).await;
        assert_eq!(code(f.ledger.note("a").await), BROKEN);
        assert_eq!(code(f.session(&anyone(), "s").await), BROKEN);
        f.ledger.close().await;
    });
}
