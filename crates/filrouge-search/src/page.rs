//! Where a search goes on.
//!
//! A cursor holds all that is needed: of which question it is, behind which session the next page begins, and how many
//! matches of that session were shown when one session is searched alone. Nothing is kept between pages.

use std::cmp::Reverse;

use crate::ask::Ask;
use filrouge_sources::{Header, LibraryError};

/// What a cursor begins with.
const PREFIX: &str = "search.";

/// Where the next page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// When the last session that was shown had changed.
    pub(crate) updated: i64,
    /// Its id.
    pub(crate) id: String,
    /// How many of its matches were shown; 0: all that are shown.
    pub(crate) shown: usize,
}

/// Where a session stands among those found: the last changed first, then by id.
pub(crate) fn order(header: &Header) -> (Reverse<i64>, &str) {
    (Reverse(header.updated), &header.id)
}

impl Cursor {
    pub(crate) fn read(text: &str, ask: &Ask) -> Result<Self, LibraryError> {
        let mut words = text.strip_prefix(PREFIX).unwrap_or_default().splitn(4, '.');
        let mut read = || {
            let asked = u64::from_str_radix(words.next()?, 16).ok()?;
            let (updated, shown) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            let id = words.next()?.to_owned();
            Some((asked, Self { updated, id, shown }))
        };
        let invalid = |text: &str| LibraryError::Invalid(text.to_owned());
        match read() {
            Some((asked, cursor)) if asked == fingerprint(ask) => Ok(cursor),
            Some(_) => Err(invalid(
                "the cursor is of another search; ask again with the query and filters it was made for",
            )),
            None => Err(invalid(
                "the cursor is none of a search; take nextCursor of the page before",
            )),
        }
    }

    pub(crate) fn write(&self, ask: &Ask) -> String {
        let asked = fingerprint(ask);
        format!(
            "{PREFIX}{asked:x}.{}.{}.{}",
            self.updated, self.shown, self.id
        )
    }

    /// Whether a session was on a page before.
    pub(crate) fn is_behind(&self, header: &Header) -> bool {
        if self.id == *header.id {
            return self.shown == 0;
        }
        order(header) < (Reverse(self.updated), self.id.as_str())
    }
}

/// The same for the same query and filters, in every process (FNV-1a).
fn fingerprint(ask: &Ask) -> u64 {
    let asked = format!(
        "{:?}",
        (
            (&ask.query, &ask.agent, &ask.project_id, &ask.tool, ask.role),
            (
                ask.since,
                ask.until,
                &ask.source,
                &ask.exclude_session,
                &ask.session_id
            ),
        )
    );
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    asked.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_of_one_question() {
        let ask = Ask {
            query: "a".to_owned(),
            ..Ask::default()
        };
        let cursor = Cursor {
            updated: -5,
            id: "ses.1 é".to_owned(),
            shown: 3,
        };
        let text = cursor.write(&ask);
        assert_eq!(Cursor::read(&text, &ask).unwrap(), cursor);
        let other = Ask {
            query: "b".to_owned(),
            ..Ask::default()
        };
        assert!(Cursor::read(&text, &other).is_err());
        for wrong in [
            "",
            "search.",
            "search.1.2.3",
            "sessions.1.2",
            "search.x.1.1.a",
        ] {
            assert!(Cursor::read(wrong, &ask).is_err(), "{wrong}");
        }
    }
}
