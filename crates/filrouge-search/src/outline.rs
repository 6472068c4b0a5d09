//! Splits a query for a list of sessions: filters that only the list knows, and filters that a list can apply without
//! reading messages.

use filrouge_types::Timestamp;

use crate::condition::{Attribute, InvalidQuery};
use crate::dates::{DateContext, Zone};
use crate::query;
use crate::reading::{ExtraFilter, QueryReader};

/// An extra filter in a query, with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtraValue {
    /// The filter's name.
    pub name: &'static str,
    /// The value, without quotes.
    pub value: String,
    /// Whether the filter is after a `-`.
    pub excluded: bool,
}

/// The filters that a list of sessions can apply. Times are milliseconds since 1970. `None` excludes nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListFilters {
    /// Only sessions with this agent.
    pub agent: Option<String>,
    /// Only sessions of this project.
    pub project: Option<String>,
    /// Only sessions of this history.
    pub source: Option<String>,
    /// Only from this time on.
    pub since: Option<i64>,
    /// Only before this time.
    pub until: Option<i64>,
}

/// The parts of a query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outline {
    /// The query in the query language: extra filters are replaced by what they mean, or by spaces, so that positions
    /// in it are those in the original.
    pub query: String,
    /// The extra filters that mean nothing in the query language, in the order of the query.
    pub extras: Vec<ExtraValue>,
    /// The filters, if a list can apply all of them; `None` for a query with words, or with filters of messages: it
    /// needs a search.
    pub list: Option<ListFilters>,
}

/// Splits a query that may have `extra` filters. Dates refer to `now`; days begin in UTC.
///
/// # Errors
/// [`InvalidQuery`] for a query that is invalid in the query language. Regular expressions are not checked here.
pub fn outline(
    query: &str,
    extra: &'static [ExtraFilter],
    now: Timestamp,
) -> Result<Outline, InvalidQuery> {
    let mut outline = Outline::default();
    let mut reader = QueryReader::with_extra(query, extra);
    let mut may_be_regex = true;
    loop {
        let unread = reader.unread();
        let filter = reader.filter()?;
        let is_filter = filter.is_some();
        if !is_filter {
            let is_regex = may_be_regex && matches!(reader.regex(), Some(Ok(_)));
            may_be_regex = false;
            if !is_regex && reader.term()?.is_none() {
                break;
            }
        }
        let read = unread.len() - reader.unread().len();
        let text = unread.get(..read).unwrap_or_default();
        let own = filter.and_then(|filter| {
            let own = extra.iter().find(|own| own.name == filter.name)?;
            Some((own, filter))
        });
        match own {
            None => outline.query.push_str(text),
            Some((ExtraFilter { name, means }, filter)) => match means {
                Some(means) => outline.query.push_str(&text.replacen(name, means, 1)),
                None => {
                    let spaces = text.chars().map(|_| ' ');
                    outline.query.extend(spaces);
                    outline.extras.push(ExtraValue {
                        name,
                        value: filter.value,
                        excluded: filter.excluded,
                    });
                }
            },
        }
    }
    let zone = Zone::Utc;
    let parsed = query::parse(&outline.query, &DateContext { now, zone })?;
    if parsed.terms.is_empty() {
        let mut list = Some(ListFilters::default());
        for condition in parsed.conditions {
            list = list.filter(|_| !condition.excluded);
            list = list.and_then(|list| list.with(condition.attribute));
        }
        outline.list = list;
    }
    Ok(outline)
}

impl ListFilters {
    /// Adds a filter; `None` if a list cannot apply it.
    fn with(mut self, attribute: Attribute) -> Option<Self> {
        match attribute {
            Attribute::Agent(agent) => self.agent = Some(agent),
            Attribute::Project(project) => self.project = Some(project),
            Attribute::Source(source) => self.source = Some(source),
            Attribute::TimeRange(since, until) => {
                self.since = self.since.max(since);
                self.until = [self.until, until].into_iter().flatten().min();
            }
            Attribute::Tool(_) | Attribute::Role(_) | Attribute::Session(_) => return None,
        }
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXTRA: &[ExtraFilter] = &[
        ExtraFilter {
            name: "is",
            means: None,
        },
        ExtraFilter {
            name: "since",
            means: Some("after"),
        },
    ];

    fn outlined(query: &str) -> Result<Outline, InvalidQuery> {
        outline(query, EXTRA, Timestamp::from_micros(10 * 86_400_000_000))
    }

    #[test]
    fn extra_filters_leave_the_query() {
        let parts = outlined("is:failed red  -is:\"x y\" since:7d").unwrap();
        assert_eq!(parts.query, "          red            after:7d");
        let extra = |value: &str, excluded| ExtraValue {
            name: "is",
            value: value.to_owned(),
            excluded,
        };
        assert_eq!(parts.extras, [extra("failed", false), extra("x y", true)]);
        assert_eq!(parts.list, None);
    }

    #[test]
    fn text_in_quotes_and_in_regular_expressions_is_no_filter() {
        for query in ["\"is:failed\"", "/a is:failed b/", "/is:failed/ after:7d"] {
            let parts = outlined(query).unwrap();
            assert_eq!(
                (&*parts.query, parts.extras),
                (query, Vec::new()),
                "{query}"
            );
        }
        let parts = outlined("is:a /b c/ is:d").unwrap();
        assert_eq!(parts.query.trim(), "/b c/");
        assert_eq!(parts.extras.len(), 2);
    }

    #[test]
    fn a_list_applies_filters_of_sessions() {
        let list = |query: &str| outlined(query).unwrap().list;
        let day = 86_400_000;
        assert_eq!(list(""), Some(ListFilters::default()));
        let expected = ListFilters {
            agent: Some("a b".to_owned()),
            project: Some("p".to_owned()),
            source: Some("codex".to_owned()),
            since: Some(3 * day),
            until: Some(6 * day),
        };
        let query = "agent:\"a b\" project:p source:codex since:7d before:1970-01-07 is:x";
        assert_eq!(list(query), Some(expected));
        for query in ["word", "tool:x", "role:user", "session:x", "-agent:x"] {
            assert_eq!(list(query), None, "{query}");
        }
    }

    #[test]
    fn errors_are_at_their_place_in_the_original() {
        let at = |query: &str| outlined(query).unwrap_err().at;
        assert_eq!(at("is:failed before:foo"), 18);
        assert_eq!(at("since:foo"), 7);
        assert_eq!(at("is:x \"open"), 6);
        assert_eq!(at("agent:a agent:b"), 9);
    }
}
