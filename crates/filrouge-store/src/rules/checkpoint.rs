//! Checkpoints: the application's state as of a seq, written once per seq. The session keeps the newest ones (DESIGN
//! §6).

use filrouge_types::{Checkpoint, ErrorCode, Failure};

use super::lease;
use super::writing::{ActiveWrite, put_changed};
use crate::command::{Outcome, PutCheckpoint};
use crate::read::VerifiedSession;
use crate::rows::Change;
use crate::rows::{CheckpointRow, HeadCheckpoints, SessionRow, Tx};

pub(super) fn put<T: Tx>(
    w: &mut ActiveWrite<'_, T>,
    put: &PutCheckpoint,
) -> Result<Outcome, Failure> {
    let mut session = w.snapshot().get(w.scope, &put.session_id)?;
    let last_seq = session.head.last_seq;
    let seq = put.seq.unwrap_or(last_seq);
    let existing = existing(w, &session, seq)?;
    if let Some(checkpoint) = existing.as_ref().filter(|existing| same(existing, put)) {
        let checkpoint = checkpoint.clone();
        lease::release_separately(w, session)?;
        return Ok(Outcome::Checkpoint {
            checkpoint: Box::new(checkpoint),
            created: false,
            last_seq,
        });
    }
    lease::check(w, &mut session)?;
    if existing.is_some() {
        return Err(checkpoint_conflict(seq));
    }
    if seq > last_seq {
        let what = format!("seq is {seq}, the session's newest seq is {last_seq}");
        return Err(Failure::new(ErrorCode::Invalid, what)
            .with_hint("a checkpoint covers existing items: write them first"));
    }
    let redacted = session.head.checkpoints.redacted;
    if seq < redacted {
        let what = format!("there was a redaction at seq {redacted}, after seq {seq}");
        let hint = format!(
            "the checkpoint may contain redacted content: put one at seq {redacted} or later"
        );
        return Err(Failure::new(ErrorCode::Invalid, what).with_hint(hint));
    }
    let checkpoint = Checkpoint {
        seq,
        label: put.label.clone(),
        state: put.state.clone(),
        created_at: w.ctx.now,
    };
    let seqs = seqs(w, &session)?;
    check_is_kept(&seqs, seq, put.keep)?;
    let row = CheckpointRow::sealed(checkpoint.clone(), w.ctx.keyring, session.pk);
    w.tx.put_checkpoint(session.pk, &row)?;
    trim(w, &mut session, (seqs, seq), put.keep)?;
    if session.head.checkpoints.newest == seq {
        label(w, &mut session, put)?;
    }
    put_changed(w, session, (seq, 0), Change::Checkpoint)?;
    Ok(Outcome::Checkpoint {
        checkpoint: Box::new(checkpoint),
        created: true,
        last_seq,
    })
}

/// The checkpoint at this seq; `None` for one that is no longer readable, so that it can be written again.
fn existing<T: Tx>(
    w: &ActiveWrite<'_, T>,
    session: &VerifiedSession,
    seq: u64,
) -> Result<Option<Checkpoint>, Failure> {
    match w.snapshot().checkpoint_at(session, seq) {
        Err(failure) if failure.code == ErrorCode::IntegrityError => Ok(None),
        found => found,
    }
}

fn same(found: &Checkpoint, put: &PutCheckpoint) -> bool {
    found.label == put.label && super::session::same_json(&found.state, &put.state)
}

fn checkpoint_conflict(seq: u64) -> Failure {
    let what = format!("there is another checkpoint at seq {seq}");
    let hint =
        "a checkpoint is put once for each seq: write the item that has changed the state first";
    Failure::new(ErrorCode::IdempotencyMismatch, what).with_hint(hint)
}

/// The seqs of the stored checkpoints. They must be those that the head names: if others had removed or restored rows,
/// the next head would authenticate the result.
fn seqs<T: Tx>(w: &ActiveWrite<'_, T>, session: &VerifiedSession) -> Result<Vec<u64>, Failure> {
    let seqs = w.tx.checkpoint_seqs(session.pk)?;
    if session.head.checkpoints.matches(&seqs) {
        return Ok(seqs);
    }
    Err(session.broken(None, "checkpoints are missing or were added"))
}

