//! Where a page of the audit begins.

use std::fmt;
use std::str::FromStr;

use filrouge_store::read::ChangeCursor;
use filrouge_types::{ErrorCode, Failure};

/// A place in the audit: behind a change, and within the one that follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AuditCursor {
    /// The change that is behind; in a session's own listing none.
    pub(super) after: ChangeCursor,
    /// Where to go on in the next one.
    pub(super) item: Option<Place>,
}

/// An item, and how many of its calls and results are behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) seq: u64,
    pub(super) part: usize,
}

impl Place {
    pub(super) const fn at(seq: u64) -> Self {
        Self { seq, part: 0 }
    }
}

impl AuditCursor {
    /// A place in a session's own listing.
    pub(super) const fn in_session(place: Place) -> Self {
        Self {
            after: ChangeCursor {
                commit_no: 0,
                taken: None,
            },
            item: Some(place),
        }
    }

    /// The place in a session's own listing that this is.
    ///
    /// # Errors
    /// `invalid` when it is one in the listing of all sessions.
    pub(super) fn of_session(self) -> Result<Place, Failure> {
        self.item
            .filter(|_| self.after == ChangeCursor::default())
            .ok_or_else(|| refused(&self.to_string()))
    }
}

impl fmt::Display for AuditCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.after)?;
        match self.item {
            Some(Place { seq, part }) => write!(f, "-{seq}-{part}"),
            None => Ok(()),
        }
    }
}

impl FromStr for AuditCursor {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let read = || {
            let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
            let Some((after, item)) = text.split_once('-') else {
                return Some(Self {
                    after: text.parse().ok()?,
                    item: None,
                });
            };
            let (seq, part) = item.split_once('-')?;
            if !digits(seq) || !digits(part) {
                return None;
            }
            let item = Place {
                seq: seq.parse().ok().filter(|seq| *seq > 0)?,
                part: part.parse().ok()?,
            };
            Some(Self {
                after: after.parse().ok()?,
                item: Some(item),
            })
        };
        read().ok_or_else(|| refused(text))
    }
}

fn refused(text: &str) -> Failure {
    Failure::new(
        ErrorCode::Invalid,
        format!("{text:?} is no cursor of the audit"),
    )
    .with_hint(
        "pass a next_cursor as it came, with the same filters, or leave it out for the first page",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_and_read() {
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
