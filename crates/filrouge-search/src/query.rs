//! The query language for people and agents; it does not depend on the history that is searched.
//!
//! A query has words and `"phrases"`, in any order; a word or phrase after a `-` must be absent. Filters may be
//! anywhere among them: `agent:` `project:` `tool:` `role:` `source:` `session:` `before:` `after:` `on:`. Each of
//! these may occur once. A filter after a `-` excludes, and may occur any number of times. A query that begins and ends
//! with `/` (flags `i`, `m`, `s`, `x` may follow) is one regular expression; filters may precede and follow it.
//! Punctuation is part of a word: `--flag`, `c++`, `->`, `std::vec` and `/usr/lib` are words. Text that has a special
//! meaning is searched for literally in quotes: `"-v"`, `"/usr/lib/"`, `"agent:x"`. Within quotes `\"` is a quotation
//! mark.

use crate::condition::{Condition, FilterText};
pub use crate::condition::{InvalidQuery, QueryFault};
use crate::dates::DateContext;
use crate::reading::QueryReader;
pub(crate) use crate::reading::{Flags, Kind, Term};

/// The maximum length of a query, in characters.
pub(crate) const MAX_CHARS: usize = 4_096;
/// The maximum number of terms of a query and, counted separately, of its filters.
pub(crate) const MAX_TERMS: usize = 32;

/// A parsed query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Query {
    /// The terms in the order of the query; none for an empty query.
    pub(crate) terms: Vec<Term>,
    /// The filters in the order of the query.
    pub(crate) conditions: Vec<Condition>,
    /// Set if the query has the form of a regular expression except for this invalid flag. It is then read as words.
    pub(crate) invalid_flag: Option<char>,
}

impl Query {
    /// Creates the query that consists of one regular expression, without slashes and flags.
    ///
    /// # Errors
    /// [`InvalidQuery`] for an expression that is empty or too long.
    pub(crate) fn from_regex(pattern: &str) -> Result<Self, InvalidQuery> {
        if pattern.is_empty() {
            let text = "the regular expression is empty";
            return Err(InvalidQuery::new(1, QueryFault::Empty, text));
        }
        if pattern.chars().count() > MAX_CHARS {
            let text = format!("a regular expression has at most {MAX_CHARS} characters");
            return Err(InvalidQuery::new(MAX_CHARS + 1, QueryFault::TooLong, text));
        }
        let term = Term {
            kind: Kind::Regex(Flags::default()),
            text: pattern.to_owned(),
            excluded: false,
            at: 1,
        };
        Ok(Self {
            terms: vec![term],
            ..Self::default()
        })
    }
}

/// Parses a query.
///
/// # Errors
/// [`InvalidQuery`] for a phrase that is not closed, a filter with an invalid value, and for a query that exceeds a
/// limit. Regular expressions are not checked here.
pub(crate) fn parse(query: &str, date_context: &DateContext) -> Result<Query, InvalidQuery> {
    if query.chars().count() > MAX_CHARS {
        let text = format!("a query has at most {MAX_CHARS} characters");
        return Err(InvalidQuery::new(MAX_CHARS + 1, QueryFault::TooLong, text));
    }
    let mut parsing = Parsing::default();
    let mut reader = QueryReader::new(query);
    while let Some(filter) = reader.filter()? {
        parsing.add_filter(&filter, date_context)?;
    }
    match reader.regex() {
        Some(Ok(term)) => parsing.query.terms.push(term),
        Some(Err(letter)) => parsing.query.invalid_flag = Some(letter),
        None => {}
    }
    loop {
        if let Some(filter) = reader.filter()? {
            parsing.add_filter(&filter, date_context)?;
        } else if let Some(term) = reader.term()? {
            parsing.add_term(term)?;
        } else {
            return Ok(parsing.query);
        }
    }
}

/// The part of a query that was read so far.
#[derive(Default)]
struct Parsing {
    query: Query,
    /// The names of filters that were read and may occur only once.
    unique_names: Vec<&'static str>,
}

impl Parsing {
    fn add_filter(
        &mut self,
        filter: &FilterText<'_>,
        date_context: &DateContext,
    ) -> Result<(), InvalidQuery> {
        let name = filter.name;
        if !filter.excluded {
            if self.unique_names.contains(&name) {
                let text = format!(
                    "{name}: is given twice; it may occur once (-{name}: any number of times)"
                );
                let fault = QueryFault::RepeatedFilter;
                return Err(InvalidQuery::new(filter.at, fault, text));
            }
            self.unique_names.push(name);
        }
        if self.query.conditions.len() == MAX_TERMS {
            let text = format!("a query has at most {MAX_TERMS} filters");
            return Err(InvalidQuery::new(filter.at, QueryFault::TooLong, text));
        }
        self.query.conditions.push(filter.parse(date_context)?);
        Ok(())
    }

    fn add_term(&mut self, term: Term) -> Result<(), InvalidQuery> {
        if self.query.terms.len() == MAX_TERMS {
            let text = format!("a query has at most {MAX_TERMS} words and phrases");
            return Err(InvalidQuery::new(term.at, QueryFault::TooLong, text));
        }
        self.query.terms.push(term);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
