//! The filters of a search, such as `agent:build`, `-tool:bash` or `on:28-december` in a query.

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
pub struct InvalidQuery {
    /// The position of the error in the query, in characters, counted from 1.
    pub at: usize,
    /// What kind of error it is.
    pub fault: QueryFault,
    /// The error, and the accepted alternatives.
    pub text: String,
}

impl InvalidQuery {
    pub(crate) fn new(at: usize, fault: QueryFault, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { at, fault, text }
    }
}

/// The kind of the reason why a query is invalid, for callers that explain it in another language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryFault {
    /// The query has nothing to search for.
    Empty,
    /// The query only says what must be absent.
    OnlyAbsent,
    /// The query exceeds a limit of its length, its words or its filters.
    TooLong,
    /// A phrase has no quotation mark at its end.
    OpenPhrase,
    /// A word or phrase has nothing but white space or accents.
    BlankTerm,
    /// A filter that may occur once occurs twice.
    RepeatedFilter,
    /// A filter has no value, or one that is not known.
    FilterValue,
    /// A regular expression is wrong, or too large.
    Regex,
}

/// One filter, from the query or from a field of [`crate::SearchRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) attribute: Attribute,
    /// Whether the filter excludes matching documents. Otherwise, it requires a match.
    pub(crate) excluded: bool,
}

/// The attribute that a filter compares, and the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Attribute {
    Agent(String),
    /// A project by its id, name or folder.
    Project(String),
    Tool(String),
    Role(Author),
    Source(String),
    Session(String),
    /// A time range in milliseconds since 1970: at or after the first time, and before the second. `None` means no
    /// limit.
    TimeRange(Option<i64>, Option<i64>),
}

/// The author that the filter `role:` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Author {
    /// The author of messages with this role.
    WithRole(Role),
    /// A tool, as the author of the outputs, errors and titles of its calls.
    Tool,
}

/// A filter of the query, before its value is parsed.
#[derive(Debug)]
pub(crate) struct FilterText<'a> {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    pub(crate) excluded: bool,
    /// The name with its colon, as in the query.
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
    /// [`InvalidQuery`], at the position of the value. It names the accepted values.
    pub(crate) fn parse(&self, date_context: &DateContext) -> Result<Condition, InvalidQuery> {
        let value = self.value.trim();
        if value.is_empty() {
            return Err(self.invalid_value("needs a value after it"));
        }
        let attribute = match self.name {
            "agent" => Attribute::Agent(value.to_owned()),
            "project" => Attribute::Project(value.to_owned()),
            "tool" => Attribute::Tool(value.to_owned()),
            "session" => Attribute::Session(value.to_owned()),
            "role" => Attribute::Role(self.parse_author(value)?),
            "source" => Attribute::Source(self.parse_source(value)?),
            _ => self.parse_time(value, date_context)?,
        };
        let excluded = self.excluded;
        Ok(Condition {
            attribute,
            excluded,
        })
    }

    fn parse_author(&self, value: &str) -> Result<Author, InvalidQuery> {
        let roles = Role::ALL.map(Author::WithRole);
        let mut authors = roles.into_iter().chain([Author::Tool]);
        let author = authors.find(|author| author.as_str().eq_ignore_ascii_case(value));
        let hint = "is not a role: give user, assistant, system or tool";
        author.ok_or_else(|| self.invalid_value(hint))
    }

    fn parse_source(&self, value: &str) -> Result<String, InvalidQuery> {
        let source = sources().find(|name| name.eq_ignore_ascii_case(value));
        source.map(str::to_owned).ok_or_else(|| {
            let names = sources().collect::<Vec<_>>().join(", ");
            self.invalid_value(&format!("is no source: give {names}"))
        })
    }

    fn parse_time(
        &self,
        value: &str,
        date_context: &DateContext,
    ) -> Result<Attribute, InvalidQuery> {
        let invalid = || self.invalid_value(&format!("is no day and no time; {}", dates::FORMS));
        let time_range = date_context.time_range(value).ok_or_else(invalid)?;
        Ok(match self.name {
            "before" => Attribute::TimeRange(None, Some(time_range.since)),
            "after" => Attribute::TimeRange(Some(time_range.since), None),
            _ => {
                let days = date_context.whole_days(time_range).ok_or_else(invalid)?;
                Attribute::TimeRange(Some(days.since), Some(days.until))
            }
        })
    }

    fn invalid_value(&self, text: &str) -> InvalidQuery {
        let Self { text: name, .. } = self;
        let value = if self.value.is_empty() {
            String::new()
        } else {
            format!(" {:?}", self.value.chars().take(40).collect::<String>())
        };
        let quoted = format!("in quotes, \"{name}…\" is searched for literally");
        let text = format!("{name}{value} {text}; {quoted}");
        InvalidQuery::new(self.value_at, QueryFault::FilterValue, text)
    }
}

/// Describes the filters for a notice, which shows the caller how they were parsed; `None` if there are none.
pub(crate) fn describe(conditions: &[Condition]) -> Option<String> {
    let words = conditions.iter().map(|one| {
        let minus = if one.excluded { "-" } else { "" };
        format!("{minus}{}", one.attribute.describe())
    });
    let words: Vec<String> = words.collect();
    (!words.is_empty()).then(|| format!("filters of the query: {}", words.join(", ")))
}

impl Attribute {
    fn describe(&self) -> String {
        match self {
            Self::Agent(value) => format!("agent:{value:?}"),
            Self::Project(value) => format!("project:{value:?}"),
            Self::Tool(value) => format!("tool:{value:?}"),
            Self::Source(value) => format!("source:{value}"),
            Self::Session(value) => format!("session:{value:?}"),
            Self::Role(author) => format!("role:{}", author.as_str()),
            Self::TimeRange(since, until) => {
                let since = since.map(|since| format!("from {}", iso_time(since)));
                let until = until.map(|until| format!("before {}", iso_time(until)));
                let words: Vec<String> = since.into_iter().chain(until).collect();
                format!("({})", words.join(" "))
            }
        }
    }
}

impl Author {
    const fn as_str(self) -> &'static str {
        match self {
            Self::WithRole(role) => role.as_str(),
            Self::Tool => "tool",
        }
    }
}

fn iso_time(millis: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(millis);
    at.map_or_else(|_| millis.to_string(), |at| at.to_string())
}
