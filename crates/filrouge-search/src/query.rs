//! What is looked for, as people and agents write it; knows nothing of where it is looked for.
//!
//! A query that begins and ends with `/` (flags `i`, `m`, `s`, `x` may follow) is one regular expression. Any other is
//! words and `"phrases"`, in any order; each that a `-` precedes must be absent. Punctuation is part of a word:
//! `--flag`, `c++`, `->` and `/usr/lib` are words. What would be read otherwise is looked for in quotes: `"-v"`,
//! `"/usr/lib/"`. Within a phrase `\"` is a quotation mark.

/// Longer queries are refused, in characters.
pub(crate) const MAX_CHARS: usize = 4_096;
/// Queries of more terms are refused.
pub(crate) const MAX_TERMS: usize = 32;

/// So many letters behind a slash may have been meant as flags.
const FLAGS: usize = 2;

/// A query, understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Query {
    /// In the order they were written; none for an empty query.
    pub(crate) terms: Vec<Term>,
    /// It has the form of a regular expression but for this letter, which is no flag.
    pub(crate) strange_flag: Option<char>,
}

/// One thing that is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Term {
    pub(crate) kind: Kind,
    /// Without quotes, slashes and flags.
    pub(crate) text: String,
    /// Whether what holds it is left out.
    pub(crate) excluded: bool,
    /// Where `text` begins in the query: in characters, from 1.
    pub(crate) at: usize,
}

/// How a term is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// As it stands, in any case.
    Word,
    /// As it stands, in any case; white space stands for any white space.
    Phrase,
    /// A regular expression.
    Regex(Flags),
}

/// The flags of a regular expression. `m` is always on, so that `^` and `$` are the ends of lines (`\A` and `\z` those
/// of the text): who searches logs means lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Flags {
    /// `i`: any case.
    pub(crate) any_case: bool,
    /// `s`: `.` is also a line feed.
    pub(crate) dot_all: bool,
    /// `x`: white space and comments in the pattern mean nothing.
    pub(crate) verbose: bool,
}

/// Why a query cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("query, character {at}: {text}")]
pub(crate) struct Wrong {
    /// In characters, from 1.
    pub(crate) at: usize,
    pub(crate) text: String,
}

impl Wrong {
    pub(crate) fn new(at: usize, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { at, text }
    }
}

/// Reads a query.
///
/// # Errors
/// [`Wrong`] for a phrase that is not closed, and for more than the bounds allow. Whether a regular expression is
/// one is not looked at.
pub(crate) fn parse(query: &str) -> Result<Query, Wrong> {
    if query.chars().count() > MAX_CHARS {
        let text = format!("a query has at most {MAX_CHARS} characters");
        return Err(Wrong::new(MAX_CHARS + 1, text));
    }
    let strange_flag = match regex(query) {
        Some(Ok(term)) => {
            return Ok(Query {
                terms: vec![term],
                strange_flag: None,
            });
        }
        Some(Err(letter)) => Some(letter),
        None => None,
    };
    let mut reader = Reader { rest: query, at: 1 };
    let mut terms = Vec::new();
    while let Some(term) = reader.term()? {
        if terms.len() == MAX_TERMS {
            let text = format!("a query has at most {MAX_TERMS} words and phrases");
            return Err(Wrong::new(term.at, text));
        }
        terms.push(term);
    }
    Ok(Query {
        terms,
        strange_flag,
    })
}

/// The whole query as a regular expression, if it has that form; or the letter behind it that is no flag. What holds
/// more than a few letters there is a path.
fn regex(query: &str) -> Option<Result<Term, char>> {
    let before = query.chars().take_while(|c| c.is_whitespace()).count();
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
                let few =
                    letters.len() <= FLAGS && letters.chars().all(|c| c.is_ascii_alphabetic());
                return few.then_some(Err(letter));
            }
        }
    }
    Some(Ok(Term {
        kind: Kind::Regex(flags),
        text: pattern.to_owned(),
        excluded: false,
        at: before + 2,
    }))
}

