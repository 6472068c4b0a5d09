//! File names for ids. Letters, digits, `.`, `_` and `-` are unchanged; all other bytes, and a leading dot, become
//! `%XX`: no id becomes `.` or `..`, a path outside the folder, or a hidden file. A name longer than 120 bytes is cut
//! and ends in `~` and 32 digits of the id's SHA-256, so that two ids never share a file.

use filrouge_types::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use sha2::{Digest, Sha256};

/// The maximum length in bytes of a name that is not cut. With the time before it, the extension after it and the
/// additions of a temporary file, it stays below the limits of file systems.
const NAME_BYTES_MAX: usize = 120;

/// The bytes that are escaped in a name.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'-').remove(b'.');

/// The file name for an id.
pub(crate) fn encode_id(id: &str) -> String {
    let mut name = percent_encode(id.as_bytes(), ESCAPED).to_string();
    if name.starts_with('.') {
        name.replace_range(..1, "%2E");
    }
    if name.len() > NAME_BYTES_MAX {
        let digest = format!("~{:.32}", hex::encode(Sha256::digest(id.as_bytes())));
        name.truncate(NAME_BYTES_MAX - digest.len());
        name.push_str(&digest);
    }
    name
}

/// The name of a session's file.
pub(super) fn file_name(created_at: Timestamp, session_id: &str, is_encrypted: bool) -> String {
    let suffix = if is_encrypted { ".json.age" } else { ".json" };
    format!(
        "{}-{}{suffix}",
        created_at.as_millis(),
        encode_id(session_id)
    )
}

/// Whether a file of this name may be a snapshot.
pub(super) fn is_snapshot(name: &str) -> bool {
    !name.starts_with('.') && (name.ends_with(".json") || name.ends_with(".json.age"))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_stay_in_their_folder_and_never_share_a_file() {
        let long = ["x".repeat(300), "y".repeat(256), "é".repeat(100)];
        let ids = [
            "a",
            "A",
            "a.b",
            ".",
            "..",
            ".a",
            "a/b",
            "a%2Fb",
            "../../etc",
            "a-b",
            "",
            " ",
            "c\\d",
            &long[0],
            &long[1],
            &long[2],
        ];
        let mut names = HashSet::new();
        for id in ids {
            let name = encode_id(id);
            assert!(names.insert(name.clone()), "{id:?}: {name}");
            assert!(
                name.len() <= NAME_BYTES_MAX && !name.starts_with('.'),
                "{name}"
            );
            assert!(!name.contains('/') && !name.contains('\\'), "{name}");
        }
        assert_ne!(encode_id(&"x".repeat(299)), encode_id(&"x".repeat(300)));
    }

    #[test]
    fn a_file_is_named_by_time_and_session() {
        let at = Timestamp::from_micros(1_700_000_000_123_456);
        assert_eq!(file_name(at, "a/b", false), "1700000000123-a%2Fb.json");
        assert_eq!(file_name(at, "s", true), "1700000000123-s.json.age");
        for (name, expected) in [
            ("1-a.json", true),
            ("1-a.json.age", true),
            (".1-a.json", false),
            ("notes.txt", false),
        ] {
            assert_eq!(is_snapshot(name), expected, "{name}");
        }
    }
}
