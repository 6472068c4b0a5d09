//! What a search lets through, made ready once: which sessions, and which of their messages.

use filrouge_sources::library::Project;
use filrouge_sources::{Header, Message, Role};

use crate::ask::Ask;

/// The filters of a search.
pub(crate) struct Filter<'a> {
    ask: &'a Ask,
    project: Option<Project<'a>>,
}

impl<'a> Filter<'a> {
    pub(crate) fn of(ask: &'a Ask) -> Self {
        Self {
            ask,
            project: ask.project_id.as_deref().map(Project::of),
        }
    }

    /// Whether nothing is asked for but words.
    pub(crate) fn is_empty(&self) -> bool {
        let ask = self.ask;
        let texts = [
            &ask.agent,
            &ask.project_id,
            &ask.tool,
            &ask.source,
            &ask.session_id,
        ];
        texts.iter().all(|text| text.is_none()) && ask.role.is_none() && !self.has_dates()
    }

    pub(crate) const fn role(&self) -> Option<Role> {
        self.ask.role
    }

    const fn has_dates(&self) -> bool {
        self.ask.since.is_some() || self.ask.until.is_some()
    }

    /// Whether a message must be known to say if it passes, beyond its role.
    pub(crate) const fn looks_at_messages(&self) -> bool {
        self.has_dates() || self.ask.agent.is_some()
    }

    /// Whether anything of a session may pass.
    pub(crate) fn lets(&self, header: &Header) -> bool {
        let ask = self.ask;
        let id = Some(&*header.id);
        ask.source
            .as_deref()
            .is_none_or(|source| source == header.source)
            && ask
                .session_id
                .as_deref()
                .is_none_or(|wanted| id == Some(wanted))
            && ask.exclude_session.as_deref() != id
            && self.project.as_ref().is_none_or(|p| p.has(header))
    }

    /// Whether a session's title is looked at: it has an agent, and neither role, nor time, nor tool.
    pub(crate) fn lets_title(&self, header: &Header) -> bool {
        let ask = self.ask;
        let agent = ask.agent.as_deref();
        ask.role.is_none()
            && ask.tool.is_none()
            && !self.has_dates()
            && agent.is_none_or(|agent| header.agent.as_deref() == Some(agent))
    }

    /// Whether a message is looked at. One that names no agent is of its session's.
    pub(crate) fn lets_message(&self, header: &Header, message: &Message) -> bool {
        let ask = self.ask;
        let agent = message.agent.as_deref().or(header.agent.as_deref());
        ask.role.is_none_or(|role| role == message.role)
            && ask.since.is_none_or(|since| message.created >= since)
            && ask.until.is_none_or(|until| message.created < until)
            && (ask.agent.is_none() || ask.agent.as_deref() == agent)
    }
}
