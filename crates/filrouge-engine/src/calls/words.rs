//! Names in log lines of live calls.

use std::borrow::Cow;

/// A name as one word of a log line: `-` for an empty one, and `_` for white space and control characters, which would
/// break the line or the field.
pub(crate) fn word(name: &str) -> Cow<'_, str> {
    let breaks = |c: char| c.is_control() || c.is_whitespace();
    match name {
        "" => Cow::Borrowed("-"),
        name if name.contains(breaks) => Cow::Owned(name.replace(breaks, "_")),
        name => Cow::Borrowed(name),
    }
}

/// Like [`word`], for an optional name.
pub(crate) fn word_of(name: Option<&str>) -> Cow<'_, str> {
    word(name.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_word() {
        assert_eq!(word_of(None), "-");
        assert_eq!(word_of(Some("")), "-");
        assert_eq!(word("WAIT_CONFIRM"), "WAIT_CONFIRM");
        assert_eq!(word("wait\nfor it"), "wait_for_it");
        assert_eq!(word("call-1 seq=1 role=agent"), "call-1_seq=1_role=agent");
    }
}
