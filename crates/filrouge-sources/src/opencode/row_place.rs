//! The places of rows as reports name them, and the conversion of database errors.

use std::path::{Path, PathBuf};

use filrouge_sqlite::foreign::{ForeignError, ForeignKind, Result};

use crate::{ReadError, SkipReason, Skipped, SourceError};

/// The path of a row in reports: `/path/opencode.db#part/prt_x`.
pub(super) fn row_path(database: &Path, table: &str, id: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("#");
    name.push(table);
    if !id.is_empty() {
        name.push("/");
        name.push(id);
    }
    name.into()
}

/// Handles the result of a query. A damaged page or a value that is too large is reported at `place`, and the function
/// succeeds: only the rows after the damage are lost. Returns every other error.
pub(super) fn report_damage(
    result: Result<()>,
    place: &Path,
    skipped: &mut Vec<Skipped>,
) -> Result<()> {
    let Err(why) = result else { return Ok(()) };
    let reason = match why.kind {
        ForeignKind::Corrupt => SkipReason::Malformed,
        ForeignKind::TooLarge => SkipReason::TooLarge,
        _ => return Err(why),
    };
    skipped.push(Skipped::new(place, reason, why.to_string()));
    Ok(())
}

/// The report for a row whose id another row has too.
pub(super) fn duplicate_row(place: &Path) -> Skipped {
    Skipped::new(place, SkipReason::DuplicateId, "another row has this id")
}

pub(super) fn source_error(why: ForeignError) -> SourceError {
    let path = why.path;
    match why.kind {
        ForeignKind::Gone => SourceError::NotFound { path },
        _ => SourceError::Unreadable {
            path,
            reason: format!("it {}", why.what),
        },
    }
}

pub(super) fn read_error(why: ForeignError) -> ReadError {
    ReadError::Unavailable(why.to_string())
}