/// Refuses a checkpoint that would be deleted at once because the session keeps newer ones.
fn check_is_kept(seqs: &[u64], seq: u64, keep: u64) -> Result<(), Failure> {
    let newer = seqs.iter().filter(|at| **at > seq).count() as u64;
    if newer < keep.max(1) {
        return Ok(());
    }
    let what = format!("the session keeps {newer} checkpoints that are newer than seq {seq}");
    Err(Failure::new(ErrorCode::Invalid, what)
        .with_hint("it would not be kept: write one that covers newer items"))
}

/// Keeps the `keep` newest of the stored checkpoints (`seqs`) and the new one (`put`), deletes the others, and names
/// the kept ones in the head.
fn trim<T: Tx>(
    w: &mut ActiveWrite<'_, T>,
    session: &mut VerifiedSession,
    (mut seqs, put): (Vec<u64>, u64),
    keep: u64,
) -> Result<(), Failure> {
    if let Err(at) = seqs.binary_search(&put) {
        seqs.insert(at, put);
    }
    let keep = usize::try_from(keep.max(1)).unwrap_or(usize::MAX);
    let surplus = seqs.len().saturating_sub(keep);
    for seq in seqs.drain(..surplus) {
        w.tx.delete_checkpoint(session.pk, seq)?;
    }
    session.head.checkpoints = session.head.checkpoints.with(&seqs);
    Ok(())
}

/// Sets the session's state to the checkpoint's label, if it has one.
fn label<T: Tx>(
    w: &mut ActiveWrite<'_, T>,
    session: &mut VerifiedSession,
    put: &PutCheckpoint,
) -> Result<(), Failure> {
    if put.label.is_none() || put.label == session.row.state {
        return Ok(());
    }
    let row = SessionRow {
        state: put.label.clone(),
        ..session.row.clone()
    };
    w.tx.update_session(session.pk, &row)?;
    session.head.session = row.fingerprint();
    session.row = row;
    Ok(())
}

/// Deletes the checkpoints that cover a seq, because they may reveal its content; the caller writes the head. If the
/// stored checkpoints differ from those that the head names, the deletion still succeeds and the difference stays
/// detectable.
pub(super) fn forget_covering<T: Tx>(
    w: &mut ActiveWrite<'_, T>,
    session: &mut VerifiedSession,
    seq: u64,
) -> Result<(), Failure> {
    let mut seqs = w.tx.checkpoint_seqs(session.pk)?;
    let named = session.head.checkpoints;
    let matches_head = named.matches(&seqs);
    let first = seqs.partition_point(|at| *at < seq);
    let gone = seqs.split_off(first);
    for at in &gone {
        w.tx.delete_checkpoint(session.pk, *at)?;
    }
    let mut remaining = named.with(&seqs);
    if !matches_head {
        remaining.count = named.count.saturating_sub(gone.len() as u64);
        if named.newest < seq {
            remaining.newest = named.newest;
        }
        remaining.count += u64::from(remaining.matches(&seqs));
    }
    session.head.checkpoints = remaining;
    Ok(())
}

/// Writes the checkpoints of an adopted session, whose newest redaction is at seq `redacted` (0 for none); the caller
/// writes the head.
pub(super) fn adopt<T: Tx>(
    w: &mut ActiveWrite<'_, T>,
    session: &mut VerifiedSession,
    checkpoints: &[Checkpoint],
    redacted: u64,
) -> Result<(), Failure> {
    for checkpoint in checkpoints {
        let row = CheckpointRow::sealed(checkpoint.clone(), w.ctx.keyring, session.pk);
        w.tx.put_checkpoint(session.pk, &row)?;
    }
    let seqs: Vec<u64> = checkpoints.iter().map(|c| c.seq).collect();
    session.head.checkpoints = HeadCheckpoints {
        redacted,
        ..HeadCheckpoints::of(&seqs)
    };
    Ok(())
}
