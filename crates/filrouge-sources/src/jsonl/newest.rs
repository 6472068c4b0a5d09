//! Keeps the newest of several files with the same id.

use std::collections::BTreeMap;

use super::LogFile;
use crate::{SkipReason, Skipped};

/// Adds `entry` to `by_id` under its session id. Two files can have the same id: a folder was copied, or a file was
/// archived while another process wrote it. Of the two, keeps the one whose last record is later; if the times are
/// equal, the larger one; if the sizes are equal too, the one added first. Reports the other one in `skipped`.
///
/// `file_of` returns the file and the time of its last record.
pub(crate) fn keep_newest<T>(
    by_id: &mut BTreeMap<Box<str>, T>,
    id: Box<str>,
    entry: T,
    file_of: fn(&T) -> (&LogFile, Option<i64>),
    skipped: &mut Vec<Skipped>,
) {
    let rank = |entry: &T| {
        let (file, updated) = file_of(entry);
        (updated, file.state.size)
    };
    let older = match by_id.get(&id) {
        Some(present) if rank(present) >= rank(&entry) => Some(entry),
        _ => by_id.insert(id, entry),
    };
    if let Some(older) = older {
        let detail = "a session of this id is read from another file";
        let path = &file_of(&older).0.path;
        skipped.push(Skipped::new(path, SkipReason::DuplicateId, detail));
    }
}
