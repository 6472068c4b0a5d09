//! Checkpoints and leases changed outside filrouge.

use filrouge_store::contract::fixture::{
    Fixture, anyone, code, finalize, item, redact_items, rid, sid,
};
use filrouge_store::contract::live_writes::{acquire, checkpoint, keeping, renew, under};
use filrouge_store::verify::Verdict;
use filrouge_types::{Channel, ErrorCode};
use rusqlite::{Connection, params};

use super::block_on;
use crate::{fixture_at, keyring};

const BROKEN: ErrorCode = ErrorCode::IntegrityError;

/// A store in which `s` and `other` have nine items and checkpoints at 4, 6 and 8; the one at 2 was dropped. The file
/// `old.db` is an older state, with checkpoints at 2, 4 and 6, and with the first of two holders of the lease of `s`.
struct World(tempfile::TempDir);

impl World {
    async fn new() -> (Self, Fixture) {
        let folder = tempfile::tempdir().unwrap();
        let f = fixture_at(&folder.path().join("f.db"), keyring());
        let who = anyone();
        for s in ["s", "other"] {
            let turn = f.start(&who, s, "r").await;
            for _ in 1..9 {
                f.append(&who, &turn, vec![item(Channel::Plan, "p")])
                    .await
                    .unwrap();
            }
            for seq in [2, 4, 6] {
                put(&f, s, seq).await.unwrap();
            }
        }
        f.acquire_lease(&who, "s", "first").await;
        let old = folder.path().join("old.db");
        let conn = Connection::open(folder.path().join("f.db")).unwrap();
        conn.execute("VACUUM INTO ?1", [old.to_str().unwrap()])
            .unwrap();
        f.clock.advance(3_600_000_000);
        for s in ["s", "other"] {
            put(&f, s, 8).await.unwrap();
        }
        f.assert_intact().await;
        (Self(folder), f)
    }

    fn raw(&self) -> Connection {
        let conn = Connection::open(self.0.path().join("f.db")).unwrap();
        conn.busy_timeout(std::time::Duration::from_secs(5))
            .unwrap();
        conn
    }

    /// Opens the ledger at a time when the lease has expired.
    fn open(&self) -> Fixture {
        let f = fixture_at(&self.0.path().join("f.db"), keyring());
        f.clock.advance(3_600_000_000);
        f
    }

    /// Creates a world and executes `sql` on it, under a running ledger or before the ledger is opened.
    async fn changed(sql: &str, running: bool) -> (Self, Fixture) {
        let (world, f) = Self::new().await;
        let old = world.0.path().join("old.db");
        let pk = |name| format!("(SELECT pk FROM main.session WHERE session_id = '{name}')");
        let sql = sql.replace("$s", &pk("s")).replace("$other", &pk("other"));
        let sql = format!(
            "ATTACH '{}' AS old; BEGIN IMMEDIATE; {sql}; COMMIT;",
            old.display()
        );
        let alter = || {
            let done = world.raw().execute_batch(&sql);
            done.unwrap_or_else(|e| panic!("{sql}: {e}"));
        };
        if running {
            alter();
            return (world, f);
        }
        f.ledger.close().await;
        drop(f);
        alter();
        let f = world.open();
        (world, f)
    }
}

