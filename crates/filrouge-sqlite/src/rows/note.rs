//! The table `note`.

use filrouge_store::rows::NoteRow;
use filrouge_types::Failure;
use rusqlite::{Row, params};

use super::Rows;
use crate::error::malformed;

/// Decodes the columns name, data; `None` if they are malformed, or have types that filrouge does not write.
fn read(row: &Row<'_>) -> rusqlite::Result<Option<NoteRow>> {
    let (name, data) = (row.get_ref(0)?.as_str(), row.get_ref(1)?.as_blob());
    Ok(name
        .ok()
        .zip(data.ok())
        .and_then(|(name, data)| NoteRow::decode(name, data)))
}

pub(super) fn get(rows: &Rows<'_>, name: &str) -> Result<Option<NoteRow>, Failure> {
    let found = rows.query_optional("SELECT name, data FROM note WHERE name = ?1", [name], read)?;
    found
        .map(|row| row.ok_or_else(|| malformed("note")))
        .transpose()
}

pub(super) fn all(rows: &Rows<'_>) -> Result<Vec<Option<NoteRow>>, Failure> {
    rows.query_all("SELECT name, data FROM note", [], read)
}

pub(super) fn put(rows: &Rows<'_>, row: &NoteRow) -> Result<(), Failure> {
    let sql = "INSERT INTO note (name, data) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET data = ?2";
    rows.execute(sql, params![row.name, row.encode()])
}
