//! Keeps the newest of several files with the same id.

use std::collections::BTreeMap;

use super::LogFile;
use crate::{SkipReason, Skipped};

/// Adds `one` under its id. Of two files with the same id (a copied folder, or a rollout that was archived while another
/// process wrote it), keeps the one whose last record is later, or else the larger one, or else the one added first; the
/// other one is reported in `skipped`. `file_of` returns the file and the time of its last record.
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
