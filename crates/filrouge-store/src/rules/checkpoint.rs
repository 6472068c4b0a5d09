//! Checkpoints: the application's state as of a seq, once for each; the newest ones are kept (DESIGN §6).

use filrouge_types::{Checkpoint, ErrorCode, Failure};

use super::lease;
use super::writing::{Writing, put_changed};
use crate::command::{Outcome, PutCheckpoint};
use crate::read::Loaded;
use crate::rows::Change;
use crate::rows::{CheckpointRow, HeadCheckpoints, SessionRow, Tx};

pub(super) fn put<T: Tx>(w: &mut Writing<'_, T>, put: &PutCheckpoint) -> Result<Outcome, Failure> {
    let mut session = w.sight().get(w.scope, &put.session_id)?;
    let last_seq = session.head.last_seq;
    let seq = put.seq.unwrap_or(last_seq);
    let there = there(w, &session, seq)?;
    if let Some(checkpoint) = there.as_ref().filter(|there| same(there, put)) {
        let checkpoint = checkpoint.clone();
        lease::release_again(w, session)?;
        return Ok(Outcome::Checkpoint {
            checkpoint: Box::new(checkpoint),
            created: false,
            last_seq,
        });
    }
    lease::check(w, &mut session)?;
    if there.is_some() {
        return Err(another(seq));
    }
    if seq > last_seq {
        let what = format!("seq is {seq}, the session stands at {last_seq}");
        return Err(Failure::new(ErrorCode::Invalid, what)
            .with_hint("a checkpoint covers items that are there: put them first"));
    }
    let redacted = session.head.checkpoints.redacted;
    if seq < redacted {
        let what = format!("there was a redaction at seq {redacted}, behind seq {seq}");
        let hint = format!("it may tell what was redacted: put one at seq {redacted} or later");
        return Err(Failure::new(ErrorCode::Invalid, what).with_hint(hint));
    }
    let checkpoint = Checkpoint {
        seq,
        label: put.label.clone(),
        state: put.state.clone(),
        created_at: w.ctx.now,
    };
    let seqs = seqs(w, &session)?;
    check_stays(&seqs, seq, put.keep)?;
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

/// The checkpoint at this seq. One that cannot be read any more is put again.
fn there<T: Tx>(
    w: &Writing<'_, T>,
    session: &Loaded,
    seq: u64,
) -> Result<Option<Checkpoint>, Failure> {
    match w.sight().checkpoint_at(session, seq) {
        Err(failure) if failure.code == ErrorCode::IntegrityError => Ok(None),
        found => found,
    }
}

fn same(found: &Checkpoint, put: &PutCheckpoint) -> bool {
    found.label == put.label && super::session::same_json(&found.state, &put.state)
}

fn another(seq: u64) -> Failure {
    let what = format!("there is another checkpoint at seq {seq}");
    let hint =
        "a checkpoint is put once for each seq: write the item that has changed the state first";
    Failure::new(ErrorCode::IdempotencyMismatch, what).with_hint(hint)
}

/// The seqs of the checkpoints, which must be those that the head tells of: or else the next head would vouch for what
/// somebody has taken away or put back.
fn seqs<T: Tx>(w: &Writing<'_, T>, session: &Loaded) -> Result<Vec<u64>, Failure> {
    let seqs = w.tx.checkpoint_seqs(session.pk)?;
    if session.head.checkpoints.tells_of(&seqs) {
        return Ok(seqs);
    }
    Err(session.broken(None, "checkpoints are missing or were added"))
}

/// One that is older than as many as the session keeps would be thrown away at once.
fn check_stays(seqs: &[u64], seq: u64, keep: u64) -> Result<(), Failure> {
    let newer = seqs.iter().filter(|at| **at > seq).count() as u64;
    if newer < keep.max(1) {
        return Ok(());
    }
    let what = format!("the session keeps {newer} checkpoints that are newer than seq {seq}");
    Err(Failure::new(ErrorCode::Invalid, what)
        .with_hint("it would not be kept: put one that covers what was written since"))
}

/// Keeps the newest ones of those that were there and the one that is put, and has the head tell of them.
fn trim<T: Tx>(
    w: &mut Writing<'_, T>,
    session: &mut Loaded,
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

/// The session is in the state that its newest checkpoint names.
fn label<T: Tx>(
    w: &mut Writing<'_, T>,
    session: &mut Loaded,
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

/// Takes away the checkpoints that cover a seq, for they may tell what was in it; the head is for the caller to put. That
/// others are there than the head tells of holds nothing up, and is to be seen afterwards as before.
pub(super) fn forget_covering<T: Tx>(
    w: &mut Writing<'_, T>,
    session: &mut Loaded,
    seq: u64,
) -> Result<(), Failure> {
    let mut seqs = w.tx.checkpoint_seqs(session.pk)?;
    let known = session.head.checkpoints;
    let as_told = known.tells_of(&seqs);
    let first = seqs.partition_point(|at| *at < seq);
    let gone = seqs.split_off(first);
    for at in &gone {
        w.tx.delete_checkpoint(session.pk, *at)?;
    }
    let mut left = known.with(&seqs);
    if !as_told {
        left.count = known.count.saturating_sub(gone.len() as u64);
        if known.newest < seq {
            left.newest = known.newest;
        }
        left.count += u64::from(left.tells_of(&seqs));
    }
    session.head.checkpoints = left;
    Ok(())
}

/// Puts checkpoints that come with a session, whose newest redaction is at seq `redacted`, or 0; the head is for the caller
/// to put.
pub(super) fn adopt<T: Tx>(
    w: &mut Writing<'_, T>,
    session: &mut Loaded,
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
