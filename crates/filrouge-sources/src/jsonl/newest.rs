//! Of several files with one id the one that was written last.

use std::collections::BTreeMap;

use super::LogFile;
use crate::{SkipReason, Skipped};

/// Puts `one` under its id. Of two files of one id (a folder that was copied, a rollout that was put away while
/// somebody wrote it) the one whose last record is later stays, then the larger one, then the one that was there; the
/// other is named. `of` tells the file and the time of its last record.
pub(crate) fn keep_newest<T>(
    named: &mut BTreeMap<Box<str>, T>,
    id: Box<str>,
    one: T,
    of: fn(&T) -> (&LogFile, Option<i64>),
    skipped: &mut Vec<Skipped>,
) {
    let newest = |one: &T| {
        let (file, updated) = of(one);
        (updated, file.state.size)
    };
    let lost = match named.get(&id) {
        Some(before) if newest(before) >= newest(&one) => Some(one),
        _ => named.insert(id, one),
    };
    if let Some(lost) = lost {
        let detail = "a session of this id is read from another file";
        let path = &of(&lost).0.path;
        skipped.push(Skipped::new(path, SkipReason::DuplicateId, detail));
    }
}
