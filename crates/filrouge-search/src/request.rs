//! The parameters of a search.

use filrouge_sources::Role;
use filrouge_types::{Clock, SystemClock, Timestamp};
use serde::Deserialize;

use crate::condition::{Attribute, Author, Condition};
use crate::dates::{DateContext, Zone};

/// Whether to search by words, by meaning, or both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// All messages that contain all words. The result is complete.
    #[default]
    Words,
    /// The messages whose meanings are the most similar. The result is never complete.
    Meaning,
    /// The results of both, merged into one list.
    Both,
}

/// The order of the hits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// The most relevant session first.
    #[default]
    Best,
    /// The most recently changed session first.
    Newest,
}

/// The parameters of a search. Times are milliseconds since 1970. A filter that is `None` excludes nothing.
#[derive(Debug, Clone, Default)]
pub struct SearchRequest {
    /// Words, `"a phrase"`, `/regex/` or `/regex/i`; also `-word`, and filters such as `agent:build`, `-tool:bash` and
    /// `on:28-december`, which apply in addition to the fields below. An empty query with a filter returns everything
    /// that passes the filter.
    pub query: String,
    /// A regular expression without slashes, instead of `query`.
    pub regex: Option<String>,
    /// A question, instead of `query`: finds similar questions that were asked before, and shows their answers.
    /// Searches indexed sessions only.
    pub similar: Option<String>,
    /// Whether to search by words, by meaning, or both.
    pub mode: Mode,
    /// The order of the hits.
    pub order: Order,
    /// The time zone of dates in the query.
    pub zone: Zone,
    /// The time to which `today` and `7d` in the query refer. `None`: the current time.
    pub now: Option<i64>,
    /// Only messages of this agent; a message that names no agent belongs to its session's agent.
    pub agent: Option<String>,
    /// Only sessions of the project with this id, name or folder.
    pub project_id: Option<String>,
    /// Only calls of this tool; case is ignored.
    pub tool: Option<String>,
    /// Only messages of this role.
    pub role: Option<Role>,
    /// Only messages at this time or later.
    pub since: Option<i64>,
    /// Only messages before this time.
    pub until: Option<i64>,
    /// Only sessions of this program.
    pub source: Option<String>,
    /// Excludes this session, usually the caller's own.
    pub exclude_session: Option<String>,
    /// Only this session.
    pub session_id: Option<String>,
    /// The maximum number of sessions; 0 means the default, 20.
    pub limit: usize,
    /// The maximum number of excerpts per session; 0 means the default, 5. With `similar`, a question and its answer
    /// count as one.
    pub excerpts: usize,
    /// The cursor to continue from: `nextCursor` of the previous page. With `session_id`, pages contain the matches of
    /// that session. For a later page, times relative to now must be computed from [`crate::started_at`].
    pub cursor: Option<String>,
    /// Whether to mask text that has the form of a credential, in excerpts and in all other text except ids. If so, no
    /// search finds any part of such text.
    pub mask: bool,
}

impl SearchRequest {
    /// The name of the first filter that is an empty string; `None` if there is none.
    pub(crate) fn first_blank_filter(&self) -> Option<&'static str> {
        let names = [
            ("agent", &self.agent),
            ("project", &self.project_id),
            ("tool", &self.tool),
            ("source", &self.source),
        ];
        let is_blank = |name: &Option<String>| name.as_ref().is_some_and(|n| n.is_empty());
        let first_blank = names.into_iter().find(|(_, name)| is_blank(name));
        first_blank.map(|(filter, _)| filter)
    }

    /// The reference time and the time zone for dates in the query.
    pub(crate) fn date_context(&self) -> DateContext {
        let now = self.now.and_then(Timestamp::from_millis);
        DateContext {
            now: now.unwrap_or_else(|| SystemClock.now()),
            zone: self.zone.clone(),
        }
    }

    /// The filters that the fields of this struct contain. They apply in addition to those in the query.
    pub(crate) fn conditions(&self) -> Vec<Condition> {
        let filter = |value: &Option<String>, attribute: fn(String) -> Attribute| {
            value.clone().map(attribute)
        };
        let has_time_range = self.since.is_some() || self.until.is_some();
        let required = [
            filter(&self.agent, Attribute::Agent),
            filter(&self.project_id, Attribute::Project),
            filter(&self.tool, Attribute::Tool),
            filter(&self.source, Attribute::Source),
            filter(&self.session_id, Attribute::Session),
            self.role
                .map(|role| Attribute::Role(Author::WithRole(role))),
            has_time_range.then_some(Attribute::TimeRange(self.since, self.until)),
        ];
        let required = required.into_iter().flatten().map(|attribute| Condition {
            attribute,
            excluded: false,
        });
        let exclusion = filter(&self.exclude_session, Attribute::Session);
        let exclusion = exclusion.map(|attribute| Condition {
            attribute,
            excluded: true,
        });
        required.chain(exclusion).collect()
    }
}
