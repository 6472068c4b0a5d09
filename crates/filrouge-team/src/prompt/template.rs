//! Prompt templates of a team file.

use std::str::FromStr;

/// How a prompt is written: text with placeholders.
///
/// | placeholder | stands for |
/// |---|---|
/// | `{{name}}` | the agent's name |
/// | `{{role}}` | its role, or nothing |
/// | `{{team}}` | the team's name |
/// | `{{members}}` | a line for each member |
/// | `{{task}}` | the team task, or nothing |
/// | `{{history}}` | what was said before, in whole messages; says how many are left out |
/// | `{{from}}` | who says the message |
/// | `{{message}}` | the message to answer |
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Text(Box<str>),
    Value(Placeholder),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Placeholder {
    Name,
    Role,
    Team,
    Members,
    Task,
    History,
    From,
    Message,
}

impl Placeholder {
    fn of(word: &str) -> Option<Self> {
        Some(match word {
            "name" => Self::Name,
            "role" => Self::Role,
            "team" => Self::Team,
            "members" => Self::Members,
            "task" => Self::Task,
            "history" => Self::History,
            "from" => Self::From,
            "message" => Self::Message,
            _ => return None,
        })
    }
}

/// What is wrong with a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// There is no placeholder of this name.
    #[error("{{{{{0}}}}} is no placeholder")]
    Unknown(Box<str>),
    /// `{{` has no `}}` behind it.
    #[error("a {{{{ has no }}}} behind it")]
    Open,
    /// The agent would never be told what it is to answer.
    #[error("it has no {{{{message}}}}")]
    NoMessage,
}

impl TemplateError {
    /// What to do about it.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        "the placeholders: {{name}}, {{role}}, {{team}}, {{members}}, {{task}}, {{history}}, {{from}}, {{message}}"
    }
}

impl FromStr for Template {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Self, TemplateError> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once("{{") {
            let (word, after) = behind.split_once("}}").ok_or(TemplateError::Open)?;
            let value = Placeholder::of(word.trim())
                .ok_or_else(|| TemplateError::Unknown(word.trim().into()))?;
            pieces.push(Piece::Text(before.into()));
            pieces.push(Piece::Value(value));
            rest = after;
        }
        pieces.push(Piece::Text(rest.into()));
        if !pieces.contains(&Piece::Value(Placeholder::Message)) {
            return Err(TemplateError::NoMessage);
        }
        Ok(Self(pieces))
    }
}

impl Template {
    pub(super) fn pieces(&self) -> &[Piece] {
        &self.0
    }
}
