//! Writes a note, a small named value of the ledger outside any session, by compare-and-set.

use filrouge_types::{ErrorCode, Failure};

use super::writing::ActiveWrite;
use crate::command::{Outcome, PutNote};
use crate::digest::DigestRow;
use crate::rows::{Change, NOTE_MAX, NoteRow, Tx};

/// Writes the note if its stored version is the expected one (0: no such note exists). Otherwise writes nothing and
/// returns `Outcome::Note(false)`.
pub(super) fn apply<T: Tx>(w: &mut ActiveWrite<'_, T>, note: &PutNote) -> Result<Outcome, Failure> {
    if note.value.len() > NOTE_MAX {
        return Err(
            ErrorCode::LimitExceeded.failure(format!("a note has at most {NOTE_MAX} bytes"))
        );
    }
    let stored = w.snapshot().note_row(&note.name)?;
    let version = stored.as_ref().map_or(0, |n| n.version);
    if version != note.expected {
        return Ok(Outcome::Note(false));
    }
    let (keyring, digest_row) = (w.ctx.keyring, DigestRow::Note(&note.name));
    if let Some(stored) = &stored {
        w.group.digest = w.group.digest.minus(keyring, digest_row, &stored.mac);
    }
    let row = NoteRow::sealed(note.name.clone(), version + 1, note.value.clone(), keyring);
    w.group.digest = w.group.digest.plus(keyring, digest_row, &row.mac);
    w.tx.put_note(&row)?;
    w.add_log_entry(0, (0, 0), &row.mac, Change::Note(note.name.clone()));
    Ok(Outcome::Note(true))
}