async fn put(f: &Fixture, s: &str, seq: u64) -> Result<bool, filrouge_types::Failure> {
    let state = format!(r#"{{"n":{seq}}}"#);
    let write = checkpoint(s, Some(seq), Some("L"), &state);
    Ok(f.write_checkpoint(&anyone(), write).await?.1)
}

/// Asserts that `verify` names `s` and no other session.
async fn assert_names_s(f: &Fixture, name: &str) {
    let report = f.ledger.verify(None).await.unwrap();
    assert_eq!(report.verdict(), Verdict::Broken, "{name}");
    let mut named = report
        .findings
        .iter()
        .map(|found| found.session_id.as_deref());
    assert!(named.all(|n| n == Some("s")), "{name}: {report:?}");
    let only = f.ledger.verify(Some((anyone(), sid("s")))).await.unwrap();
    assert_eq!(only.verdict(), Verdict::Broken, "{name}");
}

/// Asserts that the list of checkpoints of `s` shows genuine ones alone, and marks at least one as unreadable.
async fn assert_listed(f: &Fixture, name: &str) {
    match f.checkpoints(&anyone(), "s").await {
        Ok(listed) => {
            let mut shown = listed.iter().flatten();
            assert!(shown.all(|c| [4, 6, 8].contains(&c.seq)), "{name}");
            assert!(listed.iter().any(Result::is_err), "{name}: {listed:?}");
        }
        Err(failure) => assert_eq!((failure.code, name), (BROKEN, "moved below all")),
    }
}

#[test]
fn changed_checkpoints_are_not_used() {
    let at = |seq: u32| format!("session_pk = $s AND seq = {seq}");
    let old =
        "INSERT INTO checkpoint SELECT * FROM old.checkpoint WHERE session_pk = $s AND seq = 2";
    let swapped = |seq| format!("DELETE FROM checkpoint WHERE {}; {old}", at(seq));
    // Each case: its name, its SQL, the newest checkpoint found, the number of newer unreadable ones, and whether the
    // seqs still match the head.
    for (name, sql, newest, unreadable, same_seqs) in [
        ("the newest changed", format!("UPDATE checkpoint SET data = substr(data, 1, 9) || x'55' || substr(data, 11) WHERE {}", at(8)), 6, 1, true),
        ("the newest emptied", format!("UPDATE checkpoint SET data = x'' WHERE {}", at(8)), 6, 1, true),
        ("of another type", format!("UPDATE checkpoint SET data = 'text' WHERE {}", at(8)), 6, 1, true),
        ("of another session", format!("UPDATE checkpoint SET data = (SELECT data FROM checkpoint WHERE session_pk = $other AND seq = 8) WHERE {}", at(8)), 6, 1, true),
        ("of another seq", format!("UPDATE checkpoint SET data = (SELECT data FROM checkpoint WHERE {}) WHERE {}", at(6), at(8)), 6, 1, true),
        ("the newest two changed", "UPDATE checkpoint SET data = x'00' WHERE session_pk = $s AND seq > 4".into(), 4, 2, true),
        ("all changed", "UPDATE checkpoint SET data = x'00' WHERE session_pk = $s".into(), 0, 3, true),
        ("an older one changed", format!("UPDATE checkpoint SET data = x'00' WHERE {}", at(6)), 8, 0, true),
        ("the newest deleted", format!("DELETE FROM checkpoint WHERE {}", at(8)), 6, 1, false),
        ("an older one deleted", format!("DELETE FROM checkpoint WHERE {}", at(4)), 8, 0, false),
        ("all deleted", "DELETE FROM checkpoint WHERE session_pk = $s".into(), 0, 3, false),
        ("the newest moved", format!("UPDATE checkpoint SET seq = 7 WHERE {}", at(8)), 6, 1, false),
        ("moved below all", format!("UPDATE checkpoint SET seq = -1 WHERE {}", at(4)), 8, 0, false),
        ("added after all", "INSERT INTO checkpoint SELECT $s, 9, data FROM checkpoint WHERE session_pk = $s AND seq = 8".into(), 8, 0, false),
        ("put back", old.into(), 8, 0, false),
        ("an older one swapped for one put back", swapped(4), 8, 0, false),
        ("the newest swapped for one put back", swapped(8), 6, 1, false),
    ] {
        for running in [false, true] {
            block_on(async {
                let (_world, f) = World::changed(&sql, running).await;
                let found = f.newest_checkpoint(&anyone(), "s").await;
                let seq = found.checkpoint.map_or(0, |c| c.seq);
                assert_eq!((seq, found.unreadable), (newest, unreadable), "{name}");
                assert_names_s(&f, name).await;
                assert_listed(&f, name).await;
                assert_eq!(f.items(&anyone(), "s", 99).await.len(), 9, "{name}");
                assert_eq!(f.checkpoint_seqs(&anyone(), "other").await, [8, 6, 4]);
                // If the seqs do not match, the next checkpoint is refused: it would hide that some are missing, or
                // that there are too many.
                let next = put(&f, "s", 9).await;
                assert_eq!(next.is_ok(), same_seqs, "{name}: {next:?}");
                let redacted = f.write_redaction(&anyone(), redact_items("s", &[(9, 9)])).await;
                assert!(next.map_or_else(|e| e.code == BROKEN, |_| same_seqs));
                // A redaction succeeds despite the change, unless the checkpoints cannot even be listed.
                match redacted {
                    Err(e) if name == "moved below all" => assert_eq!(e.code, BROKEN),
                    redacted => drop(redacted.unwrap_or_else(|e| panic!("{name}: {e}"))),
                }
                // This redaction also deletes the only row that was added.
                if name == "added after all" {
                    f.assert_intact().await;
                } else if !same_seqs {
                    assert_names_s(&f, name).await;
                }
                // The session can still be erased.
                f.erase(&anyone(), "s").await.unwrap();
                f.assert_intact().await;
                f.ledger.close().await;
            });
        }
    }
}

/// A caller that still has the state can replace an unreadable checkpoint at its seq.
#[test]
fn a_changed_checkpoint_can_be_replaced() {
    for seq in [6, 8] {
        block_on(async {
            let sql =
                format!("UPDATE checkpoint SET data = x'00' WHERE session_pk = $s AND seq = {seq}");
            let (_world, f) = World::changed(&sql, true).await;
            assert!(put(&f, "s", seq).await.unwrap(), "as a new one");
            assert!(!put(&f, "s", seq).await.unwrap());
            assert_eq!(f.checkpoint_seqs(&anyone(), "s").await, [8, 6, 4]);
            let report = f.ledger.verify(None).await.unwrap();
            assert_eq!(report.findings, []);
            f.ledger.close().await;
        });
    }
}

/// The session takes a checkpoint again at the seq of one that it had dropped, and somebody restores the dropped one.
#[test]
fn an_earlier_checkpoint_at_the_same_seq_is_not_used() {
    block_on(async {
        let (world, f) = World::new().await;
        let again = keeping(4, "s", Some(2), Some("L"), r#"{"n":0}"#);
        f.write_checkpoint(&anyone(), again).await.unwrap();
        assert_eq!(f.checkpoint_seqs(&anyone(), "s").await, [8, 6, 4, 2]);
        let sql = "ATTACH ?1 AS old";
        let old = world.0.path().join("old.db");
        let conn = world.raw();
        conn.execute(sql, [old.to_str().unwrap()]).unwrap();
        let row = "seq = 2 AND session_pk = (SELECT pk FROM main.session WHERE session_id = 's')";
        let sql = format!(
            "UPDATE main.checkpoint SET data = (SELECT data FROM old.checkpoint WHERE {row}) WHERE {row}"
        );
        assert_eq!(conn.execute(&sql, []).unwrap(), 1);
        let listed = f.checkpoints(&anyone(), "s").await.unwrap();
        assert_eq!(listed.last(), Some(&Err(2)));
        assert_names_s(&f, "restored").await;
        assert!(put(&f, "s", 8).await.is_ok_and(|created| !created));
        f.ledger.close().await;
    });
}

#[test]
fn checkpoints_without_a_session_are_reported() {
    block_on(async {
        let sql =
            "INSERT INTO checkpoint SELECT 77, seq, data FROM checkpoint WHERE session_pk = $s";
        let (_world, f) = World::changed(sql, false).await;
        let report = f.ledger.verify(None).await.unwrap();
        assert_eq!(report.verdict(), Verdict::Broken);
        assert!(report.findings[0].what.contains("77"), "{report:?}");
        assert_eq!(f.checkpoint_seqs(&anyone(), "s").await, [8, 6, 4]);
    });
}

#[test]
fn every_byte_of_a_checkpoint_is_authenticated() {
    block_on(async {
        let (world, f) = World::new().await;
        let conn = world.raw();
        let row = "session_pk = (SELECT pk FROM session WHERE session_id = 's') AND seq = 8";
        let sql = format!("SELECT data FROM checkpoint WHERE {row}");
        let bytes: Vec<u8> = conn.query_row(&sql, [], |r| r.get(0)).unwrap();
        let sql = format!("UPDATE checkpoint SET data = ?1 WHERE {row}");
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            conn.execute(&sql, params![changed]).unwrap();
            let found = f.newest_checkpoint(&anyone(), "s").await;
            assert_eq!(found.checkpoint.unwrap().seq, 6, "byte {at}");
            let only = f.ledger.verify(Some((anyone(), sid("s")))).await.unwrap();
            // A changed key id yields an unknown key: then the checkpoint cannot be verified.
            assert_ne!(only.verdict(), Verdict::Intact, "byte {at}");
        }
        f.ledger.close().await;
    });
}

/// The head contains the lease, so every write detects that the lease was changed or rolled back.
#[test]
fn changed_leases_are_refused() {
    let (world, bytes) = leased_world();
    let path = world.0.path().join("f.db");
    let head = "pk = (SELECT pk FROM session WHERE session_id = 's')";
    let set = format!("UPDATE head SET data = ?1 WHERE {head}");
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        world.raw().execute(&set, params![changed]).unwrap();
        block_on(async {
            let f = fixture_at(&path, keyring());
            for write in [acquire("s", "third"), renew("s", "second", 2, 60)] {
                let refused = code(f.write_lease(&anyone(), write).await);
                let expected = [BROKEN, ErrorCode::KeyMissing].contains(&refused);
                assert!(expected, "byte {at}: {refused:?}");
            }
            f.ledger.close().await;
        });
    }
}

