//! Reads the table `note`.

use filrouge_store::Lane;
use filrouge_store::rows::NoteRow;
use filrouge_types::Failure;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::{Rows, bytes, column, sql_lane};
use crate::error::malformed;
use crate::session::Sql;

/// Decodes the columns name and data; `None` if filrouge cannot have written them.
fn read(row: &Row) -> Option<NoteRow> {
    let name: String = column(row, 0).ok()?;
    NoteRow::decode(&name, bytes(row, 1).ok()?)
}

pub(super) fn get(rows: &Rows<'_>, name: &str) -> Result<Option<NoteRow>, Failure> {
    static SQL: Sql = Sql::new(
        "SELECT name, data FROM filrouge.note WHERE lane = $1 AND name = $2",
        &[Type::INT2, Type::TEXT],
    );
    let fetched = rows.query_opt(&SQL, &[&sql_lane(Lane::FIRST), &name])?;
    fetched
        .map(|row| read(&row).ok_or_else(|| malformed("note")))
        .transpose()
}

pub(super) fn all(rows: &Rows<'_>) -> Result<Vec<Option<NoteRow>>, Failure> {
    static SQL: Sql = Sql::new(
        "SELECT name, data FROM filrouge.note WHERE lane = $1 ORDER BY name",
        &[Type::INT2],
    );
    let fetched = rows.query_all(&SQL, &[&sql_lane(Lane::FIRST)])?;
    Ok(fetched.iter().map(read).collect())
}
