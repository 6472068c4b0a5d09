//! A search, understood: what a query and what is asked beside it come to.

use crate::ask::{Ask, Mode};
use crate::condition::{Condition, told};
use crate::expression::Stopped;
use crate::filter::Filter;
use crate::matcher::Matcher;
use crate::query::{self, Kind, Query, Term, Wrong};

/// What is looked for, and in what.
pub(crate) struct Question<'s> {
    query: Query,
    /// Those of the query, and those beside it.
    conditions: Vec<Condition>,
    pub(crate) matcher: Matcher<'s>,
}

impl<'s> Question<'s> {
    /// Reads the query; nothing is found by it any more once `stopped` says so.
    ///
    /// # Errors
    /// [`Wrong`] for what cannot be understood, and where there is nothing to look for.
    pub(crate) fn of(ask: &Ask, stopped: Stopped<'s>) -> Result<Self, Wrong> {
        let query = match &ask.regex {
            Some(pattern) => Query::of_regex(pattern)?,
            None => query::parse(&ask.query, &ask.here())?,
        };
        let mut conditions = query.conditions.clone();
        conditions.extend(ask.conditions());
        let matcher = Matcher::new(&query, &conditions, ask.mask, stopped)?;
        if ask
            .similar
            .as_ref()
            .is_some_and(|text| text.trim().is_empty())
        {
            return Err(Wrong::new(1, "the question is empty"));
        }
        if ask.similar.is_none() && matcher.wanted == 0 && Filter::of(&conditions).is_empty() {
            let text = if query.terms.is_empty() && query.conditions.is_empty() {
                "the query is empty: give words, a \"phrase\" or /regex/ to look for, or a filter"
            } else {
                "the query only says what must be absent: give something to look for as well, or a filter; \
                 in quotes, \"-word\" is looked for"
            };
            return Err(Wrong::new(1, text));
        }
        Ok(Self {
            query,
            conditions,
            matcher,
        })
    }

    /// What is looked for, in the order it was written.
    pub(crate) fn terms(&self) -> &[Term] {
        &self.query.terms
    }

    /// What is to mean the like, without expressions and what must be absent; empty where nothing is asked by its meaning.
    pub(crate) fn meant(&self, ask: &Ask) -> String {
        if let Some(text) = &ask.similar {
            return text.clone();
        }
        if ask.mode == Mode::Words {
            return String::new();
        }
        let said = |term: &&Term| !term.excluded && !matches!(term.kind, Kind::Regex(_));
        let terms = self.query.terms.iter().filter(said);
        let texts: Vec<&str> = terms.map(|term| term.text.as_str()).collect();
        texts.join(" ")
    }

    /// What it lets through.
    pub(crate) fn filter(&self) -> Filter<'_> {
        Filter::of(&self.conditions)
    }

    /// How the query was understood where it may have been meant otherwise, in words.
    pub(crate) fn notices(&self) -> Vec<String> {
        let mut notices: Vec<String> = told(&self.query.conditions).into_iter().collect();
        let path = |text: &str| {
            let plain = |c: char| c.is_alphanumeric() || matches!(c, '/' | '_' | '-' | '.');
            text.contains('/') && text.chars().all(plain)
        };
        let is_path = |term: &Term| matches!(term.kind, Kind::Regex(_)) && path(&term.text);
        if let Some(letter) = self.query.strange_flag {
            notices.push(format!(
                "the query was read as words: {letter:?} is no flag of a regular expression; known are i, m, s and x"
            ));
        }
        if self.query.terms.iter().any(is_path) {
            let text = "the query was read as a regular expression, as it stands between slashes; \
                        put it in quotes to look for a path";
            notices.push(text.to_owned());
        }
        notices
    }
}
