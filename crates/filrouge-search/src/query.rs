//! What is looked for, as people and agents write it; knows nothing of where it is looked for.
//!
//! Words and `"phrases"`, in any order; each that a `-` precedes must be absent. Between them stand filters, each at most
//! once: `agent:` `project:` `tool:` `role:` `source:` `session:` `before:` `after:` `on:`; with a `-` before it, and then
//! any number of times, a filter leaves out. A query that begins and ends with `/` (flags `i`, `m`, `s`, `x` may follow)
//! is one regular expression; filters may stand before and behind it. Punctuation is part of a word: `--flag`, `c++`,
//! `->`, `std::vec` and `/usr/lib` are words. What would be read otherwise is looked for in quotes: `"-v"`, `"/usr/lib/"`,
//! `"agent:x"`. Within quotes `\"` is a quotation mark.

pub use crate::condition::Wrong;
use crate::condition::{Condition, Written};
use crate::dates::Here;
use crate::reading::Reader;
pub(crate) use crate::reading::{Flags, Kind, Term};

/// Longer queries are refused, in characters.
pub(crate) const MAX_CHARS: usize = 4_096;
/// Queries of more terms are refused, and of more filters.
pub(crate) const MAX_TERMS: usize = 32;

/// A query, understood.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Query {
    /// In the order they were written; none for an empty query.
    pub(crate) terms: Vec<Term>,
    /// Its filters.
    pub(crate) conditions: Vec<Condition>,
    /// It has the form of a regular expression but for this letter, which is no flag.
    pub(crate) strange_flag: Option<char>,
}

impl Query {
    /// One regular expression, as it stands.
    ///
    /// # Errors
    /// [`Wrong`] for one that is empty or too long.
    pub(crate) fn of_regex(pattern: &str) -> Result<Self, Wrong> {
        if pattern.is_empty() {
            return Err(Wrong::new(1, "the regular expression is empty"));
        }
        if pattern.chars().count() > MAX_CHARS {
            let text = format!("a regular expression has at most {MAX_CHARS} characters");
            return Err(Wrong::new(MAX_CHARS + 1, text));
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

/// Reads a query, as it is asked `here`.
///
/// # Errors
/// [`Wrong`] for a phrase that is not closed, a filter whose value is none, and for more than the bounds allow. Whether
/// a regular expression is one is not looked at.
pub(crate) fn parse(query: &str, here: &Here) -> Result<Query, Wrong> {
    if query.chars().count() > MAX_CHARS {
        let text = format!("a query has at most {MAX_CHARS} characters");
        return Err(Wrong::new(MAX_CHARS + 1, text));
    }
    let mut given = Given::default();
    let mut reader = Reader::new(query);
    while let Some(filter) = reader.filter()? {
        given.add(&filter, here)?;
    }
    match reader.regex() {
        Some(Ok(term)) => given.query.terms.push(term),
        Some(Err(letter)) => given.query.strange_flag = Some(letter),
        None => {}
    }
    loop {
        if let Some(filter) = reader.filter()? {
            given.add(&filter, here)?;
        } else if let Some(term) = reader.term()? {
            given.look_for(term)?;
        } else {
            return Ok(given.query);
        }
    }
}

/// What was read so far.
#[derive(Default)]
struct Given {
    query: Query,
    /// The filters that stand once.
    names: Vec<&'static str>,
}

impl Given {
    fn add(&mut self, filter: &Written<'_>, here: &Here) -> Result<(), Wrong> {
        let name = filter.name;
        if !filter.excluded {
            if self.names.contains(&name) {
                let text = format!(
                    "{name}: is given twice; it stands once (-{name}: as often as there is something to leave out)"
                );
                return Err(Wrong::new(filter.at, text));
            }
            self.names.push(name);
        }
        if self.query.conditions.len() == MAX_TERMS {
            let text = format!("a query has at most {MAX_TERMS} filters");
            return Err(Wrong::new(filter.at, text));
        }
        self.query.conditions.push(filter.read(here)?);
        Ok(())
    }

    fn look_for(&mut self, term: Term) -> Result<(), Wrong> {
        if self.query.terms.len() == MAX_TERMS {
            let text = format!("a query has at most {MAX_TERMS} words and phrases");
            return Err(Wrong::new(term.at, text));
        }
        self.query.terms.push(term);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
