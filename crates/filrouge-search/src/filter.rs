//! What a search lets through, made ready once: which sessions, and which of their messages.

use filrouge_sources::library::Project;
use filrouge_sources::{Header, Role};
use filrouge_store::text_index::TITLE;

use crate::condition::{Condition, Speaker, What};
use crate::spoken::{Spoken, kind};

/// The filters of a search: those of the query and those beside it. All of them hold.
pub(crate) struct Filter<'a> {
    conditions: Vec<Ready<'a>>,
}

struct Ready<'a> {
    what: &'a What,
    excluded: bool,
    project: Option<Project<'a>>,
}

impl<'a> Filter<'a> {
    pub(crate) fn of(conditions: &'a [Condition]) -> Self {
        let ready = |one: &'a Condition| Ready {
            what: &one.what,
            excluded: one.excluded,
            project: match &one.what {
                What::Project(asked) => Some(Project::of(asked)),
                _ => None,
            },
        };
        Self {
            conditions: conditions.iter().map(ready).collect(),
        }
    }

    /// Whether there is no condition beside what is left out.
    pub(crate) fn is_empty(&self) -> bool {
        self.conditions.iter().all(|one| one.excluded)
    }

    /// The one session that is searched, if one is named.
    pub(crate) fn session(&self) -> Option<&'a str> {
        self.sessions(false).next()
    }

    /// The sessions that are left out; or those that alone are searched.
    pub(crate) fn sessions(&self, excluded: bool) -> impl Iterator<Item = &'a str> {
        let all = self.conditions.iter();
        all.filter_map(move |one| match one.what {
            What::Session(id) if one.excluded == excluded => Some(id.as_str()),
            _ => None,
        })
    }

    /// Whether sessions of a program may pass.
    pub(crate) fn lets_source(&self, name: &str) -> bool {
        self.conditions.iter().all(|one| match one.what {
            What::Source(asked) => (asked == name) != one.excluded,
            _ => true,
        })
    }

    /// Whether an agent is asked for, or left out.
    pub(crate) fn asks_agent(&self) -> bool {
        let agent = |one: &Ready<'_>| matches!(one.what, What::Agent(_));
        self.conditions.iter().any(agent)
    }

    /// Whether a project is asked for, or left out.
    pub(crate) fn asks_project(&self) -> bool {
        self.conditions.iter().any(|one| one.project.is_some())
    }

    /// No message before this time passes.
    pub(crate) fn since(&self) -> Option<i64> {
        self.spans().filter_map(|(since, _)| since).max()
    }

    /// No message at this time or later passes.
    pub(crate) fn until(&self) -> Option<i64> {
        self.spans().filter_map(|(_, until)| until).min()
    }

    fn spans(&self) -> impl Iterator<Item = (Option<i64>, Option<i64>)> {
        let so = self.conditions.iter().filter(|one| !one.excluded);
        so.filter_map(|one| match one.what {
            What::Within(since, until) => Some((*since, *until)),
            _ => None,
        })
    }

    /// A bit for each kind of document that may pass.
    pub(crate) fn kinds(&self) -> u32 {
        let roles = [Role::User, Role::Assistant, Role::System].into_iter();
        let roles = roles.filter(|role| self.lets_role(*role));
        let roles = roles.fold(0, |bits, role| bits | 1 << kind(Some(role)));
        let titles = self.conditions.iter().all(Ready::may_be_title);
        roles | u32::from(titles) << TITLE
    }

    /// Whether a message must be known to say if it passes, beyond its role.
    pub(crate) fn looks_at_messages(&self) -> bool {
        let looks = |one: &Ready<'_>| matches!(one.what, What::Agent(_) | What::Within(..));
        self.conditions.iter().any(looks)
    }

    /// Whether anything of a session may pass.
    pub(crate) fn lets(&self, header: &Header) -> bool {
        self.conditions.iter().all(|one| one.lets(header))
    }

    /// Whether messages of a role may pass.
    pub(crate) fn lets_role(&self, role: Role) -> bool {
        self.conditions.iter().all(|one| match one.what {
            What::Role(Speaker::Of(asked)) => (*asked == role) != one.excluded,
            _ => true,
        })
    }

    /// Whether a message or a title of a session whose agent is `agent` is looked at. A message that names no agent is of its
    /// session's; a title has an agent, and neither role, nor time, nor tool.
    pub(crate) fn lets_spoken(&self, agent: Option<&str>, spoken: &Spoken<'_>) -> bool {
        let agent = spoken.agent.as_deref().or(agent);
        match spoken.role {
            Some(role) => self.lets_said(agent, role, spoken.created),
            None => self.lets_titled(agent),
        }
    }

    fn lets_titled(&self, agent: Option<&str>) -> bool {
        let mut all = self.conditions.iter();
        all.all(|one| one.may_be_title() && one.lets_agent(agent))
    }

    fn lets_said(&self, agent: Option<&str>, role: Role, created: i64) -> bool {
        let mut all = self.conditions.iter();
        self.lets_role(role) && all.all(|one| one.lets_agent(agent) && one.lets_time(created))
    }
}

impl Ready<'_> {
    fn lets(&self, header: &Header) -> bool {
        let is_so = match self.what {
            What::Source(source) => *source == header.source,
            What::Session(id) => *id == *header.id,
            What::Project(_) => self.project.as_ref().is_some_and(|p| p.has(header)),
            _ => return true,
        };
        is_so != self.excluded
    }

    /// What has no role, time and tool is none that is left out.
    const fn may_be_title(&self) -> bool {
        self.excluded || !matches!(self.what, What::Role(_) | What::Tool(_) | What::Within(..))
    }

    fn lets_agent(&self, agent: Option<&str>) -> bool {
        match self.what {
            What::Agent(asked) => {
                agent.is_some_and(|agent| agent.eq_ignore_ascii_case(asked)) != self.excluded
            }
            _ => true,
        }
    }

    fn lets_time(&self, created: i64) -> bool {
        match *self.what {
            What::Within(since, until) => {
                let is_in = since.is_none_or(|since| created >= since)
                    && until.is_none_or(|until| created < until);
                is_in != self.excluded
            }
            _ => true,
        }
    }
}
