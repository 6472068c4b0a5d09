//! Reports of the parts of a foreign history that were left out (DESIGN P9).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

filrouge_types::words!(
    /// The reason why a file or folder of a foreign history was left out.
    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    #[non_exhaustive]
    pub enum SkipReason: "reason" {
        /// The file has no bytes.
        Empty => "empty",
        /// The file ends in the middle of its JSON, or contains NUL bytes instead of text.
        Torn => "torn",
        /// The file is not UTF-8.
        NotUtf8 => "not_utf8",
        /// The file is not JSON of the expected form.
        Malformed => "malformed",
        /// An object that has to be interpreted contains one key twice.
        DuplicateKey => "duplicate_key",
        /// The JSON is nested deeper than the ledger accepts.
        TooDeep => "too_deep",
        /// The file is larger than the limit of sources.
        TooLarge => "too_large",
        /// A required field is absent or of another type.
        BadField => "bad_field",
        /// The id inside the file is not the one in its path.
        IdMismatch => "id_mismatch",
        /// The name of the file or folder is not a usable id.
        BadName => "bad_name",
        /// The same id was already read.
        DuplicateId => "duplicate_id",
        /// A symbolic link; links are not followed.
        Symlink => "symlink",
        /// A folder in place of the expected file, a file in place of the expected folder, or a special file.
        WrongKind => "wrong_kind",
        /// Records of a kind that this version does not know.
        UnknownKind => "unknown_kind",
        /// The operating system or the database cannot read it.
        Unreadable => "unreadable",
        /// A folder of messages whose session has no file.
        OrphanMessages => "orphan_messages",
        /// A folder of parts whose message has no file.
        OrphanParts => "orphan_parts",
        /// An unfinished answer: its program is still writing it, or ended before the answer was complete.
        Incomplete => "incomplete",
        /// The same session is read from a newer generation.
        Shadowed => "shadowed",
        /// A database that this version cannot read.
        Database => "database",
    }
);

/// One record, file or folder that was left out: where, why, and the details. Never contains conversation text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, thiserror::Error)]
#[error("{}: {reason}: {detail}", path.display())]
pub struct Skipped {
    /// The file or folder.
    #[serde(serialize_with = "lossy_path")]
    pub path: PathBuf,
    /// The reason.
    pub reason: SkipReason,
    /// The details, as text for people.
    pub detail: String,
}

impl Skipped {
    /// Reports `path` as left out for `reason`; `detail` is text for people.
    pub fn new(path: &Path, reason: SkipReason, detail: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            reason,
            detail: detail.into(),
        }
    }
}

/// Writes a path, with replacement characters where it is not Unicode: serde refuses a path that is not Unicode, but a
/// report must not fail because of it.
fn lossy_path<S: Serializer>(path: &Path, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(&path.to_string_lossy())
}

/// The number of occurrences of each reason.
pub fn count_by_reason(skipped: &[Skipped]) -> BTreeMap<SkipReason, usize> {
    let mut counts = BTreeMap::new();
    for report in skipped {
        *counts.entry(report.reason).or_insert(0) += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_unique_and_reports_are_json() {
        let words: std::collections::BTreeSet<_> =
            SkipReason::ALL.iter().map(|r| r.as_str()).collect();
        assert_eq!(words.len(), SkipReason::ALL.len());
        let report = Skipped::new(Path::new("a/b.json"), SkipReason::Torn, "ends at byte 3");
        assert_eq!(report.to_string(), "a/b.json: torn: ends at byte 3");
        assert_eq!(
            serde_json::to_string(&report).unwrap(),
            r#"{"path":"a/b.json","reason":"torn","detail":"ends at byte 3"}"#
        );
        assert_eq!(
            count_by_reason(&[report.clone(), report])[&SkipReason::Torn],
            2
        );
    }
}
