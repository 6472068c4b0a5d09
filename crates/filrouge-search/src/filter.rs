//! The filters of a search, prepared once: they determine which sessions pass, and which of their messages and titles.

use filrouge_sources::library::ProjectFilter;
use filrouge_sources::{Header, Role};
use filrouge_store::text_index::TITLE;

use crate::condition::{Attribute, Author, Condition};
use crate::search_document::{SearchDocument, kind};

/// The filters of a search, from the query and from the fields of the request. A message must pass all of them.
pub(crate) struct Filter<'a> {
    conditions: Vec<PreparedCondition<'a>>,
}

/// One filter. `project` is set if it filters by project. With `excluded`, documents with the attribute do not pass.
struct PreparedCondition<'a> {
    attribute: &'a Attribute,
    excluded: bool,
    project: Option<ProjectFilter<'a>>,
}

impl<'a> Filter<'a> {
    pub(crate) fn new(conditions: &'a [Condition]) -> Self {
        let prepare = |one: &'a Condition| PreparedCondition {
            attribute: &one.attribute,
            excluded: one.excluded,
            project: match &one.attribute {
                Attribute::Project(wanted) => Some(ProjectFilter::new(wanted)),
                _ => None,
            },
        };
        Self {
            conditions: conditions.iter().map(prepare).collect(),
        }
    }

    /// Whether no filter requires anything: there are none, or all exclude.
    pub(crate) fn requires_nothing(&self) -> bool {
        self.conditions.iter().all(|one| one.excluded)
    }

    /// The session that a filter requires, if there is one: only this session is searched.
    pub(crate) fn session(&self) -> Option<&'a str> {
        self.sessions(false).next()
    }

    /// With `true`, the sessions that filters exclude; with `false`, the sessions that filters require.
    pub(crate) fn sessions(&self, excluded: bool) -> impl Iterator<Item = &'a str> {
        let conditions = self.conditions.iter();
        conditions.filter_map(move |one| match one.attribute {
            Attribute::Session(id) if one.excluded == excluded => Some(id.as_str()),
            _ => None,
        })
    }

    /// Whether sessions of a source may pass. `name` is the source's name.
    pub(crate) fn may_pass_source(&self, name: &str) -> bool {
        self.conditions.iter().all(|one| match one.attribute {
            Attribute::Source(wanted) => (wanted == name) != one.excluded,
            _ => true,
        })
    }

    /// Whether a filter names an agent.
    pub(crate) fn names_agent(&self) -> bool {
        let agent = |one: &PreparedCondition<'_>| matches!(one.attribute, Attribute::Agent(_));
        self.conditions.iter().any(agent)
    }

    /// Whether a filter names a project.
    pub(crate) fn names_project(&self) -> bool {
        self.conditions.iter().any(|one| one.project.is_some())
    }

    /// The latest start among the required time ranges, in milliseconds: messages before it do not pass.
    pub(crate) fn since(&self) -> Option<i64> {
        self.time_ranges().filter_map(|(since, _)| since).max()
    }

    /// The earliest end among the required time ranges, in milliseconds: messages at this time or later do not pass.
    pub(crate) fn until(&self) -> Option<i64> {
        self.time_ranges().filter_map(|(_, until)| until).min()
    }

    fn time_ranges(&self) -> impl Iterator<Item = (Option<i64>, Option<i64>)> {
        let required = self.conditions.iter().filter(|one| !one.excluded);
        required.filter_map(|one| match one.attribute {
            Attribute::TimeRange(since, until) => Some((*since, *until)),
            _ => None,
        })
    }

    /// The kinds of documents that may pass, one bit each.
    pub(crate) fn kinds(&self) -> u32 {
        let roles = [Role::User, Role::Assistant, Role::System].into_iter();
        let roles = roles.filter(|role| self.may_pass_role(*role));
        let roles = roles.fold(0, |bits, role| bits | 1 << kind(Some(role)));
        let titles = self
            .conditions
            .iter()
            .all(PreparedCondition::may_pass_title);
        roles | u32::from(titles) << TITLE
    }

    /// Whether a filter depends on a message's agent or time: [`Filter::kinds`] cannot check such a filter.
    pub(crate) fn depends_on_messages(&self) -> bool {
        let depends = |one: &PreparedCondition<'_>| {
            matches!(
                one.attribute,
                Attribute::Agent(_) | Attribute::TimeRange(..)
            )
        };
        self.conditions.iter().any(depends)
    }

    /// Whether a session can have messages, or a title, that pass. Checks only what the session's header shows.
    pub(crate) fn may_pass(&self, header: &Header) -> bool {
        self.conditions.iter().all(|one| one.passes_session(header))
    }

    /// Whether messages of a role may pass.
    pub(crate) fn may_pass_role(&self, role: Role) -> bool {
        self.conditions.iter().all(|one| match one.attribute {
            Attribute::Role(Author::WithRole(wanted)) => (*wanted == role) != one.excluded,
            _ => true,
        })
    }

    /// Whether a message or a title passes, in a session whose agent is `agent`. A message that names no agent belongs
    /// to its session's agent; a title has an agent, but no role, time or tool.
    pub(crate) fn passes_document(&self, agent: Option<&str>, doc: &SearchDocument<'_>) -> bool {
        let agent = doc.agent.as_deref().or(agent);
        doc.role.is_none_or(|role| self.may_pass_role(role))
            && self.conditions.iter().all(|one| match doc.role {
                Some(_) => one.passes_agent(agent) && one.passes_time(doc.created),
                None => one.may_pass_title() && one.passes_agent(agent),
            })
    }
}

impl PreparedCondition<'_> {
    fn passes_session(&self, header: &Header) -> bool {
        let matches = match self.attribute {
            Attribute::Source(source) => *source == header.source,
            Attribute::Session(id) => *id == *header.id,
            Attribute::Project(_) => self.project.as_ref().is_some_and(|p| p.contains(header)),
            _ => return true,
        };
        matches != self.excluded
    }

    /// Whether the filter can accept a title. A title has no role, time or tool, so a filter that requires one of these
    /// rejects every title.
    const fn may_pass_title(&self) -> bool {
        self.excluded
            || !matches!(
                self.attribute,
                Attribute::Role(_) | Attribute::Tool(_) | Attribute::TimeRange(..)
            )
    }

    fn passes_agent(&self, agent: Option<&str>) -> bool {
        match self.attribute {
            Attribute::Agent(wanted) => {
                agent.is_some_and(|agent| agent.eq_ignore_ascii_case(wanted)) != self.excluded
            }
            _ => true,
        }
    }

    fn passes_time(&self, created: i64) -> bool {
        match *self.attribute {
            Attribute::TimeRange(since, until) => {
                let is_in_range = since.is_none_or(|since| created >= since)
                    && until.is_none_or(|until| created < until);
                is_in_range != self.excluded
            }
            _ => true,
        }
    }
}
