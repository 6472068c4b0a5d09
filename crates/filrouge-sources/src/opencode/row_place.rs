//! Where rows of a database are shown to lie, and what damage costs there.

use std::path::{Path, PathBuf};

use filrouge_sqlite::foreign::ForeignError;

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
    let (reason, why) = match asked {
        Err(why @ ForeignError::Corrupt { .. }) => (SkipReason::Malformed, why),
        Err(why @ ForeignError::TooLarge { .. }) => (SkipReason::TooLarge, why),
        asked => return asked,
    };
    skipped.push(Skipped::new(place, reason, why.to_string()));
    Ok(())
}

pub(super) fn source_error(why: ForeignError) -> SourceError {
    match why {
        ForeignError::Gone { path } => SourceError::NotFound {
            program: "opencode",
            path,
        },
        why => SourceError::Unreadable {
            reason: why.reason(),
            path: why.into_path(),
        },
    }
}

pub(super) fn read_error(why: ForeignError) -> ReadError {
    ReadError::Unavailable(why.to_string())
}
