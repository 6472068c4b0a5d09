//! Redactions that are forged, undone, or changed to name other items.

use filrouge_store::chain::commitment;
use filrouge_store::contract::fixture::{Fixture, anyone, redact_items, sid};
use filrouge_store::verify::Verdict;
use filrouge_types::{Channel, ErrorCode, Failure, Item, ItemBody, RawJson, Role, Turn};
use rusqlite::{Connection, params};

use super::{assert_broken, block_on};
use crate::{fixture_at, keyring};

/// Content with the length of a redacted item's stored form, so that no length in the authenticated head reveals its
/// removal.
const SHORT: &str = r#"[{"type":"abc"}]"#;

struct World {
    folder: tempfile::TempDir,
    /// The redacted turn: seqs 1 and 2, redacted at seq 5.
    redacted: Turn,
}

/// A record's bytes.
type Row = (i64, Vec<u8>, Vec<u8>);

const VICTIM: &str = "(SELECT pk FROM session WHERE session_id = 'victim')";

fn record(conn: &Connection, seq: u64) -> Row {
    let sql = format!(
        "SELECT id, head, body FROM record WHERE id =
         (SELECT record_id FROM record_key WHERE session_pk = {VICTIM} AND first_seq = {seq})"
    );
    conn.query_row(&sql, [], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))
        .unwrap()
}

fn put_record(conn: &Connection, (id, head, body): &Row) {
    let sql = "UPDATE record SET head = ?2, body = ?3 WHERE id = ?1";
    assert_eq!(conn.execute(sql, params![id, head, body]).unwrap(), 1);
}

fn turn_data(conn: &Connection) -> Vec<u8> {
    let sql = format!("SELECT data FROM turn WHERE id = ({VICTIM} << 32) | 256");
    conn.query_row(&sql, [], |r| r.get(0)).unwrap()
}

fn put_turn(conn: &Connection, data: &[u8]) {
    let sql = format!("UPDATE turn SET data = ?1 WHERE id = ({VICTIM} << 32) | 256");
    assert_eq!(conn.execute(&sql, [data]).unwrap(), 1);
}

impl World {
    fn conn(&self) -> Connection {
        Connection::open(self.folder.path().join("f.db")).unwrap()
    }

    fn open(&self) -> Fixture {
        fixture_at(&self.folder.path().join("f.db"), keyring())
    }
}

/// Creates a redacted turn, followed by an open one with a short item at seq 4; also returns the first turn's record
/// and row from before the redaction.
async fn world() -> (World, Row, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let f = fixture_at(&folder.path().join("f.db"), keyring());
    let who = anyone();
    let turn = f.complete_turn(&who, "victim", "r", "the answer").await;
    let open = f.start(&who, "victim", "open").await;
    let short = RawJson::parse(SHORT).unwrap();
    let short = ItemBody::new(Role::Assistant, Channel::Plan, short);
    f.append(&who, &open, vec![short]).await.unwrap();
    let conn = Connection::open(folder.path().join("f.db")).unwrap();
    let (old, old_turn) = (record(&conn, 1), turn_data(&conn));
    let redacted = f.redact_turn(&who, &turn).await.unwrap();
    f.assert_intact().await;
    f.ledger.close().await;
    (World { folder, redacted }, old, old_turn)
}

async fn items(f: &Fixture) -> Result<Vec<Item>, Failure> {
    let page = f.ledger.items(&anyone(), &sid("victim"), 0, 100).await?;
    Ok(page.0)
}

async fn turn(f: &Fixture, world: &World) -> Result<Turn, Failure> {
    let id = world.redacted.turn_id;
    f.ledger.turn(&anyone(), &sid("victim"), id).await
}

fn refused_seq(result: Result<impl std::fmt::Debug, Failure>) -> Option<u64> {
    let failure = result.unwrap_err();
    assert_eq!(failure.code, ErrorCode::IntegrityError, "{failure}");
    failure.location.unwrap().seq
}

/// The short item's record without its content, as an attacker would write it: it is consistent with its MAC.
fn without_content(conn: &Connection, pointer: u8) -> Row {
    let (id, head, body) = record(conn, 4);
    let at = body.len() - SHORT.len() - 1;
    assert_eq!(&body[at + 1..], SHORT.as_bytes());
    let salt: [u8; 16] = body[at - 16..at].try_into().unwrap();
    assert_eq!(body[at - 17], 0);
    let mut forged = body[..at - 17].to_vec();
    forged.push(1);
    forged.extend(commitment(&salt, SHORT.as_bytes()));
    forged.push(pointer);
    assert_eq!(forged.len(), body.len());
    (id, head, forged)
}