/// A world in which the lease of `s` has its second holder, and the bytes of that session's head.
fn leased_world() -> (World, Vec<u8>) {
    let mut leased = None;
    block_on(async {
        let (world, f) = World::new().await;
        f.acquire_lease(&anyone(), "s", "second").await;
        f.ledger.close().await;
        let sql =
            "SELECT data FROM head WHERE pk = (SELECT pk FROM session WHERE session_id = 's')";
        let bytes = world.raw().query_row(sql, [], |r| r.get(0)).unwrap();
        leased = Some((world, bytes));
    });
    leased.unwrap()
}

#[test]
fn a_restored_older_lease_is_refused() {
    for running in [false, true] {
        block_on(async {
            let sql = "REPLACE INTO head SELECT * FROM old.head WHERE pk = $s";
            let (_world, f) = World::changed(sql, running).await;
            let turn = f.keyring.turn_id(&anyone().tenant, &sid("s"), &rid("r"));
            for scope in [anyone(), under(&anyone(), 1), under(&anyone(), 2)] {
                let late = f.write(&scope, finalize("s", turn, Some("a"))).await;
                assert_eq!(code(late), BROKEN);
                let acquired = f.write_lease(&scope, acquire("s", "third")).await;
                assert_eq!(code(acquired), BROKEN);
            }
            f.ledger.close().await;
        });
    }
}
