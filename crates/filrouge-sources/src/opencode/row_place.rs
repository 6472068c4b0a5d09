//! Where rows of a database are shown to lie, and what damage costs there.

use std::path::{Path, PathBuf};

use filrouge_sqlite::foreign::{ForeignError, ForeignKind};

use crate::{ReadError, SkipReason, Skipped, SourceError};

/// Where a database is shown to lie.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a>(pub(super) &'a Path);

impl Place<'_> {
    /// The place of a row: `/path/opencode.db#part/prt_x`.
    pub(super) fn of(self, table: &str, id: &str) -> PathBuf {
        let mut name = self.0.as_os_str().to_owned();
        name.push("#");
        name.push(table);
        if !id.is_empty() {
            name.push("/");
            name.push(id);
        }
        name.into()
    }
}

/// Damage costs the rows behind it: it is named at `place`. Everything else is an error.
pub(super) fn tolerate(
    asked: Result<(), ForeignError>,
    place: &Path,
    skipped: &mut Vec<Skipped>,
) -> Result<(), ForeignError> {
    let Err(why) = asked else { return Ok(()) };
    let reason = match why.kind {
        ForeignKind::Corrupt => SkipReason::Malformed,
        ForeignKind::TooLarge => SkipReason::TooLarge,
        _ => return Err(why),
    };
    skipped.push(Skipped::new(place, reason, why.to_string()));
    Ok(())
}

/// Names a row whose id another row has.
pub(super) fn another_row(place: &Path) -> Skipped {
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
