//! A parsed search: its query, combined with the fields of the request.

use crate::condition::{Condition, QueryFault, describe};
use crate::expression::Stopped;
use crate::filter::Filter;
use crate::matcher::Matcher;
use crate::query::{self, InvalidQuery, Kind, Query, Term};
use crate::request::{Mode, SearchRequest};

/// The terms of a search, and its filters.
pub(crate) struct ParsedSearch<'s> {
    query: Query,
    /// The filters of the query and of the request's fields.
    conditions: Vec<Condition>,
    pub(crate) matcher: Matcher<'s>,
}

/// Checks the query of a request, without a search.
///
/// # Errors
/// [`InvalidQuery`], as [`Searcher::search`](crate::Searcher::search) would report it.
pub fn check(request: &SearchRequest) -> Result<(), InvalidQuery> {
    ParsedSearch::new(request, &|| false).map(drop)
}

impl<'s> ParsedSearch<'s> {
    /// Parses the query of a request. Once `stopped` returns true, the matcher may miss matches.
    ///
    /// # Errors
    /// [`InvalidQuery`] for an invalid query, and for one with neither a term nor a filter that requires something.
    pub(crate) fn new(request: &SearchRequest, stopped: Stopped<'s>) -> Result<Self, InvalidQuery> {
        let query = match &request.regex {
            Some(pattern) => Query::from_regex(pattern)?,
            None => query::parse(&request.query, &request.date_context())?,
        };
        let mut conditions = query.conditions.clone();
        conditions.extend(request.conditions());
        let matcher = Matcher::new(&query, &conditions, request.mask, stopped)?;
        if request
            .similar
            .as_ref()
            .is_some_and(|text| text.trim().is_empty())
        {
            return Err(InvalidQuery::new(
                1,
                QueryFault::Empty,
                "the question is empty",
            ));
        }
        if request.similar.is_none()
            && matcher.required == 0
            && Filter::new(&conditions).requires_nothing()
        {
            let (fault, text) = if query.terms.is_empty() && query.conditions.is_empty() {
                let text = "the query is empty: give words, a \"phrase\" or /regex/ to look for, or a filter";
                (QueryFault::Empty, text)
            } else {
                let text = "the query only says what must be absent: give something to search for as well, or a filter; \
                 in quotes, \"-word\" is searched for";
                (QueryFault::OnlyAbsent, text)
            };
            return Err(InvalidQuery::new(1, fault, text));
        }
        Ok(Self {
            query,
            conditions,
            matcher,
        })
    }

    /// The terms of the query, in the order they were written.
    pub(crate) fn terms(&self) -> &[Term] {
        &self.query.terms
    }

    /// Returns the text to search for by meaning: the question, or the query's words and phrases except excluded ones.
    /// Returns an empty text if the search is by words only.
    pub(crate) fn text_to_embed(&self, request: &SearchRequest) -> String {
        if let Some(text) = &request.similar {
            return text.clone();
        }
        if request.mode == Mode::Words {
            return String::new();
        }
        let is_embedded = |term: &&Term| !term.excluded && !matches!(term.kind, Kind::Regex(_));
        let terms = self.query.terms.iter().filter(is_embedded);
        let texts: Vec<&str> = terms.map(|term| term.text.as_str()).collect();
        texts.join(" ")
    }

    /// The filters of the search.
    pub(crate) fn filter(&self) -> Filter<'_> {
        Filter::new(&self.conditions)
    }

    /// Returns notices on how the query was understood, where the user may have intended something else.
    pub(crate) fn notices(&self) -> Vec<String> {
        let mut notices: Vec<String> = describe(&self.query.conditions).into_iter().collect();
        let looks_like_path = |text: &str| {
            let is_path_char = |c: char| c.is_alphanumeric() || matches!(c, '/' | '_' | '-' | '.');
            text.contains('/') && text.chars().all(is_path_char)
        };
        let is_path =
            |term: &Term| matches!(term.kind, Kind::Regex(_)) && looks_like_path(&term.text);
        if let Some(letter) = self.query.invalid_flag {
            notices.push(format!(
                "the query was read as words: {letter:?} is no flag of a regular expression; known are i, m, s and x"
            ));
        }
        if self.query.terms.iter().any(is_path) {
            let text = "the query was read as a regular expression, because it is between slashes; \
                        put it in quotes to look for a path";
            notices.push(text.to_owned());
        }
        notices
    }

    /// A notice about how patterns are written, for a search that found nothing; `None` if no word looks like a
    /// pattern.
    pub(crate) fn pattern_notice(&self) -> Option<String> {
        let is_pattern = |term: &&Term| {
            let signs = ['*', '|', '[', '^', '$', '\\'];
            term.kind == Kind::Word && (term.text.contains(signs) || term.text.contains(".+"))
        };
        let term = self.query.terms.iter().find(is_pattern)?;
        Some(format!(
            "{:?} was searched for as it is written; a regular expression is written between slashes, such as /run.*book/",
            term.text
        ))
    }
}
