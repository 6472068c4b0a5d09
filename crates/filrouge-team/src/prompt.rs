//! An agent's prompt: its identity, the team and its task, the conversation, and the message to answer (DESIGN §11).

mod history;
mod template;

use std::fmt::Write as _;

use filrouge_types::{ErrorCode, Failure};

use crate::context::ContextManager;
use crate::message::Message;
use crate::team::{Member, MemberKind, Team};
pub use template::{Template, TemplateError};

/// The limits of the conversation that an agent receives: the newest complete messages that fit both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The maximum number of messages.
    pub messages: usize,
    /// Their maximum size, in bytes.
    pub bytes: usize,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            messages: 50,
            bytes: 256 << 10,
        }
    }
}

/// The maximum number of bytes of history in a prompt that is an argument: Linux refuses arguments of 128 KiB.
const ARGUMENT_BYTES_MAX: usize = 96 << 10;

/// The maximum number of ancestors of the answered message that are shown.
pub const CHAIN_MAX: usize = 32;

/// Builds prompts for a team's agents.
///
/// A prompt contains the newest messages that fit into the [`Window`] and, whatever their age, the ancestors of the
/// answered message: its parent, the parent's parent, and so on, up to [`CHAIN_MAX`]. No message is cut; the prompt
/// states how many are left out. The cost is linear in what the prompt shows, however long the session is.
#[derive(Debug, Clone, Copy)]
pub struct PromptBuilder<'t> {
    team: &'t Team,
    window: Window,
}

impl<'t> PromptBuilder<'t> {
    /// A builder of prompts for members of `team`.
    pub const fn new(team: &'t Team, window: Window) -> Self {
        Self { team, window }
    }

    /// The prompt of `member` for answering the message `answered`.
    ///
    /// # Errors
    /// `invalid`: the message does not exist.
    pub fn prompt(
        &self,
        context: &ContextManager,
        member: &Member,
        answered: &str,
    ) -> Result<String, Failure> {
        let message = context.by_id(answered).ok_or_else(|| {
            ErrorCode::Invalid.failure(format!("there is no message {answered:?} to answer"))
        })?;
        let history = history::render(context, answered, self.member_window(member));
        let template = match &member.kind {
            MemberKind::Agent(command) => command.template.as_ref(),
            MemberKind::Human => None,
        };
        let Some(template) = template else {
            return Ok(self.standard_prompt(context.team_task(), member, &history, message));
        };
        let mut members = String::new();
        self.write_members(&mut members, member);
        Ok(template.fill(|placeholder| match placeholder {
            "name" => &member.name,
            "role" => member.role.as_deref().unwrap_or_default(),
            "team" => &self.team.name,
            "members" => &members,
            "task" => context.team_task().unwrap_or_default(),
            "history" => history.trim_end(),
            "from" => &message.speaker.name,
            // `{{message}}`, the only remaining placeholder.
            _ => &message.content,
        }))
    }

    /// The window for a member: smaller if the prompt is an argument.
    fn member_window(&self, member: &Member) -> Window {
        match &member.kind {
            MemberKind::Agent(command) if command.has_prompt_argument() => Window {
                bytes: self.window.bytes.min(ARGUMENT_BYTES_MAX),
                ..self.window
            },
            _ => self.window,
        }
    }

    /// The prompt of a member without a template.
    fn standard_prompt(
        &self,
        task: Option<&str>,
        member: &Member,
        history: &str,
        message: &Message,
    ) -> String {
        let mut text = String::new();
        self.write_introduction(&mut text, member);
        self.write_speaking_rules(&mut text, member);
        if let Some(task) = task {
            text.push_str("\n# Team task\n\n");
            history::write_indented(&mut text, task);
        }
        if !history.is_empty() {
            let _ = write!(text, "\n# Conversation so far\n\n{}\n", history.trim_end());
        }
        let _ = write!(
            text,
            "\n# Message to answer\n\n{}\n\n{}\n",
            history::heading(message),
            message.content
        );
        text
    }

    fn write_introduction(&self, text: &mut String, member: &Member) {
        let _ = writeln!(
            text,
            "You are {}, a member of the team \"{}\". Answer the message at the end as {}, with your message alone.",
            member.name, self.team.name, member.name
        );
        if let Some(role) = &member.role {
            let _ = writeln!(text, "Your role: {role}");
        }
        if let Some(description) = &self.team.description {
            let _ = writeln!(text, "The team: {description}");
        }
        text.push_str("\n# Members\n\n");
        self.write_members(text, member);
        text.push('\n');
    }

    fn write_speaking_rules(&self, text: &mut String, member: &Member) {
        let human = self.team.first_human().map_or("the human", |m| &*m.name);
        let mut others = self.team.members.iter().filter(|m| m.id != member.id);
        let other = others.find(|m| m.is_agent()).map_or(human, |m| &*m.name);
        let _ = write!(
            text,
            "
# Who speaks next

When you name nobody, {human} has the floor. These markers are removed from your message and take effect:
- [NEXT: {other}] asks {other} to speak next; several: [NEXT: {human}, {other}]. Without it, a mention such as @{other} does.
- [NEXT: {other} !P1] puts them before everyone who waits, [NEXT: {other} !P3] after everyone.
- [DROP] removes everyone who waits.
- [TEAM_TASK: text] sets the team task.
"
        );
    }

    fn write_members(&self, text: &mut String, reader: &Member) {
        for (index, member) in self.team.members.iter().enumerate() {
            let kind = if member.is_agent() { "agent" } else { "human" };
            let line_end = if index == 0 { "" } else { "\n" };
            let _ = write!(text, "{line_end}- {} ({kind})", member.name);
            if let Some(role) = &member.role {
                let _ = write!(text, ": {role}");
            }
            if member.id == reader.id {
                text.push_str(" — you");
            }
        }
    }
}

#[cfg(test)]
mod tests;
