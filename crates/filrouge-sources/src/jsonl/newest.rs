//! Keeps the newest of several files with the same id.

use std::collections::BTreeMap;

use super::LogFile;
use crate::{SkipReason, Skipped};

/// Adds `one` to `named` under its session id. Two files can have the same id: a folder was copied, or a file was
/// archived while another process wrote it. Of the two, keeps the one whose last record is later; if the times are
/// equal, the larger one; if the sizes are equal too, the one added first. Reports the other one in `skipped`.
///
/// `file_of` returns the file and the time of its last record.
pub(crate) fn keep_newest<T>(
    named: &mut BTreeMap<Box<str>, T>,
    id: Box<str>,
    one: T,
    file_of: fn(&T) -> (&LogFile, Option<i64>),
    skipped: &mut Vec<Skipped>,
) {
    let newest = |one: &T| {
        let (file, updated) = file_of(one);
        (updated, file.state.size)
    };
    let older = match named.get(&id) {
        Some(before) if newest(before) >= newest(&one) => Some(one),
        _ => named.insert(id, one),
    };
    if let Some(older) = older {
        let detail = "a session of this id is read from another file";
        let path = &file_of(&older).0.path;
        skipped.push(Skipped::new(path, SkipReason::DuplicateId, detail));
    }
}