struct Reader<'a> {
    rest: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn term(&mut self) -> Result<Option<Term>, Wrong> {
        self.take(|c| c.is_whitespace());
        if self.rest.is_empty() {
            return Ok(None);
        }
        let excluded = excludes(self.rest);
        if excluded {
            self.skip(1);
        }
        if let Some(text) = self.phrase()? {
            let at = self.at + 1;
            let kind = Kind::Phrase;
            self.skip(text.chars().count() + text.matches('"').count() + 2);
            return Ok(Some(Term {
                kind,
                text,
                excluded,
                at,
            }));
        }
        let at = self.at;
        Ok(Some(Term {
            kind: Kind::Word,
            text: self.take(|c| !c.is_whitespace()).to_owned(),
            excluded,
            at,
        }))
    }

    /// The phrase that begins here; two quotes with nothing between are a word.
    fn phrase(&self) -> Result<Option<String>, Wrong> {
        let Some(inside) = self.rest.strip_prefix('"') else {
            return Ok(None);
        };
        let (mut text, mut chars) = (String::new(), inside.chars().peekable());
        loop {
            match chars.next() {
                Some('"') if text.trim().is_empty() => return Ok(None),
                Some('"') => return Ok(Some(text)),
                Some('\\') if chars.next_if_eq(&'"').is_some() => text.push('"'),
                Some(c) => text.push(c),
                None => {
                    let text = "the phrase that begins here is not closed: expected \" at its end \
                                (a quotation mark itself is found by /\"/)";
                    return Err(Wrong::new(self.at, text));
                }
            }
        }
    }

    fn take(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !wanted(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.at += taken.chars().count();
        self.rest = rest;
        taken
    }

    fn skip(&mut self, chars: usize) {
        let mut left = self.rest.chars();
        self.at += left.by_ref().take(chars).count();
        self.rest = left.as_str();
    }
}

/// Whether the `-` that a term begins with excludes it: options (`--flag`) and arrows (`->`) are words.
fn excludes(term: &str) -> bool {
    let behind = term.strip_prefix('-').and_then(|t| t.chars().next());
    behind.is_some_and(|c| !c.is_whitespace() && !matches!(c, '-' | '>' | '='))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(query: &str) -> Vec<(Kind, String, bool, usize)> {
        let terms = parse(query).unwrap().terms;
        let parts = terms
            .into_iter()
            .map(|t| (t.kind, t.text, t.excluded, t.at));
        parts.collect()
    }

    #[test]
    fn punctuation_is_part_of_words() {
        for word in [
            "ask_user", "foo::bar", "c++", "--flag", "it's", "/usr/lib", "->", "-", "5\"", "\"\"",
            "//",
        ] {
            assert_eq!(
                words(word),
                [(Kind::Word, word.to_owned(), false, 1)],
                "{word}"
            );
        }
    }

    #[test]
    fn phrases_and_exclusions_know_where_they_stand() {
        let found = words(r#" a -b -"c  d" "say \"é\"" -"#);
        let expected = [
            (Kind::Word, "a".to_owned(), false, 2),
            (Kind::Word, "b".to_owned(), true, 5),
            (Kind::Phrase, "c  d".to_owned(), true, 9),
            (Kind::Phrase, "say \"é\"".to_owned(), false, 16),
            (Kind::Word, "-".to_owned(), false, 27),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn slashes_around_make_a_regex() {
        let flags = Flags {
            any_case: true,
            dot_all: true,
            verbose: true,
        };
        assert_eq!(
            words(" /a b/ims"),
            [(
                Kind::Regex(Flags {
                    verbose: false,
                    ..flags
                }),
                "a b".to_owned(),
                false,
                3
            )]
        );
        assert_eq!(
            words("/usr/lib/"),
            [(
                Kind::Regex(Flags::default()),
                "usr/lib".to_owned(),
                false,
                2
            )]
        );
        assert_eq!(
            words("/a/isx"),
            [(Kind::Regex(flags), "a".to_owned(), false, 2)]
        );
        assert_eq!(words("/a/q").first().map(|t| t.0), Some(Kind::Word));
    }

    #[test]
    fn what_is_wrong_is_pointed_at() {
        assert_eq!(parse("é \"open").unwrap_err().at, 3);
        assert_eq!(
            parse(&"x".repeat(MAX_CHARS + 1)).unwrap_err().at,
            MAX_CHARS + 1
        );
        assert_eq!(
            parse(&"x ".repeat(MAX_TERMS + 1)).unwrap_err().at,
            2 * MAX_TERMS + 1
        );
        assert!(parse("  ").unwrap().terms.is_empty());
    }
}
