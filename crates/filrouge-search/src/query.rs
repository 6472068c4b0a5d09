//! What is looked for, as people and agents write it; knows nothing of where it is looked for.
//!
//! Words and `"phrases"`, in any order; each that a `-` precedes must be absent. Between them stand filters, each at most
//! once: `agent:` `project:` `tool:` `role:` `source:` `session:` `before:` `after:` `on:`; with a `-` before it, and then
//! any number of times, a filter leaves out. A query that begins and ends with `/` (flags `i`, `m`, `s`, `x` may follow)
//! is one regular expression; filters may stand before and behind it. Punctuation is part of a word: `--flag`, `c++`,
//! `->`, `std::vec` and `/usr/lib` are words. What would be read otherwise is looked for in quotes: `"-v"`, `"/usr/lib/"`,
//! `"agent:x"`. Within quotes `\"` is a quotation mark.

use crate::condition::{Condition, Written};
use crate::dates::Here;
use crate::reading::Reader;

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
mod tests {
    use filrouge_sources::Role;
    use filrouge_types::Timestamp;
    use jiff::tz::TimeZone;

    use super::*;
    use crate::condition::{Speaker, What};

    /// Saturday, 21 November 2026.
    fn here() -> Here {
        Here {
            now: Timestamp::from_millis(1_795_300_200_000).unwrap(),
            zone: TimeZone::UTC,
        }
    }

    fn parse(query: &str) -> Result<Query, Wrong> {
        super::parse(query, &here())
    }

    fn conditions(query: &str) -> Vec<(What, bool)> {
        let conditions = parse(query).unwrap().conditions.into_iter();
        conditions.map(|one| (one.what, one.excluded)).collect()
    }

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

    #[test]
    fn filters_stand_between_words() {
        let query =
            r#"agent:build foo -tool:bash "a b" role:user -project:"my project" bar session:s1"#;
        let expected = [
            (What::Agent("build".to_owned()), false),
            (What::Tool("bash".to_owned()), true),
            (What::Role(Speaker::Of(Role::User)), false),
            (What::Project("my project".to_owned()), true),
            (What::Session("s1".to_owned()), false),
        ];
        assert_eq!(conditions(query), expected);
        let found = words(query)
            .into_iter()
            .map(|(kind, text, _, at)| (kind, text, at));
        let expected = [
            (Kind::Word, "foo".to_owned(), 13),
            (Kind::Phrase, "a b".to_owned(), 29),
            (Kind::Word, "bar".to_owned(), 66),
        ];
        assert_eq!(found.collect::<Vec<_>>(), expected);
        assert_eq!(
            conditions("-role:tool -role:system source:Claude-Code"),
            [
                (What::Role(Speaker::Tool), true),
                (What::Role(Speaker::Of(Role::System)), true),
                (What::Source("claude-code".to_owned()), false),
            ]
        );
    }

    #[test]
    fn dates_are_stretches_of_time() {
        let day = 86_400_000;
        let christmas = 1_766_620_800_000;
        for (query, since, until) in [
            ("on:25-december", Some(christmas), Some(christmas + day)),
            (
                "on:2025-12-25T17:00",
                Some(christmas),
                Some(christmas + day),
            ),
            ("after:2025-12-25", Some(christmas), None),
            ("before:25-dec-2025", None, Some(christmas)),
            ("before:\"25 décembre\"", None, Some(christmas)),
            ("after:2025-12-25T00:00:01Z", Some(christmas + 1000), None),
        ] {
            let expected = [(What::Within(since, until), false)];
            assert_eq!(conditions(query), expected, "{query}");
        }
    }

    #[test]
    fn colons_elsewhere_are_part_of_words() {
        for word in [
            "std::vec",
            "http://x",
            "foo:bar",
            "tool::call",
            "source://x",
            "Agent:x",
            "myagent:x",
            "agent",
        ] {
            assert!(conditions(word).is_empty(), "{word}");
            assert_eq!(
                words(word),
                [(Kind::Word, word.to_owned(), false, 1)],
                "{word}"
            );
        }
        let phrase = (Kind::Phrase, "agent:x".to_owned(), false, 2);
        assert_eq!(words("\"agent:x\""), [phrase]);
        assert!(conditions("\"agent:x\" -\"on:y\"").is_empty());
    }

    #[test]
    fn filters_stand_before_and_behind_a_regex() {
        for (query, at) in [
            ("agent:x /a b/i", 10),
            ("/a b/i agent:x", 2),
            (" agent:x /a b/i on:today ", 11),
            ("/a b/i project:/usr/lib/", 2),
        ] {
            let flags = Flags {
                any_case: true,
                ..Flags::default()
            };
            let term = (Kind::Regex(flags), "a b".to_owned(), false, at);
            assert_eq!(words(query), [term], "{query}");
            assert!(!conditions(query).is_empty(), "{query}");
        }
        let inside = words("/a agent:x b/");
        let kind = Kind::Regex(Flags::default());
        assert_eq!(inside, [(kind, "a agent:x b".to_owned(), false, 2)]);
    }

    #[test]
    fn wrong_filters_are_pointed_at() {
        for (query, at, word) in [
            ("é role:nobody", 8, "user, assistant, system or tool"),
            ("source:gemini", 8, "opencode, claude-code, codex, ledger"),
            ("x on:click", 6, "28-december"),
            ("x -before:31-february", 11, "no day"),
            ("agent:a b agent:c", 11, "twice"),
            ("agent: b", 7, "needs a value"),
            ("agent:\"\"", 7, "needs a value"),
            ("tool:\"bash", 6, "not closed"),
        ] {
            let wrong = parse(query).unwrap_err();
            assert_eq!(wrong.at, at, "{query}: {wrong}");
            assert!(wrong.text.contains(word), "{query}: {wrong}");
        }
        assert_eq!(conditions("-agent:a -agent:b agent:c").len(), 3);
        let many = "-tool:x ".repeat(MAX_TERMS + 1);
        assert_eq!(parse(&many).unwrap_err().at, 8 * MAX_TERMS + 1);
    }
}
