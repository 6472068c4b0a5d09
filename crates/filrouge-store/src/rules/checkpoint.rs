//! Checkpoints: the application's state as of a seq, written once per seq. A session keeps only its newest checkpoints
//! (DESIGN §6).

use filrouge_types::{Checkpoint, ErrorCode, Failure, Result};

use super::lease;
use super::writing::{ActiveWrite, put_changed_head};
use crate::command::{Outcome, PutCheckpoint};
use crate::read::VerifiedSession;
use crate::rows::{Change, CheckpointRow, HeadCheckpoints, SessionRow, Tx};

pub(super) fn put<T: Tx>(w: &mut ActiveWrite<'_, T>, put: &PutCheckpoint) -> Result<Outcome> {
    let mut session = w.snapshot().get(w.scope, &put.session_id)?;
    let last_seq = session.head.last_seq;
    let seq = put.seq.unwrap_or(last_seq);
    let existing = readable_checkpoint(w, &session, seq)?;
    let is_same = |stored: &&Checkpoint| {
        stored.label == put.label && super::session::is_same_json(&stored.state, &put.state)
    };
    if let Some(checkpoint) = existing.as_ref().filter(is_same) {
        let checkpoint = checkpoint.clone();
        lease::release_if_requested(w, session)?;
        return Ok(Outcome::Checkpoint {
            checkpoint: Box::new(checkpoint),
            created: false,
            last_seq,
        });
    }
    lease::check_and_release(w, &mut session)?;
    if existing.is_some() {
        return Err(checkpoint_conflict(seq));
    }
    if seq > last_seq {
        let detail = format!("seq is {seq}, the session's newest seq is {last_seq}");
        return Err(Failure::new(ErrorCode::Invalid, detail)
            .with_hint("a checkpoint covers existing items: write them first"));
    }
    let redacted = session.head.checkpoints.redacted;
    if seq < redacted {
        let detail = format!("there was a redaction at seq {redacted}, after seq {seq}");
        let hint = format!(
            "the checkpoint may contain redacted content: put one at seq {redacted} or later"
        );
        return Err(Failure::new(ErrorCode::Invalid, detail).with_hint(hint));
    }
    let checkpoint = Checkpoint {
        seq,
        label: put.label.clone(),
        state: put.state.clone(),
        created_at: w.ctx.now,
    };
    let mut seqs = stored_seqs(w, &session)?;
    check_is_kept(&seqs, seq, put.keep)?;
    let row = CheckpointRow::sealed(checkpoint.clone(), w.ctx.keyring, session.pk);
    w.tx.put_checkpoint(session.pk, &row)?;
    if let Err(index) = seqs.binary_search(&seq) {
        seqs.insert(index, seq);
    }
    // The newest are kept, the others deleted.
    let keep = usize::try_from(put.keep.max(1)).unwrap_or(usize::MAX);
    let surplus = seqs.len().saturating_sub(keep);
    for seq in seqs.drain(..surplus) {
        w.tx.delete_checkpoint(session.pk, seq)?;
    }
    session.head.checkpoints = session.head.checkpoints.with_seqs(&seqs);
    let is_newest = session.head.checkpoints.newest == seq;
    // The label of the newest checkpoint, if it has one, is the session's state.
    if is_newest && put.label.is_some() && put.label != session.row.state {
        let row = SessionRow {
            state: put.label.clone(),
            ..session.row.clone()
        };
        w.tx.update_session(session.pk, &row)?;
        session.head.session = row.fingerprint();
        session.row = row;
    }
    put_changed_head(w, session, (seq, 0), Change::Checkpoint)?;
    Ok(Outcome::Checkpoint {
        checkpoint: Box::new(checkpoint),
        created: true,
        last_seq,
    })
}

/// The checkpoint at this seq; `None` if it is no longer readable, so that it can be written again.
fn readable_checkpoint<T: Tx>(
    w: &ActiveWrite<'_, T>,
    session: &VerifiedSession,
    seq: u64,
) -> Result<Option<Checkpoint>> {
    match w.snapshot().checkpoint_at(session, seq) {
        Err(failure) if failure.code == ErrorCode::IntegrityError => Ok(None),
        result => result,
    }
}

fn checkpoint_conflict(seq: u64) -> Failure {
    let detail = format!("there is another checkpoint at seq {seq}");
    let hint =
        "a checkpoint is put once for each seq: write the item that has changed the state first";
    Failure::new(ErrorCode::IdempotencyMismatch, detail).with_hint(hint)
}

/// The seqs of the stored checkpoints. They must be those that the head names; otherwise the next head would
/// authenticate rows that were removed or restored outside filrouge.
fn stored_seqs<T: Tx>(w: &ActiveWrite<'_, T>, session: &VerifiedSession) -> Result<Vec<u64>> {
    let seqs = w.tx.checkpoint_seqs(session.pk)?;
    if session.head.checkpoints.matches(&seqs) {
        return Ok(seqs);
    }
    Err(session.integrity_failure(None, "checkpoints are missing or were added"))
}

/// Refuses a checkpoint that would be deleted at once because the session already keeps `keep` newer ones.
fn check_is_kept(seqs: &[u64], seq: u64, keep: u64) -> Result<()> {
    let newer = seqs.iter().filter(|stored| **stored > seq).count() as u64;
    if newer < keep.max(1) {
        return Ok(());
    }
    let detail = format!("the session keeps {newer} checkpoints that are newer than seq {seq}");
    Err(Failure::new(ErrorCode::Invalid, detail)
        .with_hint("it would not be kept: write one that covers newer items"))
}

/// Deletes the checkpoints that cover a seq, because they may reveal its content; the caller writes the head. If the
/// stored checkpoints differ from those that the head names, the deletion succeeds, and the new head still differs from
/// the stored rows.
pub(super) fn delete_covering<T: Tx>(
    w: &mut ActiveWrite<'_, T>,
    session: &mut VerifiedSession,
    seq: u64,
) -> Result<()> {
    let mut seqs = w.tx.checkpoint_seqs(session.pk)?;
    let head_checkpoints = session.head.checkpoints;
    let matches_head = head_checkpoints.matches(&seqs);
    let first = seqs.partition_point(|covered| *covered < seq);
    let deleted = seqs.split_off(first);
    for seq in &deleted {
        w.tx.delete_checkpoint(session.pk, *seq)?;
    }
    let mut remaining = head_checkpoints.with_seqs(&seqs);
    if !matches_head {
        remaining.count = head_checkpoints.count.saturating_sub(deleted.len() as u64);
        if head_checkpoints.newest < seq {
            remaining.newest = head_checkpoints.newest;
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
) -> Result<()> {
    for checkpoint in checkpoints {
        let row = CheckpointRow::sealed(checkpoint.clone(), w.ctx.keyring, session.pk);
        w.tx.put_checkpoint(session.pk, &row)?;
    }
    let seqs: Vec<u64> = checkpoints.iter().map(|c| c.seq).collect();
    session.head.checkpoints = HeadCheckpoints {
        redacted,
        ..HeadCheckpoints::from_seqs(&seqs)
    };
    Ok(())
}
