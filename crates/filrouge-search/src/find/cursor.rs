//! Cursors: the positions from which searches continue.
//!
//! A cursor contains everything that the next page needs: a fingerprint of the request, the session with which the page
//! before ended, the time for which the order is computed, whether the order uses meaning and, when one session is
//! searched alone, how many of its matches were shown. The server keeps no state between pages.

use filrouge_sources::LibraryError;

use crate::request::SearchRequest;

/// The prefix of every cursor.
const PREFIX: &str = "search.";

/// The position at which the next page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cursor {
    /// The score of the last session that was shown.
    pub(super) score: i64,
    /// The time at which that session last changed, in milliseconds since 1970.
    pub(super) updated: i64,
    /// That session's id.
    pub(super) id: String,
    /// The number of that session's matches that were shown; 0 when the next page begins after that session.
    pub(super) shown: usize,
    /// The time at which the first page was built, in milliseconds since 1970. On all pages, the age of sessions is
    /// relative to this time.
    pub(super) now: i64,
    /// Whether the question was embedded for the first page. If so, the next page needs its embedding too, because it
    /// continues the same order.
    pub(super) embedded: bool,
    /// Whether a projection named similar turns for the first page. If so, the next page needs it too.
    pub(super) named: bool,
}

impl Cursor {
    /// Parses the cursor `text`. Fails if it is not a cursor, or belongs to another search than `request`.
    pub(super) fn parse(text: &str, request: &SearchRequest) -> Result<Self, LibraryError> {
        let invalid = |text: &str| LibraryError::Invalid(text.to_owned());
        match Self::parse_parts(text) {
            Some((searched, cursor)) if searched == fingerprint(request) => Ok(cursor),
            Some(_) => Err(invalid(
                "the cursor belongs to another search: repeat the query and the filters that it was returned for",
            )),
            None => Err(invalid(
                "this is not a cursor of a search: pass nextCursor of the previous page",
            )),
        }
    }

    /// Parses a cursor; returns it after the fingerprint of its request.
    fn parse_parts(text: &str) -> Option<(u64, Self)> {
        let mut words = text.strip_prefix(PREFIX).unwrap_or_default().splitn(7, '.');
        let fingerprint = u64::from_str_radix(words.next()?, 16).ok()?;
        let (now, score) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        // Dates of the query are relative to this time, so it must be representable.
        jiff::Timestamp::from_millisecond(now).ok()?;
        let updated = words.next()?.parse().ok()?;
        let shown = words.next()?.parse().ok()?;
        let basis = words.next()?.parse::<u8>().ok()?;
        let id = words.next()?.to_owned();
        let cursor = Self {
            score,
            updated,
            id,
            shown,
            now,
            embedded: matches!(basis, 1 | 2),
            named: basis == 2,
        };
        Some((fingerprint, cursor))
    }

    pub(super) fn encode(&self, request: &SearchRequest) -> String {
        let fingerprint = fingerprint(request);
        let Self {
            score,
            updated,
            id,
            shown,
            now,
            embedded,
            named,
        } = self;
        // What a projection names was found with an embedding.
        let basis = u8::from(*embedded) + u8::from(*embedded && *named);
        format!("{PREFIX}{fingerprint:x}.{now}.{score}.{updated}.{shown}.{basis}.{id}")
    }

    /// Whether a session was shown on an earlier page and needs no further page. `score`, `updated` and `id` are those
    /// of the session.
    pub(super) fn was_shown(&self, score: i64, updated: i64, id: &str) -> bool {
        if self.id == id {
            return self.shown == 0;
        }
        (self.score, self.updated, id) < (score, updated, self.id.as_str())
    }
}

/// Returns the time at which the first page of a cursor's search was built, in milliseconds since 1970; `None` for text
/// that is not a cursor. A caller that computes times of a [`SearchRequest`] relative to now must, for later pages,
/// compute them relative to this time: a request with other times is another search.
pub fn started_at(cursor: &str) -> Option<i64> {
    Cursor::parse_parts(cursor).map(|(_, cursor)| cursor.now)
}

/// Returns a hash of everything in a request that must be equal on all pages, such as the query and the filters. It is
/// the same in every process (FNV-1a).
fn fingerprint(request: &SearchRequest) -> u64 {
    let one_page = SearchRequest {
        limit: 0,
        excerpts: 0,
        cursor: None,
        mask: false,
        now: None,
        ..request.clone()
    };
    let text = format!("{one_page:?}");
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_belongs_to_one_search() {
        let request = SearchRequest {
            query: "a".to_owned(),
            ..SearchRequest::default()
        };
        let cursor = Cursor {
            score: -5,
            updated: -7,
            id: "ses.1 é".to_owned(),
            shown: 3,
            now: 7,
            embedded: true,
            named: false,
        };
        let text = cursor.encode(&request);
        assert_eq!(Cursor::parse(&text, &request).unwrap(), cursor);
        let named = Cursor {
            named: true,
            ..cursor.clone()
        };
        let parsed = Cursor::parse(&named.encode(&request), &request);
        assert_eq!(parsed.unwrap(), named);
        assert_eq!(started_at(&text), Some(7));
        let other = SearchRequest {
            query: "b".to_owned(),
            ..SearchRequest::default()
        };
        assert!(Cursor::parse(&text, &other).is_err());
        let invalid_cursors = [
            "",
            "search.",
            "search.1.2.3.4.5.0",
            "sessions.1.2",
            "search.x.1.1.1.1.1.a",
            // A time that cannot be represented.
            &text.replacen(".7.", ".-9223372036854775808.", 1),
            &text.replacen(".7.", ".9223372036854775807.", 1),
        ];
        for invalid in invalid_cursors {
            assert!(Cursor::parse(invalid, &request).is_err(), "{invalid}");
        }
    }

    #[test]
    fn pages_are_ordered_by_score_then_time_then_id() {
        let cursor = Cursor {
            score: 5,
            updated: 1,
            id: "m".to_owned(),
            shown: 0,
            now: 0,
            embedded: false,
            named: false,
        };
        assert!(cursor.was_shown(6, 0, "z"));
        assert!(cursor.was_shown(5, 1, "a"));
        assert!(cursor.was_shown(5, 1, "m"));
        assert!(!cursor.was_shown(5, 1, "n"));
        assert!(cursor.was_shown(5, 2, "z"));
        assert!(!cursor.was_shown(4, 9, "a"));
        let within = Cursor { shown: 2, ..cursor };
        assert!(!within.was_shown(5, 1, "m"));
    }
}
