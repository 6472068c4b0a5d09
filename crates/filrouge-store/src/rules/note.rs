//! Notes: small named values of the store, compared and set.

use filrouge_types::{ErrorCode, Failure};

use super::{Change, Context, Group};
use crate::command::{Outcome, PutNote};
use crate::rows::{LogEntry, NOTE_MAX, NoteRow, Tx};

pub(super) fn apply<T: Tx>(
    tx: &mut T,
    group: &mut Group,
    ctx: &Context<'_>,
    note: &PutNote,
) -> Result<Outcome, Failure> {
    if note.value.len() > NOTE_MAX {
        return Err(Failure::new(
            ErrorCode::LimitExceeded,
            format!("a note has at most {NOTE_MAX} bytes"),
        ));
    }
    let before = ctx.sight(tx).note_row(&note.name)?;
    let version = before.as_ref().map_or(0, |n| n.version);
    if version != note.expected {
        return Ok(Outcome::Note(false));
    }
    if let Some(before) = &before {
        group.digest = group.digest.minus(&before.mac);
    }
    let row = NoteRow::sealed(
        note.name.clone(),
        version + 1,
        note.value.clone(),
        ctx.keyring,
    );
    group.digest = group.digest.plus(&row.mac);
    tx.put_note(&row)?;
    let mut half = [0; 8];
    half.copy_from_slice(&row.mac[..8]);
    group.entries.push(LogEntry {
        pk: 0,
        first_seq: 0,
        count: 0,
        head: half,
        change: Change::Note(note.name.clone()),
    });
    Ok(Outcome::Note(true))
}
