//! What was left out of a foreign history, and why (DESIGN P9).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

filrouge_types::words!(
    /// Why a file or folder of a foreign history was left out.
    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    #[non_exhaustive]
    pub enum SkipReason: "reason" {
        /// The file has no byte.
        Empty => "empty",
        /// The file ends in the middle of its JSON, or holds NUL bytes where text was to come.
        Torn => "torn",
        /// The file is not UTF-8.
        NotUtf8 => "not_utf8",
        /// The file is not the JSON it should be.
        Malformed => "malformed",
        /// An object that has to be understood names one key twice.
        DuplicateKey => "duplicate_key",
        /// The JSON is nested deeper than the ledger takes.
        TooDeep => "too_deep",
        /// The file is larger than a source reads.
        TooLarge => "too_large",
        /// A field that is needed is absent or of another type.
        BadField => "bad_field",
        /// The id inside the file is not the one of its path.
        IdMismatch => "id_mismatch",
        /// The name of the file or folder gives no usable id.
        BadName => "bad_name",
        /// The same id was read already.
        DuplicateId => "duplicate_id",
        /// A symbolic link; none is followed.
        Symlink => "symlink",
        /// Something else than the file or folder that belongs there.
        WrongKind => "wrong_kind",
        /// Records of a kind this version does not know.
        UnknownKind => "unknown_kind",
        /// The operating system refuses to read it.
        Unreadable => "unreadable",
        /// A folder of messages whose session has no file.
        OrphanMessages => "orphan_messages",
        /// A folder of parts whose message has no file.
        OrphanParts => "orphan_parts",
        /// An answer that is still being written, or was when its program died.
        Incomplete => "incomplete",
        /// The same session is read from a newer generation.
        Shadowed => "shadowed",
        /// A database, which this version does not read.
        Database => "database",
    }
);

/// One thing that was left out: where, why, and what exactly. Never holds conversation text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, thiserror::Error)]
#[error("{}: {reason}: {detail}", path.display())]
pub struct Skipped {
    /// The file or folder.
    #[serde(serialize_with = "lossy_path")]
    pub path: PathBuf,
    /// Why.
    pub reason: SkipReason,
    /// A sentence for a person.
    pub detail: String,
}

impl Skipped {
    /// What was skipped at a path, why, and what a person is told of it.
    pub fn new(path: &Path, reason: SkipReason, detail: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            reason,
            detail: detail.into(),
        }
    }
}

/// A file name need not be Unicode, and serde refuses such a path; a report must not fail for it.
fn lossy_path<S: Serializer>(path: &Path, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(&path.to_string_lossy())
}

/// How often each reason occurs.
#[must_use]
pub fn count_by_reason(skipped: &[Skipped]) -> BTreeMap<SkipReason, usize> {
    let mut counts = BTreeMap::new();
    for one in skipped {
        *counts.entry(one.reason).or_insert(0) += 1;
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
        let one = Skipped::new(Path::new("a/b.json"), SkipReason::Torn, "ends at byte 3");
        assert_eq!(one.to_string(), "a/b.json: torn: ends at byte 3");
        assert_eq!(
            serde_json::to_string(&one).unwrap(),
            r#"{"path":"a/b.json","reason":"torn","detail":"ends at byte 3"}"#
        );
        assert_eq!(count_by_reason(&[one.clone(), one])[&SkipReason::Torn], 2);
    }
}
