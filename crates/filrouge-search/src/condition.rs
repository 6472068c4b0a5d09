//! The filters of a search, such as `agent:build`, `-tool:bash` or `on:28-december` in a query.

use std::fmt::Write as _;

use filrouge_sources::Role;
use filrouge_sources::programs::sources;

use crate::dates::{self, DateContext};

/// The names of filters in a query.
pub(crate) const NAMES: [&str; 9] = [
    "agent", "project", "tool", "role", "source", "session", "before", "after", "on",
];

/// The reason why a query is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("query, character {at}: {text}")]
pub struct Wrong {
    /// The position of the error in the query, in characters, counted from 1.
    pub at: usize,
    /// The error, and the accepted alternatives.
    pub text: String,
}

impl Wrong {
    pub(crate) fn new(at: usize, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { at, text }
    }
}

/// One filter, from the query or from a field of [`crate::Ask`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) what: Attribute,
    /// Whether the filter excludes what it matches. Otherwise it requires it.
    pub(crate) excluded: bool,
}

/// The attribute that a filter compares, and the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Attribute {
    Agent(String),
    /// A project by its id, name or folder.
    Project(String),
    Tool(String),
    Role(Speaker),
    Source(String),
    Session(String),
    /// A time range in milliseconds since 1970: at or after the first time, and before the second. `None` means no
    /// limit.
    Within(Option<i64>, Option<i64>),
}

/// The author that the filter `role:` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaker {
    /// The author of messages with this role.
    Of(Role),
    /// A tool, as the author of the outputs, errors and titles of its calls.
    Tool,
}

/// A filter as it is written in the query.
#[derive(Debug)]
pub(crate) struct FilterText<'a> {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    pub(crate) excluded: bool,
    /// The name as it is written, with the colon.
    pub(crate) text: &'a str,
    /// The position of the name in the query, in characters, counted from 1.
    pub(crate) at: usize,
    /// The position of the value in the query, in characters, counted from 1.
    pub(crate) value_at: usize,
}

impl FilterText<'_> {
    /// Parses the value.
    ///
    /// # Errors
    /// [`Wrong`], at the position of the value. It names the accepted values.
    pub(crate) fn read(&self, date_context: &DateContext) -> Result<Condition, Wrong> {
        let value = self.value.trim();
        if value.is_empty() {
            return Err(self.wrong("needs a value after it"));
        }
        let what = match self.name {
            "agent" => Attribute::Agent(value.to_owned()),
            "project" => Attribute::Project(value.to_owned()),
            "tool" => Attribute::Tool(value.to_owned()),
            "session" => Attribute::Session(value.to_owned()),
            "role" => Attribute::Role(self.speaker(value)?),
            "source" => Attribute::Source(self.source(value)?),
            _ => self.time(value, date_context)?,
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
            _ => return Err(self.wrong("is not a role: give user, assistant, system or tool")),
        })
    }

    fn source(&self, value: &str) -> Result<String, Wrong> {
        let known = sources().find(|name| name.eq_ignore_ascii_case(value));
        known.map(str::to_owned).ok_or_else(|| {
            let known = sources().collect::<Vec<_>>().join(", ");
            self.wrong(&format!("is no source: give {known}"))
        })
    }

    fn time(&self, value: &str, date_context: &DateContext) -> Result<Attribute, Wrong> {
        let wrong = || self.wrong(&format!("is no day and no time; {}", dates::FORMS));
        let time_range = date_context.time_range(value).ok_or_else(wrong)?;
        Ok(match self.name {
            "before" => Attribute::Within(None, Some(time_range.since)),
            "after" => Attribute::Within(Some(time_range.since), None),
            _ => {
                let days = date_context.whole_days(time_range).ok_or_else(wrong)?;
                Attribute::Within(Some(days.since), Some(days.until))
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
        let quoted = format!("in quotes, \"{name}…\" is searched for literally");
        Wrong::new(self.value_at, format!("{name}{value} {text}; {quoted}"))
    }
}

/// Describes the filters, so that the caller sees how they were understood; `None` if there are none.
pub(crate) fn described(conditions: &[Condition]) -> Option<String> {
    let words = conditions.iter().map(|one| {
        let minus = if one.excluded { "-" } else { "" };
        format!("{minus}{}", one.what.described())
    });
    let words: Vec<String> = words.collect();
    (!words.is_empty()).then(|| format!("filters of the query: {}", words.join(", ")))
}

impl Attribute {
    fn described(&self) -> String {
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
