//! What is asked for.

use filrouge_sources::Role;
use filrouge_types::{Clock, SystemClock, Timestamp};
use serde::Deserialize;

use crate::condition::{Condition, Speaker, What};
use crate::dates::{Here, Zone};

/// By what is looked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Everything that holds all words: complete.
    #[default]
    Words,
    /// What means the like, the nearest: never complete.
    Meaning,
    /// Both, as one list.
    Both,
}

/// What comes first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// What was most likely meant.
    #[default]
    Best,
    /// What changed last.
    Newest,
}

/// What is asked for. Times are milliseconds since 1970.
#[derive(Debug, Clone, Default)]
pub struct Ask {
    /// Words, `"a phrase"`, `/regex/` or `/regex/i`; also `-word`, and filters such as `agent:build`, `-tool:bash` and
    /// `on:28-december`, which hold beside those below. Empty with a filter: everything that passes it.
    pub query: String,
    /// A regular expression without slashes, instead of `query`.
    pub regex: Option<String>,
    /// A question, instead of `query`: finds what was asked alike before, and shows what was answered. Looks at what was
    /// indexed alone.
    pub similar: Option<String>,
    /// By what is looked for.
    pub mode: Mode,
    /// What comes first.
    pub order: Order,
    /// Where the days of the query's dates begin and end.
    pub zone: Zone,
    /// When it is asked: what `today` and `7d` in the query count from; `None`: now.
    pub now: Option<i64>,
    /// Only messages of this agent; one that names none is of its session's.
    pub agent: Option<String>,
    /// A project's id, name, or folder.
    pub project_id: Option<String>,
    /// Only calls of this tool, in any case.
    pub tool: Option<String>,
    /// Only messages of this role.
    pub role: Option<Role>,
    /// Only messages at this time or later.
    pub since: Option<i64>,
    /// Only messages before this time.
    pub until: Option<i64>,
    /// Only of this program.
    pub source: Option<String>,
    /// Not this session, most often the caller's own.
    pub exclude_session: Option<String>,
    /// Only this session.
    pub session_id: Option<String>,
    /// At most so many sessions; 0 means the default, 20.
    pub limit: usize,
    /// At most so many excerpts of a session; 0 means the default, 5. With `similar` a question and its answer are one.
    pub excerpts: usize,
    /// Where to go on: `nextCursor` of the page before. With `session_id` pages go through the matches of that session.
    /// Times that are counted from now are counted from [`crate::begun`] then.
    pub cursor: Option<String>,
    /// Masks what has the form of a credential in excerpts and all words but ids; nothing is found in it then.
    pub mask: bool,
}

impl Ask {
    /// What is asked for by a name that is none.
    pub(crate) fn blank(&self) -> Option<&'static str> {
        let names = [
            ("agent", &self.agent),
            ("project", &self.project_id),
            ("tool", &self.tool),
            ("source", &self.source),
        ];
        let is_blank = |name: &Option<String>| name.as_ref().is_some_and(|n| n.is_empty());
        let blank = names.into_iter().find(|(_, name)| is_blank(name));
        blank.map(|(what, _)| what)
    }

    /// From when and where it is asked.
    pub(crate) fn here(&self) -> Here {
        let now = self.now.and_then(Timestamp::from_millis);
        Here {
            now: now.unwrap_or_else(|| SystemClock.now()),
            zone: self.zone.clone(),
        }
    }

    /// What is asked for beside the query.
    pub(crate) fn conditions(&self) -> Vec<Condition> {
        let text = |text: &Option<String>, what: fn(String) -> What| text.clone().map(what);
        let within = self.since.is_some() || self.until.is_some();
        let so = [
            text(&self.agent, What::Agent),
            text(&self.project_id, What::Project),
            text(&self.tool, What::Tool),
            text(&self.source, What::Source),
            text(&self.session_id, What::Session),
            self.role.map(|role| What::Role(Speaker::Of(role))),
            within.then_some(What::Within(self.since, self.until)),
        ];
        let so = so.into_iter().flatten().map(|what| Condition {
            what,
            excluded: false,
        });
        let not = text(&self.exclude_session, What::Session);
        let not = not.map(|what| Condition {
            what,
            excluded: true,
        });
        so.chain(not).collect()
    }
}
