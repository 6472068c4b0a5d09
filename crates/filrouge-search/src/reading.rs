//! Reads a query from left to right.

use crate::condition::{FilterText, InvalidQuery, NAMES, QueryFault};

/// A text such as `/a/zz` has letters after its last slash that are not all flags. At most this many letters count as
/// mistaken flags; more are the end of a path.
const MAX_MISTAKEN_FLAGS: usize = 2;

/// One search term.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Term {
    pub(crate) kind: Kind,
    /// The text without quotes, slashes and flags.
    pub(crate) text: String,
    /// Whether messages that contain the term are excluded.
    pub(crate) excluded: bool,
    /// The position of `text` in the query, in characters from 1.
    pub(crate) at: usize,
}

/// How a term is matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Literally; case and accents are ignored.
    Word,
    /// Literally; case and accents are ignored, and white space matches any white space.
    Phrase,
    /// A regular expression.
    Regex(Flags),
}

/// The flags of a regular expression. The flag `m` is accepted and always on: `^` and `$` match at the ends of lines,
/// as searches in logs require. `\A` and `\z` match at the ends of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Flags {
    /// `i`: any case.
    pub(crate) any_case: bool,
    /// `s`: `.` also matches a line feed.
    pub(crate) dot_all: bool,
    /// `x`: white space and comments in the pattern are ignored.
    pub(crate) verbose: bool,
}

/// Reads a complete text as a regular expression between slashes; `None` if it is not one. `Err` contains an invalid
/// flag, if the text is a regular expression except for it.
fn parse_regex(query: &str) -> Option<Result<Term, char>> {
    let (pattern, letters) = query.trim().strip_prefix('/')?.rsplit_once('/')?;
    if pattern.is_empty() {
        return None;
    }
    let mut flags = Flags::default();
    for letter in letters.chars() {
        match letter {
            'i' => flags.any_case = true,
            's' => flags.dot_all = true,
            'x' => flags.verbose = true,
            'm' => {}
            letter => {
                let is_mistaken_flag = letters.len() <= MAX_MISTAKEN_FLAGS
                    && letters.chars().all(|c| c.is_ascii_alphabetic());
                return is_mistaken_flag.then_some(Err(letter));
            }
        }
    }
    Some(Ok(Term {
        kind: Kind::Regex(flags),
        text: pattern.to_owned(),
        excluded: false,
        at: 2,
    }))
}

/// A filter that the query language does not have.
#[derive(Debug, Clone, Copy)]
pub struct ExtraFilter {
    /// The name, without its colon.
    pub name: &'static str,
    /// The name of the filter of the query language with the same meaning, if there is one. It has as many characters
    /// as `name`.
    pub means: Option<&'static str>,
}

/// A reader of a query: the unread part, and the position at which it begins, in characters from 1.
#[derive(Clone)]
pub(crate) struct QueryReader<'a> {
    rest: &'a str,
    at: usize,
    /// Filters beside those of the query language.
    extra: &'static [ExtraFilter],
}

impl<'a> QueryReader<'a> {
    pub(crate) const fn new(query: &'a str) -> Self {
        Self::with_extra(query, &[])
    }

    /// A reader that also reads `extra` filters.
    pub(crate) const fn with_extra(query: &'a str, extra: &'static [ExtraFilter]) -> Self {
        Self {
            rest: query,
            at: 1,
            extra,
        }
    }

