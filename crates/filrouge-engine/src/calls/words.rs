//! Names in the lines of live calls.

use std::borrow::Cow;

/// A state's name as one word of a line: `-` for none, and `_` for what would break the line or be taken for its end.
pub(super) fn word(state: Option<&str>) -> Cow<'_, str> {
    let breaks = |c: char| c.is_control() || c.is_whitespace();
    match state {
        None | Some("") => Cow::Borrowed("-"),
        Some(state) if state.contains(breaks) => Cow::Owned(state.replace(breaks, "_")),
        Some(state) => Cow::Borrowed(state),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_one_word() {
        assert_eq!(word(None), "-");
        assert_eq!(word(Some("")), "-");
        assert_eq!(word(Some("WAIT_CONFIRM")), "WAIT_CONFIRM");
        assert_eq!(word(Some("wait\nfor it")), "wait_for_it");
    }
}
