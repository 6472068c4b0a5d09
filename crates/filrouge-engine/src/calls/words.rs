//! Names in log lines of live calls.

use std::borrow::Cow;

use filrouge_types::UNASSIGNED;
use tracing::field::{Value, display};

/// Returns a name as one word of a log line: `-` for an empty name; `_` replaces white space and control characters,
/// which would break the line or the field.
pub(crate) fn log_word(name: &str) -> Cow<'_, str> {
    let breaks_line = |c: char| c.is_control() || c.is_whitespace();
    match name {
        "" => Cow::Borrowed("-"),
        name if name.contains(breaks_line) => Cow::Owned(name.replace(breaks_line, "_")),
        name => Cow::Borrowed(name),
    }
}

/// Like [`log_word`], for an optional name.
pub(crate) fn optional_log_word(name: Option<&str>) -> Cow<'_, str> {
    log_word(name.unwrap_or_default())
}

/// A seq in a log line: a number, or `-` while the ledger has not assigned it.
pub(super) fn log_seq(seq: u64) -> Box<dyn Value> {
    match seq {
        UNASSIGNED => Box::new(display("-")),
        seq => Box::new(seq),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_word() {
        assert_eq!(optional_log_word(None), "-");
        assert_eq!(optional_log_word(Some("")), "-");
        assert_eq!(log_word("WAIT_CONFIRM"), "WAIT_CONFIRM");
        assert_eq!(log_word("wait\nfor it"), "wait_for_it");
        assert_eq!(
            log_word("call-1 seq=1 role=agent"),
            "call-1_seq=1_role=agent"
        );
    }
}