    /// The unread part.
    pub(crate) const fn unread(&self) -> &'a str {
        self.rest
    }

    /// Reads the filter at this position; `None` if there is none.
    ///
    /// # Errors
    /// [`InvalidQuery`] for a quoted value that is not closed.
    pub(crate) fn filter(&mut self) -> Result<Option<FilterText<'a>>, InvalidQuery> {
        self.skip_space();
        let Some(name) = filter_name(self.rest, self.extra) else {
            return Ok(None);
        };
        let (at, excluded) = (self.at, self.rest.starts_with('-'));
        self.skip(usize::from(excluded));
        let text = self.rest.get(..=name.len()).unwrap_or_default();
        self.skip(text.len());
        let value_at = self.at;
        let value = match self.phrase()? {
            Some(value) => value,
            None => {
                let word = self.take_while(|c| !c.is_whitespace());
                if word == "\"\"" { "" } else { word }.to_owned()
            }
        };
        Ok(Some(FilterText {
            name,
            value,
            excluded,
            text,
            at,
            value_at,
        }))
    }

    /// Reads the rest of the query as a regular expression, up to the filters with which the query may end. Returns
    /// `None` if it is not one; `Err` contains an invalid flag. In both cases, nothing was read.
    pub(crate) fn regex(&mut self) -> Option<Result<Term, char>> {
        self.skip_space();
        let spaces = self.rest.match_indices(char::is_whitespace);
        let mut before = spaces.filter_map(|(at, space)| {
            let (before, after) = self.rest.split_at_checked(at + space.len())?;
            filter_name(after, self.extra)?;
            let mut filters = QueryReader::with_extra(after, self.extra);
            while let Ok(Some(_)) = filters.filter() {}
            let is_regex = matches!(parse_regex(before.trim_end()), Some(Ok(_)));
            (is_regex && filters.rest.is_empty()).then_some(before)
        });
        let regex_text = before.next().unwrap_or(self.rest);
        let (at, chars) = (self.at, regex_text.chars().count());
        let term = parse_regex(regex_text.trim_end())?;
        if term.is_ok() {
            self.skip(chars);
        }
        let at = at + 1;
        Some(term.map(|term| Term { at, ..term }))
    }

    /// Skips white space.
    fn skip_space(&mut self) {
        self.take_while(char::is_whitespace);
    }

    /// Reads the word or phrase at this position; `None` at the end of the query.
    ///
    /// # Errors
    /// [`InvalidQuery`] for a phrase that is not closed.
    pub(crate) fn term(&mut self) -> Result<Option<Term>, InvalidQuery> {
        self.skip_space();
        if self.rest.is_empty() {
            return Ok(None);
        }
        // Options (`--flag`) and arrows (`->`) are words, not exclusions.
        let after = self.rest.strip_prefix('-').and_then(|t| t.chars().next());
        let excluded = after.is_some_and(|c| !c.is_whitespace() && !matches!(c, '-' | '>' | '='));
        if excluded {
            self.skip(1);
        }
        let start = self.at;
        let (kind, text) = match self.phrase()? {
            Some(text) => (Kind::Phrase, text),
            None => {
                let word = self.take_while(|c| !c.is_whitespace());
                (Kind::Word, word.to_owned())
            }
        };
        Ok(Some(Term {
            kind,
            text,
            excluded,
            at: start + usize::from(kind == Kind::Phrase),
        }))
    }

    /// Reads the phrase that begins at this position; `None` if there is none. Two quotes without text between them are
    /// no phrase, but a word.
    ///
    /// # Errors
    /// [`InvalidQuery`] for a phrase that is not closed, and for one that contains only white space.
    fn phrase(&mut self) -> Result<Option<String>, InvalidQuery> {
        let Some(inside) = self.rest.strip_prefix('"') else {
            return Ok(None);
        };
        let (mut text, mut chars) = (String::new(), inside.chars().peekable());
        loop {
            match chars.next() {
                Some('"') if text.is_empty() => return Ok(None),
                Some('"') if text.trim().is_empty() => {
                    let text = "the phrase that begins here holds nothing but white space (which is found by /\\s/)";
                    return Err(InvalidQuery::new(self.at, QueryFault::BlankTerm, text));
                }
                Some('"') => {
                    // A quotation mark in the text is two characters in the query.
                    self.skip(text.chars().count() + text.matches('"').count() + 2);
                    return Ok(Some(text));
                }
                Some('\\') if chars.next_if_eq(&'"').is_some() => text.push('"'),
                Some(c) => text.push(c),
                None => {
                    let text = "the phrase that begins here is not closed: expected \" at its end \
                                (a quotation mark itself is found by /\"/)";
                    return Err(InvalidQuery::new(self.at, QueryFault::OpenPhrase, text));
                }
            }
        }
    }

    /// Reads characters while `is_wanted` returns true.
    fn take_while(&mut self, is_wanted: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !is_wanted(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.at += taken.chars().count();
        self.rest = rest;
        taken
    }

    fn skip(&mut self, chars: usize) {
        let mut unread = self.rest.chars();
        self.at += unread.by_ref().take(chars).count();
        self.rest = unread.as_str();
    }
}

/// Returns the name of the filter with which a text begins; `None` if there is none. `tool::call` and `source://x` are
/// words.
fn filter_name(text: &str, extra: &[ExtraFilter]) -> Option<&'static str> {
    let text = text.strip_prefix('-').unwrap_or(text);
    let is_at_start = |name: &&'static str| {
        let after = text.strip_prefix(*name).and_then(|t| t.strip_prefix(':'));
        after.is_some_and(|value| !value.starts_with(':') && !value.starts_with("//"))
    };
    let extra = extra.iter().map(|filter| filter.name);
    NAMES.into_iter().chain(extra).find(is_at_start)
}
