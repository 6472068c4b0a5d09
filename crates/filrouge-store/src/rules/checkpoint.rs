//! Checkpoints: the application's state as of a seq, written once per seq. A session keeps only its newest checkpoints
//! (DESIGN §6).

use filrouge_types::{Checkpoint, ErrorCode, Failure, Result};

use super::lease;
use super::writing::{ActiveWrite, put_changed_head};
use crate::command::{Outcome, PutCheckpoint};
use crate::read::VerifiedSession;
use crate::rows::{Change, CheckpointRow, NamedCheckpoint, SessionPk, SessionRow, Tx};

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
    let mut named = stored_checkpoints(w, &session)?;
    check_is_kept(&named, seq, put.keep)?;
    put_row(w, session.pk, &checkpoint, &mut named)?;
    // The newest are kept, the others deleted.
    let keep = usize::try_from(put.keep.max(1)).unwrap_or(usize::MAX);
    let surplus = named.len().saturating_sub(keep);
    for older in named.drain(..surplus) {
        w.tx.delete_checkpoint(session.pk, older.seq)?;
    }
    session.head.checkpoints.set(named);
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

/// Writes a checkpoint, and adds it to those that the head will name.
fn put_row<T: Tx>(
    w: &mut ActiveWrite<'_, T>,
    pk: SessionPk,
    checkpoint: &Checkpoint,
    named: &mut Vec<NamedCheckpoint>,
) -> Result<()> {
    let row = CheckpointRow::sealed(checkpoint.clone(), w.ctx.keyring, pk);
    w.tx.put_checkpoint(pk, &row)?;
    let new = NamedCheckpoint::of(checkpoint);
    match named.binary_search_by_key(&new.seq, |named| named.seq) {
        Ok(index) => named[index] = new,
        Err(index) => named.insert(index, new),
    }
    Ok(())
}

/// The stored checkpoints. They must be those of the head; otherwise they were removed or restored outside filrouge.
fn stored_checkpoints<T: Tx>(
    w: &ActiveWrite<'_, T>,
    session: &VerifiedSession,
) -> Result<Vec<NamedCheckpoint>> {
    let seqs = w.tx.checkpoint_seqs(session.pk)?;
    if session.head.checkpoints.matches(&seqs) {
        return named_checkpoints(w, session, &seqs);
    }
    Err(session.integrity_failure(None, "checkpoints are missing or were added"))
}

/// The checkpoints at `seqs`, which match the head, as the head names them. If it is of a format that names none, the
/// rows are read.
fn named_checkpoints<T: Tx>(
    w: &ActiveWrite<'_, T>,
    session: &VerifiedSession,
    seqs: &[u64],
) -> Result<Vec<NamedCheckpoint>> {
    if session.head.checkpoints.are_named() {
        return Ok(session.head.checkpoints.named.clone());
    }
    let name = |seq: &u64| match w.tx.checkpoint(session.pk, *seq) {
        Ok(Some(row)) => Ok(NamedCheckpoint::of(&row.checkpoint)),
        Err(failure) if failure.code != ErrorCode::IntegrityError => Err(failure),
        // Malformed bytes stay unreadable, with any tag.
        _ => Ok(NamedCheckpoint {
            seq: *seq,
            tag: [0; 4],
        }),
    };
    seqs.iter().map(name).collect()
}

/// Refuses a checkpoint that would be deleted at once because the session already keeps `keep` newer ones.
fn check_is_kept(named: &[NamedCheckpoint], seq: u64, keep: u64) -> Result<()> {
    let newer = named.iter().filter(|stored| stored.seq > seq).count() as u64;
    if newer < keep.max(1) {
        return Ok(());
    }
    let detail = format!("the session keeps {newer} checkpoints that are newer than seq {seq}");
    Err(Failure::new(ErrorCode::Invalid, detail)
        .with_hint("it would not be kept: write one that covers newer items"))
}

/// Deletes the checkpoints that cover a seq, because they may reveal its content; the caller writes the head. If the
/// stored checkpoints differ from the head's, the deletion succeeds, and the new head names those of its checkpoints that
/// do not cover the seq; a head of a format that names none will then have no checkpoint.
pub(super) fn delete_covering<T: Tx>(
    w: &mut ActiveWrite<'_, T>,
    session: &mut VerifiedSession,
    seq: u64,
) -> Result<()> {
    let stored = w.tx.checkpoint_seqs(session.pk)?;
    let mut named = if session.head.checkpoints.matches(&stored) {
        named_checkpoints(w, session, &stored)?
    } else {
        session.head.checkpoints.named.clone()
    };
    for covering in stored.into_iter().filter(|stored| *stored >= seq) {
        w.tx.delete_checkpoint(session.pk, covering)?;
    }
    named.retain(|named| named.seq < seq);
    session.head.checkpoints.set(named);
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
    let mut named = Vec::with_capacity(checkpoints.len());
    for checkpoint in checkpoints {
        put_row(w, session.pk, checkpoint, &mut named)?;
    }
    session.head.checkpoints.set(named);
    session.head.checkpoints.redacted = redacted;
    Ok(())
}
