//! The cursor of audit pages.

use std::fmt;
use std::str::FromStr;

use filrouge_store::read::ChangeCursor;
use filrouge_types::{ErrorCode, Failure};

/// A position in the audit: after a change of the change feed, and possibly within the next change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AuditCursor {
    /// The last change that was read completely; the default value in the audit of one session.
    pub(super) after: ChangeCursor,
    /// The position within the next change; `None` at its beginning.
    pub(super) item: Option<AuditPosition>,
}

/// An item, and how many of its calls and results were already returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AuditPosition {
    pub(super) seq: u64,
    pub(super) part: usize,
}

impl AuditPosition {
    pub(super) const fn at(seq: u64) -> Self {
        Self { seq, part: 0 }
    }
}

impl AuditCursor {
    /// The cursor for a position in the audit of one session.
    pub(super) fn from_session_position(position: AuditPosition) -> Self {
        Self {
            item: Some(position),
            ..Self::default()
        }
    }

    /// The position in the audit of one session.
    ///
    /// # Errors
    /// `invalid` when the cursor belongs to the audit of all sessions.
    pub(super) fn to_session_position(self) -> Result<AuditPosition, Failure> {
        self.item
            .filter(|_| self.after == ChangeCursor::default())
            .ok_or_else(|| invalid_cursor(&self.to_string()))
    }
}

impl fmt::Display for AuditCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.after)?;
        match self.item {
            Some(AuditPosition { seq, part }) => write!(f, "-{seq}-{part}"),
            None => Ok(()),
        }
    }
}

impl FromStr for AuditCursor {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let parse = || {
            let is_digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
            let Some((after, item)) = text.split_once('-') else {
                return Some(Self {
                    after: text.parse().ok()?,
                    item: None,
                });
            };
            let (seq, part) = item.split_once('-')?;
            if !is_digits(seq) || !is_digits(part) {
                return None;
            }
            let item = AuditPosition {
                seq: seq.parse().ok().filter(|seq| *seq > 0)?,
                part: part.parse().ok()?,
            };
            Some(Self {
                after: after.parse().ok()?,
                item: Some(item),
            })
        };
        parse().ok_or_else(|| invalid_cursor(text))
    }
}

fn invalid_cursor(text: &str) -> Failure {
    Failure::new(
        ErrorCode::Invalid,
        format!("{text:?} is no cursor of the audit"),
    )
    .with_hint(
        "pass a next_cursor unchanged, with the same filters, or leave it out for the first page",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_written_and_parsed_back() {
        for text in ["0", "42", "42.3", "42-17-0", "42.3-17-2", "0-1-500"] {
            let cursor: AuditCursor = text.parse().unwrap();
            assert_eq!(cursor.to_string(), text);
        }
        for text in [
            "",
            "-",
            "x",
            "1-",
            "1-2",
            "1-2-",
            "1-0-0",
            "1-2-3-4",
            "1--2-3",
            "-1-2-3",
            "1-+2-3",
            "1.-2-3",
            "1-2-99999999999999999999",
            "é",
        ] {
            let refused = text.parse::<AuditCursor>().unwrap_err();
            assert_eq!(refused.code, ErrorCode::Invalid, "{text}");
        }
    }
}
