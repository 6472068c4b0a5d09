//! OpenCode 2.x: `session_v2`, with the talk in `session_message` (DESIGN §10).
//!
//! Its import of 1.x runs once, session after session: one whose row is there and whose talk is not yet has it in
//! `message` and `part` still. Builds before the release kept the name `session` for their table; those sessions are
//! of the newer kind, and read like it.

use filrouge_sqlite::foreign::{ForeignError, Reader};

use super::row_place::Place;
use super::session_rows::{Schema, SessionRow};
use super::talk::Talk;
use super::{session_message, sqlite};

/// Reads the messages of a session.
pub(super) fn read(
    reader: &Reader<'_>,
    schema: &Schema,
    place: Place<'_>,
    row: &SessionRow,
) -> Result<Talk, ForeignError> {
    let mut talk = Talk::default();
    let id = &*row.session.id;
    if row.in_session_message {
        session_message::read(reader, schema, place, id, &mut talk)?;
    } else if row.in_message {
        sqlite::read(reader, schema, place, id, &mut talk)?;
    }
    if row.session.fork_of.is_some() {
        // A fork is given copies, with the times of what they are copies of.
        talk.mark_copies(row.created);
    }
    Ok(talk)
}
