//! The results of a search.

use std::ops::Range;

use filrouge_sources::Role;
use filrouge_sources::library::list::Row;
use serde::Serialize;

/// An excerpt: a match with the text around it.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Excerpt {
    /// The message's id; `null` for a title.
    #[serde(rename = "messageID")]
    pub message_id: Option<String>,
    /// The part's id.
    #[serde(rename = "partID")]
    pub part_id: Option<String>,
    /// `sessionID:messageID`, the address to request from the history; for a title the session's id alone.
    pub place: String,
    /// `title`, `text`, `reasoning`, `tool_input`, `tool_output`, `tool_error`, `tool_title`, `tool` (its name),
    /// `file`, `patch`, `summary`, `error`, `other`.
    pub field: String,
    /// The role of the message's author.
    pub role: Option<Role>,
    /// The tool's name.
    pub tool: Option<String>,
    /// The time of the message, in milliseconds since 1970.
    pub created: Option<i64>,
    /// The seq of the ledger's item; absent for a foreign history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// The offset of the match in the field, in characters.
    pub offset: usize,
    /// The text around the match, with the match between `«` and `»`.
    pub text: String,
    /// The range of the match in `text`, in bytes, without the marks; `None` if the excerpt is a beginning without a
    /// match. The text itself may contain such marks.
    #[serde(skip)]
    pub marked: Option<Range<usize>>,
    /// The number of the turn in its session; only for a question of the ledger, in a search for similar questions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_ordinal: Option<u64>,
    /// How similar the question is, from 0 to 1; only in a search for similar questions. Absent for a question that was
    /// found by shared words alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
}

/// A session in a search result, with excerpts.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hit {
    /// The session.
    #[serde(flatten)]
    pub session: Row,
    /// The number of its messages that match; the title counts as one. 0 for a session found by meaning alone, or by
    /// some of the words.
    pub matches: usize,
    /// Whether `matches` was counted rather than estimated.
    pub exact: bool,
    /// The first excerpts.
    pub excerpts: Vec<Excerpt>,
}

/// One page of hits, the best first.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Results {
    /// The sessions.
    pub sessions: Vec<Hit>,
    /// The number of sessions on all pages, including those found by meaning alone.
    pub total_sessions: usize,
    /// The number of matching messages and titles on all pages: the sum of `matches`.
    pub total_matches: usize,
    /// Whether the totals were counted. Otherwise they are estimated from the scanned candidates, including those that
    /// this page scanned in addition, or lack sessions of the ledger that cannot be read, which a notice names. No state
    /// is kept between pages, so the last page's totals are no more certain than the first's. When one page shows all
    /// hits and everything in them was scanned, the totals are counted.
    pub exact: bool,
    /// The time, in milliseconds since 1970, up to which the indexes contain all messages; `null` when no index was
    /// used and the histories themselves were scanned.
    pub as_of: Option<i64>,
    /// The cursor of the next page; `null` on the last page.
    pub next_cursor: Option<String>,
    /// Notices about omitted results, and about how the query was understood.
    pub notices: Vec<String>,
}

impl Results {
    /// The totals as text. A session that was found only by its meaning has no match.
    pub fn totals(&self) -> String {
        let (sessions, matches) = (self.total_sessions, self.total_matches);
        let (s, es) = (plural(sessions, "s"), plural(matches, "es"));
        let about = if self.exact { "" } else { "about " };
        let by_meaning = self.sessions.iter().any(|hit| hit.matches == 0);
        match by_meaning || (self.exact && sessions > matches) {
            true if matches == 0 => format!("{sessions} session{s}, found only by meaning"),
            true => format!(
                "{about}{matches} match{es} in {sessions} session{s}, some found only by meaning"
            ),
            false => format!("{about}{matches} match{es} in {sessions} session{s}"),
        }
    }
}

const fn plural(count: usize, suffix: &'static str) -> &'static str {
    if count == 1 { "" } else { suffix }
}

#[cfg(test)]
mod tests {
    use filrouge_sources::library::samples::header;

    use super::*;

    #[test]
    fn the_totals_add_up() {
        let results = |matches: &[usize], exact| {
            let hit = |matches: &usize| Hit {
                session: Row::from_header(&header("s", 1)),
                matches: *matches,
                exact,
                excerpts: Vec::new(),
            };
            Results {
                sessions: matches.iter().map(hit).collect(),
                total_sessions: matches.len(),
                total_matches: matches.iter().sum(),
                exact,
                as_of: None,
                next_cursor: None,
                notices: Vec::new(),
            }
        };
        for (matches, exact, text) in [
            (&[][..], true, "0 matches in 0 sessions"),
            (&[1], true, "1 match in 1 session"),
            (&[2, 1], false, "about 3 matches in 2 sessions"),
            (&[0, 0], true, "2 sessions, found only by meaning"),
            (
                &[2, 0],
                true,
                "2 matches in 2 sessions, some found only by meaning",
            ),
        ] {
            assert_eq!(results(matches, exact).totals(), text);
        }
    }
}
