//! The cursor of audit pages.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use filrouge_store::Lane;
use filrouge_store::read::ChangeCursor;
use filrouge_types::{ErrorCode, Failure};

/// A position in the audit: after changes of the change feed, and possibly within the next change of a lane.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditCursor {
    /// The changes that were read completely; the default value in the audit of one session.
    pub(super) after: ChangeCursor,
    /// The position within the next change of a lane, for each lane whose next change was read in part. There can be
    /// several: before a page continues such a change, it reads older changes that have appeared in other lanes.
    pub(super) items: BTreeMap<Lane, AuditPosition>,
}

/// An item, and how many of its calls and results were already returned. Seq 0 is before the first item of a session:
/// then `part` is the number of events that were read.
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
            items: BTreeMap::from([(Lane::FIRST, position)]),
            ..Self::default()
        }
    }

    /// The position in the audit of one session.
    ///
    /// # Errors
    /// `invalid` when the cursor belongs to the audit of all sessions.
    pub(super) fn to_session_position(&self) -> Result<AuditPosition, Failure> {
        let position = self.items.get(&Lane::FIRST).copied();
        position
            .filter(|_| self.after == ChangeCursor::default())
            .ok_or_else(|| invalid_cursor(&self.to_string()))
    }
}

impl fmt::Display for AuditCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.after)?;
        for (lane, AuditPosition { seq, part }) in &self.items {
            write!(f, "-{seq}-{part}")?;
            if *lane != Lane::FIRST {
                write!(f, "_{lane}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for AuditCursor {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let parse = || {
            let mut pieces = text.split('-');
            let mut cursor = Self {
                after: pieces.next()?.parse().ok()?,
                items: BTreeMap::new(),
            };
            while let Some(seq) = pieces.next() {
                let part = pieces.next()?;
                let (part, lane) = part.split_once('_').unwrap_or((part, "0"));
                let position = AuditPosition {
                    seq: parse_digits(seq)
                        .filter(|seq| *seq > 0 || cursor.after == ChangeCursor::default())?,
                    part: parse_digits(part)?,
                };
                let lane = Lane::new(parse_digits(lane)?);
                if cursor.items.insert(lane, position).is_some() {
                    return None;
                }
            }
            Some(cursor)
        };
        parse().ok_or_else(|| invalid_cursor(text))
    }
}

/// Parses a number that has only digits, without a sign.
fn parse_digits<T: FromStr>(text: &str) -> Option<T> {
    let has_only_digits = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| has_only_digits)
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
        for text in [
            "0",
            "42",
            "42.3",
            "42-17-0",
            "42.3-17-2",
            "0-1-500",
            "0-0-7",
            "42.3_0_7",
            "0_1-17-2_1",
            "42_7-17-2-1-0_1",
        ] {
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
            "1-2-3-4-5",
            "1-2_1-3",
            "1-2-3_",
            "1-2-3_+1",
            "1-2-3_1_1",
            "1-2-3_99999",
            "1-2-99999999999999999999",
            "é",
        ] {
            let refused = text.parse::<AuditCursor>().unwrap_err();
            assert_eq!(refused.code, ErrorCode::Invalid, "{text}");
        }
    }
}
