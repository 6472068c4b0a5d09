//! What a message must be beside holding words: `agent:build`, `-tool:bash`, `on:28-december`.

use std::fmt::Write as _;

use filrouge_sources::Role;
use filrouge_sources::programs::sources;

use crate::dates::{self, Here};

/// The names of filters in a query.
pub(crate) const NAMES: [&str; 9] = [
    "agent", "project", "tool", "role", "source", "session", "before", "after", "on",
];

/// Why a query cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("query, character {at}: {text}")]
pub struct Wrong {
    /// Where: in characters of the query, from 1.
    pub at: usize,
    /// What is wrong, and what would be right.
    pub text: String,
}

impl Wrong {
    pub(crate) fn new(at: usize, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { at, text }
    }
}

/// One filter, of a query or of what was asked beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) what: What,
    /// Whether what is so is left out.
    pub(crate) excluded: bool,
}

/// What is to be so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    Agent(String),
    /// By id, name or folder.
    Project(String),
    Tool(String),
    Role(Speaker),
    Source(String),
    Session(String),
    /// Milliseconds since 1970: at this time or later; before this time.
    Within(Option<i64>, Option<i64>),
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaker {
    /// Messages of a role.
    Of(Role),
    /// What tools gave: outputs, errors and titles of calls.
    Tool,
}

/// A filter as it was written.
#[derive(Debug)]
pub(crate) struct Written<'a> {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    pub(crate) excluded: bool,
    /// The name with its colon, and where it and the value begin: in characters, from 1.
    pub(crate) text: &'a str,
    pub(crate) at: usize,
    pub(crate) value_at: usize,
}

impl Written<'_> {
    /// Reads the value.
    ///
    /// # Errors
    /// [`Wrong`] at the value, with what would be right.
    pub(crate) fn read(&self, here: &Here) -> Result<Condition, Wrong> {
        let value = self.value.trim();
        if value.is_empty() {
            return Err(self.wrong("needs a value behind it"));
        }
        let what = match self.name {
            "agent" => What::Agent(value.to_owned()),
            "project" => What::Project(value.to_owned()),
            "tool" => What::Tool(value.to_owned()),
            "session" => What::Session(value.to_owned()),
            "role" => What::Role(self.speaker(value)?),
            "source" => What::Source(self.source(value)?),
            _ => self.time(value, here)?,
        };
        let excluded = self.excluded;
        Ok(Condition { what, excluded })
    }

    fn speaker(&self, value: &str) -> Result<Speaker, Wrong> {
        Ok(match value.to_ascii_lowercase().as_str() {
            "user" => Speaker::Of(Role::User),
            "assistant" => Speaker::Of(Role::Assistant),
            "system" => Speaker::Of(Role::System),
            "tool" => Speaker::Tool,
            _ => return Err(self.wrong("is no role: give user, assistant, system or tool")),
        })
    }

    fn source(&self, value: &str) -> Result<String, Wrong> {
        let known = sources().find(|name| name.eq_ignore_ascii_case(value));
        known.map(str::to_owned).ok_or_else(|| {
            let known = sources().collect::<Vec<_>>().join(", ");
            self.wrong(&format!("is no source: give {known}"))
        })
    }

    fn time(&self, value: &str, here: &Here) -> Result<What, Wrong> {
        let wrong = || self.wrong(&format!("is no day and no time; {}", dates::FORMS));
        let stretch = here.stretch(value).ok_or_else(wrong)?;
        Ok(match self.name {
            "before" => What::Within(None, Some(stretch.since)),
            "after" => What::Within(Some(stretch.since), None),
            _ => {
                let days = here.whole_days(stretch).ok_or_else(wrong)?;
                What::Within(Some(days.since), Some(days.until))
            }
        })
    }

    fn wrong(&self, text: &str) -> Wrong {
        let Self { text: name, .. } = self;
        let value = if self.value.is_empty() {
            String::new()
        } else {
            format!(" {:?}", self.value.chars().take(40).collect::<String>())
        };
        let quoted = format!("in quotes, \"{name}…\" is looked for as it stands");
        Wrong::new(self.value_at, format!("{name}{value} {text}; {quoted}"))
    }
}

/// Conditions in words, to tell how they were understood.
pub(crate) fn told(conditions: &[Condition]) -> Option<String> {
    let words = conditions.iter().map(|one| {
        let minus = if one.excluded { "-" } else { "" };
        format!("{minus}{}", one.what.told())
    });
    let words: Vec<String> = words.collect();
    (!words.is_empty()).then(|| format!("filters of the query: {}", words.join(", ")))
}

impl What {
    fn told(&self) -> String {
        match self {
            Self::Agent(value) => format!("agent:{value:?}"),
            Self::Project(value) => format!("project:{value:?}"),
            Self::Tool(value) => format!("tool:{value:?}"),
            Self::Source(value) => format!("source:{value}"),
            Self::Session(value) => format!("session:{value:?}"),
            Self::Role(speaker) => format!("role:{}", speaker.as_str()),
            Self::Within(since, until) => {
                let mut words = String::new();
                if let Some(since) = since {
                    let _ = write!(words, "from {}", time(*since));
                }
                if let Some(until) = until {
                    let space = if words.is_empty() { "" } else { " " };
                    let _ = write!(words, "{space}before {}", time(*until));
                }
                format!("({words})")
            }
        }
    }
}

impl Speaker {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Of(Role::User) => "user",
            Self::Of(Role::Assistant) => "assistant",
            Self::Of(Role::System) => "system",
            Self::Tool => "tool",
        }
    }
}

fn time(millis: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(millis);
    at.map_or_else(|_| millis.to_string(), |at| at.to_string())
}
