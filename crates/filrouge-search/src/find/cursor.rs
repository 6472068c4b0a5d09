//! Where a search goes on.
//!
//! A cursor holds all that is needed: of which question it is, behind which session the next page begins, of when the
//! order is, whether meaning has a part in it, and how many matches of that session were shown when one session is
//! searched alone. Nothing is kept between pages.

use filrouge_sources::LibraryError;

use crate::ask::Ask;

/// What a cursor begins with.
const PREFIX: &str = "search.";

/// Where the next page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cursor {
    /// The score of the last session that was shown.
    pub(super) score: i64,
    /// When it had changed, milliseconds since 1970.
    pub(super) updated: i64,
    /// Its id.
    pub(super) id: String,
    /// How many of its matches were shown; 0: all that are shown.
    pub(super) shown: usize,
    /// When the first page was made: how recent a session is counts from there, milliseconds since 1970.
    pub(super) now: i64,
    /// Whether the question was embedded: an order that is by meaning goes on only by meaning.
    pub(super) embedded: bool,
}

impl Cursor {
    pub(super) fn read(text: &str, ask: &Ask) -> Result<Self, LibraryError> {
        let invalid = |text: &str| LibraryError::Invalid(text.to_owned());
        match Self::parts(text) {
            Some((asked, cursor)) if asked == fingerprint(ask) => Ok(cursor),
            Some(_) => Err(invalid(
                "the cursor is of another search; ask again with the query and filters it was made for",
            )),
            None => Err(invalid(
                "the cursor is none of a search; take nextCursor of the page before",
            )),
        }
    }

    /// What it says, with the fingerprint of its question.
    fn parts(text: &str) -> Option<(u64, Self)> {
        let mut words = text.strip_prefix(PREFIX).unwrap_or_default().splitn(7, '.');
        let asked = u64::from_str_radix(words.next()?, 16).ok()?;
        let (now, score) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        // Days are counted from it.
        jiff::Timestamp::from_millisecond(now).ok()?;
        let updated = words.next()?.parse().ok()?;
        let shown = words.next()?.parse().ok()?;
        let embedded = words.next()?.parse::<u8>().ok()? == 1;
        let id = words.next()?.to_owned();
        let cursor = Self {
            score,
            updated,
            id,
            shown,
            now,
            embedded,
        };
        Some((asked, cursor))
    }

    pub(super) fn write(&self, ask: &Ask) -> String {
        let asked = fingerprint(ask);
        let Self {
            score,
            updated,
            id,
            shown,
            now,
            embedded,
        } = self;
        let embedded = u8::from(*embedded);
        format!("{PREFIX}{asked:x}.{now}.{score}.{updated}.{shown}.{embedded}.{id}")
    }

    /// Whether a session was on a page before.
    pub(super) fn is_behind(&self, score: i64, updated: i64, id: &str) -> bool {
        if self.id == id {
            return self.shown == 0;
        }
        (self.score, self.updated, id) < (score, updated, self.id.as_str())
    }
}

/// When the first page was made that a cursor leads on from, milliseconds since 1970; `None` for what is no cursor. Who
/// counts times of an [`Ask`] from now counts those of later pages from there: of other times it is another search.
#[must_use]
pub fn begun(cursor: &str) -> Option<i64> {
    Cursor::parts(cursor).map(|(_, cursor)| cursor.now)
}

/// The same for the same query and filters, in every process (FNV-1a).
fn fingerprint(ask: &Ask) -> u64 {
    let one_page = Ask {
        limit: 0,
        excerpts: 0,
        cursor: None,
        mask: false,
        now: None,
        ..ask.clone()
    };
    let asked = format!("{one_page:?}");
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
            score: -5,
            updated: -7,
            id: "ses.1 é".to_owned(),
            shown: 3,
            now: 7,
            embedded: true,
        };
        let text = cursor.write(&ask);
        assert_eq!(Cursor::read(&text, &ask).unwrap(), cursor);
        assert_eq!(begun(&text), Some(7));
        let other = Ask {
            query: "b".to_owned(),
            ..Ask::default()
        };
        assert!(Cursor::read(&text, &other).is_err());
        let wrong = [
            "",
            "search.",
            "search.1.2.3.4.5.0",
            "sessions.1.2",
            "search.x.1.1.1.1.1.a",
            // No moment.
            &text.replacen(".7.", ".-9223372036854775808.", 1),
            &text.replacen(".7.", ".9223372036854775807.", 1),
        ];
        for wrong in wrong {
            assert!(Cursor::read(wrong, &ask).is_err(), "{wrong}");
        }
    }

    #[test]
    fn pages_follow_each_other_by_score_then_by_time_then_by_id() {
        let cursor = Cursor {
            score: 5,
            updated: 1,
            id: "m".to_owned(),
            shown: 0,
            now: 0,
            embedded: false,
        };
        assert!(cursor.is_behind(6, 0, "z"));
        assert!(cursor.is_behind(5, 1, "a"));
        assert!(cursor.is_behind(5, 1, "m"));
        assert!(!cursor.is_behind(5, 1, "n"));
        assert!(cursor.is_behind(5, 2, "z"));
        assert!(!cursor.is_behind(4, 9, "a"));
        let within = Cursor { shown: 2, ..cursor };
        assert!(!within.is_behind(5, 1, "m"));
    }
}
