//! Prompt templates of a team file.

use std::str::FromStr;

/// A prompt template: text with placeholders.
///
/// | placeholder | value |
/// |---|---|
/// | `{{name}}` | the agent's name |
/// | `{{role}}` | its role, or empty |
/// | `{{team}}` | the team's name |
/// | `{{members}}` | a line for each member |
/// | `{{task}}` | the team task, or empty |
/// | `{{history}}` | the earlier messages, none of them cut; states how many are left out |
/// | `{{from}}` | the speaker of the message to answer |
/// | `{{message}}` | the message to answer |
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Box<str>);

const PLACEHOLDERS: [&str; 8] = [
    "name", "role", "team", "members", "task", "history", "from", "message",
];

/// The reason why a template is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The template uses an unknown placeholder.
    #[error("{{{{{0}}}}} is no placeholder")]
    Unknown(Box<str>),
    /// `{{` has no `}}` after it.
    #[error("a {{{{ has no }}}} after it")]
    Open,
    /// Without `{{message}}` the agent would never see the message to answer.
    #[error("it has no {{{{message}}}}")]
    NoMessage,
}

impl TemplateError {
    /// A hint for correcting the template.
    pub const fn hint(&self) -> &'static str {
        "the placeholders: {{name}}, {{role}}, {{team}}, {{members}}, {{task}}, {{history}}, {{from}}, {{message}}"
    }
}

impl FromStr for Template {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Self, TemplateError> {
        let mut has_message = false;
        for piece in text.split("{{").skip(1) {
            let (name, _) = piece.split_once("}}").ok_or(TemplateError::Open)?;
            let name = name.trim();
            if !PLACEHOLDERS.contains(&name) {
                return Err(TemplateError::Unknown(name.into()));
            }
            has_message |= name == "message";
        }
        if !has_message {
            return Err(TemplateError::NoMessage);
        }
        Ok(Self(text.into()))
    }
}

impl Template {
    /// The text with a value in place of each placeholder.
    pub(super) fn fill<'v>(&self, value: impl Fn(&str) -> &'v str) -> String {
        let mut pieces = self.0.split("{{");
        let mut filled = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let (name, text) = piece.split_once("}}").unwrap_or_default();
            filled.push_str(value(name.trim()));
            filled.push_str(text);
        }
        filled
    }
}
