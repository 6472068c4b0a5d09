//! What an agent is told: who it is, the team and its task, what was said, and the message it is to answer (DESIGN §11).

mod history;
mod template;

use std::fmt::Write as _;

use filrouge_types::{ErrorCode, Failure};

use crate::context::ContextManager;
use crate::message::{Message, SpeakerKind};
use crate::team::{Member, MemberKind, Team};
pub use template::{Template, TemplateError};

/// How much of what was said an agent is told. Both limits are of whole messages, counted back from the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// At most so many messages.
    pub messages: usize,
    /// At most so many bytes of them.
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

/// A prompt that is an argument has at most so many bytes of history: Linux refuses arguments of 128 KiB.
const ARGUMENT_BYTES: usize = 96 << 10;

/// So many messages are followed back along what answers what.
pub const CHAIN_MAX: usize = 32;

/// Builds prompts for a team's agents.
///
/// A prompt holds the newest messages that the [`Window`] has room for, and besides, whatever their age, those that led to
/// the message which is answered: what that answers, and so on, up to [`CHAIN_MAX`]. No message is cut; how many are left
/// out is said. Its cost is that of what it shows, however long the session is.
#[derive(Debug, Clone, Copy)]
pub struct PromptBuilder<'t> {
    team: &'t Team,
    window: Window,
}

impl<'t> PromptBuilder<'t> {
    /// Prompts for members of `team`.
    #[must_use]
    pub const fn new(team: &'t Team, window: Window) -> Self {
        Self { team, window }
    }

    /// What `member` is told, that it may answer the message `answered`.
    ///
    /// # Errors
    /// `invalid`: there is no such message.
    pub fn prompt(
        &self,
        context: &ContextManager,
        member: &Member,
        answered: &str,
    ) -> Result<String, Failure> {
        let message = context.by_id(answered).ok_or_else(|| {
            let what = format!("there is no message {answered:?} to answer");
            Failure::new(ErrorCode::Invalid, what)
        })?;
        let history = history::told(context, answered, self.window_of(member));
        let template = match &member.kind {
            MemberKind::Agent(command) => command.template.as_ref(),
            MemberKind::Human => None,
        };
        let Some(template) = template else {
            return Ok(self.standard(context.team_task(), member, &history, message));
        };
        let mut members = String::new();
        self.members(&mut members, member);
        Ok(template.filled(|placeholder| match placeholder {
            "name" => &member.name,
            "role" => member.role.as_deref().unwrap_or_default(),
            "team" => &self.team.name,
            "members" => &members,
            "task" => context.team_task().unwrap_or_default(),
            "history" => history.trim_end(),
            "from" => &message.speaker.name,
            // There is no other.
            _ => &message.content,
        }))
    }

    fn window_of(&self, member: &Member) -> Window {
        match &member.kind {
            MemberKind::Agent(command) if command.takes_argument() => Window {
                bytes: self.window.bytes.min(ARGUMENT_BYTES),
                ..self.window
            },
            _ => self.window,
        }
    }

    fn standard(
        &self,
        task: Option<&str>,
        member: &Member,
        history: &str,
        message: &Message,
    ) -> String {
        let mut text = String::new();
        self.introduction(&mut text, member);
        self.floor(&mut text, member);
        if let Some(task) = task {
            text.push_str("\n# Team task\n\n");
            history::indented(&mut text, task);
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

    fn introduction(&self, text: &mut String, member: &Member) {
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
        self.members(text, member);
        text.push('\n');
    }

    fn floor(&self, text: &mut String, member: &Member) {
        let human = self.team.first_human().map_or("the human", |m| &*m.name);
        let mut others = self.team.members.iter().filter(|m| m.id != member.id);
        let other = others.find(|m| m.is_agent()).map_or(human, |m| &*m.name);
        let _ = write!(
            text,
            "
# Who speaks next

When you name nobody, {human} has the floor. These markers are taken out of your message and do something:
- [NEXT: {other}] asks {other} to speak next; several: [NEXT: {human}, {other}]. Without it, a mention such as @{other} does.
- [NEXT: {other} !P1] puts them before everybody who waits, [NEXT: {other} !P3] behind.
- [DROP] gives up whatever waits.
- [TEAM_TASK: text] sets the team task.
"
        );
    }

    fn members(&self, text: &mut String, you: &Member) {
        for (at, member) in self.team.members.iter().enumerate() {
            let kind = if member.is_agent() { "agent" } else { "human" };
            let end = if at == 0 { "" } else { "\n" };
            let _ = write!(text, "{end}- {} ({kind})", member.name);
            if let Some(role) = &member.role {
                let _ = write!(text, ": {role}");
            }
            if member.id == you.id {
                text.push_str(" — you");
            }
        }
    }
}

const fn kind_word(kind: SpeakerKind) -> &'static str {
    match kind {
        SpeakerKind::Human => "human",
        SpeakerKind::Agent => "agent",
        SpeakerKind::System => "application",
    }
}

#[cfg(test)]
mod tests;
