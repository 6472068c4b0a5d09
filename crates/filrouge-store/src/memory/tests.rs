//! Heads of formats 3 to 6 do not name the checkpoints.

use std::sync::Arc;

use filrouge_types::{
    Checkpoint, ErrorCode, RawJson, Result, SessionId, SessionStatus, SystemClock, TenantId,
    Timestamp, lock,
};

use super::MemoryLedger;
use crate::command::{Command, PutCheckpoint, Scope, Viewer, Write};
use crate::keyring::{Keyring, OsEntropy};
use crate::read::NewestCheckpoint;
use crate::rows::{CheckpointRow, HeadCheckpoints, HeadLease, SessionRow, Tx};

fn session_id() -> SessionId {
    SessionId::new("s").unwrap()
}

fn scope() -> Scope {
    Scope::new(TenantId::new("t").unwrap(), Viewer::Operator)
}

fn session_row() -> SessionRow {
    SessionRow {
        tenant_id: scope().tenant,
        session_id: session_id(),
        identity_id: None,
        parent_session_id: None,
        project_id: None,
        team_id: None,
        title: None,
        status: SessionStatus::Active,
        state: None,
        metadata: RawJson::from_checked("{}"),
        created_at: Timestamp::from_micros(1),
        token: None,
        erased: None,
    }
}

/// A ledger with a session of nine items that stores checkpoints at `seqs`. Its head has only the number and the newest
/// seq of those at 2 and 4.
fn ledger(seqs: &[u64]) -> MemoryLedger {
    let keyring = Arc::new(Keyring::single([7; 32]));
    let ledger = MemoryLedger::new(keyring, Arc::new(OsEntropy), Arc::new(SystemClock));
    let created = ledger.create_partial_session(&session_row(), HeadLease::default(), 9, None);
    created.unwrap();
    let mut rows = lock(&ledger.rows);
    let (pk, mut head) = rows.heads.pop_first().unwrap();
    for seq in seqs {
        let checkpoint = Checkpoint {
            seq: *seq,
            label: None,
            state: RawJson::from_checked("{}"),
            created_at: Timestamp::from_micros(1),
        };
        let row = CheckpointRow::sealed(checkpoint, &ledger.keyring, pk);
        rows.put_checkpoint(pk, &row).unwrap();
    }
    head.checkpoints = HeadCheckpoints {
        count: 2,
        newest: 4,
        ..HeadCheckpoints::default()
    };
    rows.put_head(pk, &head.sealed(&ledger.keyring, pk))
        .unwrap();
    drop(rows);
    ledger
}

/// The seqs of the listed checkpoints. An `Err` contains the seq of an unreadable one.
fn listed(ledger: &MemoryLedger) -> Result<Vec<Result<u64, u64>>> {
    let listed = ledger.with_snapshot(|snapshot| snapshot.checkpoints(&scope(), &session_id()));
    let listed = listed?.into_iter();
    Ok(listed.map(|row| row.map(|row| row.seq)).collect())
}

fn newest(ledger: &MemoryLedger) -> NewestCheckpoint {
    let newest = ledger.with_snapshot(|snapshot| {
        snapshot.newest_checkpoint(&snapshot.get(&scope(), &session_id())?)
    });
    newest.unwrap()
}

fn put(ledger: &MemoryLedger, seq: u64) -> Result<()> {
    let put = PutCheckpoint {
        session_id: session_id(),
        seq: Some(seq),
        label: None,
        state: RawJson::from_checked("{}"),
        keep: 3,
    };
    let command = Command {
        scope: scope(),
        write: Write::PutCheckpoint(Box::new(put)),
    };
    ledger.apply(&command, Timestamp::from_micros(2)).map(drop)
}

#[test]
fn a_head_without_names_gets_them_with_the_next_checkpoint() {
    let ledger = ledger(&[2, 4]);
    assert_eq!(listed(&ledger).unwrap(), [Ok(4), Ok(2)]);
    let found = newest(&ledger);
    assert_eq!((found.checkpoint.unwrap().seq, found.unreadable), (4, 0));
    put(&ledger, 9).unwrap();
    assert_eq!(listed(&ledger).unwrap(), [Ok(9), Ok(4), Ok(2)]);
    let names = |ledger: &MemoryLedger| {
        let rows = lock(&ledger.rows);
        let head = rows.heads.values().next().unwrap();
        let named = head.checkpoints.named.iter();
        named.map(|named| named.seq).collect::<Vec<u64>>()
    };
    assert_eq!(names(&ledger), [2, 4, 9]);
}

#[test]
fn checkpoints_that_do_not_match_a_head_without_names_are_not_used() {
    for seqs in [&[1, 2, 4][..], &[2], &[4], &[]] {
        let ledger = ledger(seqs);
        let code = listed(&ledger).unwrap_err().code;
        assert_eq!(code, ErrorCode::IntegrityError, "{seqs:?}");
        let found = newest(&ledger);
        assert_eq!((found.checkpoint, found.unreadable), (None, 2), "{seqs:?}");
        let code = put(&ledger, 9).unwrap_err().code;
        assert_eq!(code, ErrorCode::IntegrityError, "{seqs:?}");
    }
}