#[test]
fn contents_cannot_be_removed_without_a_redaction() {
    // 5 is a redaction of other items, 3 and 1 are not redactions, 4 is the item itself, and the others do not exist.
    for pointer in [5, 3, 4, 1, 0, 6, 127] {
        block_on(async {
            let (world, _, _) = world().await;
            let conn = world.conn();
            put_record(&conn, &without_content(&conn, pointer));
            let f = world.open();
            assert_eq!(refused_seq(items(&f).await), Some(4), "pointer {pointer}");
            assert_broken(&f, "content removed").await;
            let again = f
                .write_redaction(&anyone(), redact_items("victim", &[(4, 4)]))
                .await;
            assert_eq!(
                refused_seq(again),
                Some(4),
                "it is not redacted after the fact"
            );
            turn(&f, &world).await.unwrap();
        });
    }
}

#[test]
fn a_forged_redaction_is_refused() {
    block_on(async {
        let (world, _, _) = world().await;
        let conn = world.conn();
        put_record(&conn, &without_content(&conn, 5));
        // The redaction names one range of 2 items from seq 1; the forged one names 4 items.
        let (id, head, mut body) = record(&conn, 5);
        let at = body.windows(4).position(|w| w == [5, 1, 1, 2]).unwrap();
        body[at + 3] = 4;
        put_record(&conn, &(id, head, body));
        let f = world.open();
        assert_eq!(refused_seq(items(&f).await), Some(5));
        assert_eq!(refused_seq(turn(&f, &world).await), Some(5));
        assert_broken(&f, "forged redaction").await;
    });
}

#[test]
fn redacted_contents_cannot_be_restored() {
    block_on(async {
        let (world, old, old_turn) = world().await;
        let conn = world.conn();
        let (new, new_turn) = (record(&conn, 1), turn_data(&conn));
        assert_ne!(old, new);
        assert_eq!((old_turn[0], new_turn[0]), (1, 2), "formats");
        // Restores from a backup of the file: the record only, then both, then the turn's row only.
        put_record(&conn, &old);
        let f = world.open();
        assert_eq!(refused_seq(items(&f).await), Some(1));
        assert_eq!(refused_seq(turn(&f, &world).await), Some(1));
        assert_broken(&f, "record restored").await;
        f.ledger.close().await;

        put_turn(&conn, &old_turn);
        let f = world.open();
        assert_eq!(refused_seq(items(&f).await), Some(1));
        assert_eq!(refused_seq(turn(&f, &world).await), Some(1));
        let report = f.ledger.verify(None).await.unwrap();
        assert_eq!(report.verdict(), Verdict::Broken);
        assert_eq!(report.findings[0].seq, Some(1));
        f.ledger.close().await;

        put_record(&conn, &new);
        let f = world.open();
        assert_eq!(refused_seq(turn(&f, &world).await), Some(1));
        assert_broken(&f, "turn row restored").await;
        f.ledger.close().await;

        put_turn(&conn, &new_turn);
        let f = world.open();
        f.assert_intact().await;
        f.ledger.close().await;
    });
}

/// The newest redaction knows what the earlier ones have erased, also in a running ledger.
#[test]
fn contents_of_an_earlier_redaction_cannot_be_restored() {
    for running in [false, true] {
        block_on(async {
            let (world, old, old_turn) = world().await;
            let f = world.open();
            let redact = redact_items("victim", &[(4, 4)]);
            f.write_redaction(&anyone(), redact).await.unwrap();
            f.assert_intact().await;
            let f = if running {
                f
            } else {
                f.ledger.close().await;
                world.open()
            };
            let conn = world.conn();
            put_record(&conn, &old);
            put_turn(&conn, &old_turn);
            assert_eq!(refused_seq(items(&f).await), Some(1));
            assert_eq!(refused_seq(turn(&f, &world).await), Some(1));
            f.ledger.close().await;
        });
    }
}

#[test]
fn every_byte_of_a_redacted_record_is_authenticated() {
    block_on(async {
        let (world, _, _) = world().await;
        let conn = world.conn();
        let good = record(&conn, 1);
        let f = world.open();
        let before = (items(&f).await.unwrap(), turn(&f, &world).await.unwrap());
        f.ledger.close().await;
        for bit in 0..(good.1.len() + good.2.len()) * 8 {
            let (mut row, at) = (good.clone(), bit / 8);
            match at.checked_sub(row.1.len()) {
                None => row.1[at] ^= 1 << (bit % 8),
                Some(at) => row.2[at] ^= 1 << (bit % 8),
            }
            // One bit per byte: opening a ledger for every bit would take too long.
            if bit % 8 != at % 8 {
                continue;
            }
            put_record(&conn, &row);
            let f = world.open();
            let verdict = f.ledger.verify(None).await.unwrap().verdict();
            assert_ne!(verdict, Verdict::Intact, "bit {bit}");
            assert!(items(&f).await.is_err(), "bit {bit}");
            assert!(turn(&f, &world).await.is_err(), "bit {bit}");
            f.ledger.close().await;
        }
        put_record(&conn, &good);
        let f = world.open();
        let again = (items(&f).await.unwrap(), turn(&f, &world).await.unwrap());
        assert_eq!(again, before);
        f.assert_intact().await;
    });
}
