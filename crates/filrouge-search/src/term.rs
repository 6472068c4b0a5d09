//! One term, made ready to be looked for.

use std::ops::Range;

use filrouge_store::text_index::fold;
use memchr::memmem::Finder;
use regex::{Regex, RegexBuilder};
use regex_syntax::hir::Hir;
use regex_syntax::{Parser, ParserBuilder};

use crate::expression::{Expression, Stopped};
use crate::literals::{self, Run};
use crate::query::{Flags, Kind, Term, Wrong};
use crate::spoken::folded_literal;

/// A compiled expression takes at most so many bytes.
const PROGRAM_BYTES: usize = 1 << 20;
/// What is remembered while searching takes at most so many bytes; forgotten when it is full.
const CACHE_BYTES: usize = 1 << 20;
/// Groups in groups.
const NESTING: u32 = 50;

/// A term.
pub(crate) struct Compiled {
    pub(crate) sought: Sought,
    /// Runs of which whatever holds the term holds one: folded, but for those of an expression.
    pub(crate) runs: Vec<Run>,
    /// The folded term, with one space for white space; of an expression nothing.
    folded: String,
}

/// How a term is looked for.
pub(crate) enum Sought {
    /// In folded text, as it stands.
    Word(Box<Finder<'static>>),
    /// In folded text, any white space for any other.
    Spaced(Regex),
    /// In the text as it stands.
    Regex(Box<Expression>),
}

impl Sought {
    /// The first place in a text, which is folded if that is where it is looked for.
    pub(crate) fn find(&self, text: &str, stopped: Stopped<'_>) -> Option<Range<usize>> {
        match self {
            Self::Word(word) => {
                let at = word.find(text.as_bytes())?;
                Some(at..at + word.needle().len())
            }
            Self::Spaced(regex) => Some(regex.find(text)?.range()),
            Self::Regex(expression) => expression.find(text, stopped),
        }
    }
}

impl Compiled {
    pub(crate) fn of(term: &Term) -> Result<Self, Wrong> {
        match term.kind {
            Kind::Regex(flags) => Self::of_regex(term, flags),
            Kind::Word | Kind::Phrase => Self::of_words(term),
        }
    }

    /// Whether a text holds it; `folded` is the folded text.
    pub(crate) fn is_in<'t>(
        &self,
        text: &str,
        folded: &impl Fn() -> &'t str,
        stopped: Stopped<'_>,
    ) -> bool {
        match &self.sought {
            Sought::Word(word) => word.find(folded().as_bytes()).is_some(),
            Sought::Spaced(regex) => regex.is_match(folded()),
            Sought::Regex(expression) => expression.is_in(text, stopped),
        }
    }

    /// Literals of which the folded form of whatever holds it has one; `None` when nothing is known.
    pub(crate) fn literals(&self) -> Option<Vec<String>> {
        if !matches!(self.sought, Sought::Regex(_)) {
            return Some(vec![self.folded.clone()]);
        }
        let certain: Vec<String> = self.runs.iter().map(literals::certain).collect();
        (!certain.is_empty() && certain.iter().all(|one| !one.is_empty())).then_some(certain)
    }

    fn of_words(term: &Term) -> Result<Self, Wrong> {
        let folded = fold(&term.text);
        if folded.is_empty() {
            let text =
                "these are accents alone, which are not told apart: give the letters they stand on";
            return Err(Wrong::new(term.at, text));
        }
        let sought = if folded.contains(char::is_whitespace) {
            let regex = build(RegexBuilder::new(&spaced(&folded)), term)?;
            Sought::Spaced(regex)
        } else {
            Sought::Word(Box::new(Finder::new(folded.as_bytes()).into_owned()))
        };
        Ok(Self {
            sought,
            runs: literals::longest(&folded).into_iter().collect(),
            folded: folded_literal(&term.text),
        })
    }

    fn of_regex(term: &Term, flags: Flags) -> Result<Self, Wrong> {
        let hir = parse(term, &term.text, flags)?;
        let mut builder = RegexBuilder::new(&term.text);
        builder
            .case_insensitive(flags.any_case)
            .dot_matches_new_line(flags.dot_all)
            .ignore_whitespace(flags.verbose)
            .multi_line(true)
            .nest_limit(NESTING);
        let runs = literals::required(&hir).unwrap_or_default();
        let expression = Expression::new(build(builder, term)?, &hir, &runs);
        Ok(Self {
            sought: Sought::Regex(Box::new(expression.map_err(|_| too_large(term))?)),
            runs,
            folded: String::new(),
        })
    }
}

fn build(mut builder: RegexBuilder, term: &Term) -> Result<Regex, Wrong> {
    let builder = builder
        .size_limit(PROGRAM_BYTES)
        .dfa_size_limit(CACHE_BYTES);
    builder.build().map_err(|_| too_large(term))
}

fn too_large(term: &Term) -> Wrong {
    let text = "this is too large once its repetitions are written out";
    Wrong::new(term.at, text)
}

fn parse(term: &Term, pattern: &str, flags: Flags) -> Result<Hir, Wrong> {
    let mut parser: Parser = ParserBuilder::new()
        .case_insensitive(flags.any_case)
        .dot_matches_new_line(flags.dot_all)
        .ignore_whitespace(flags.verbose)
        .multi_line(true)
        .nest_limit(NESTING)
        .build();
    parser.parse(pattern).map_err(|why| {
        let (at, what) = match &why {
            regex_syntax::Error::Parse(why) => (why.span().start.offset, why.kind().to_string()),
            regex_syntax::Error::Translate(why) => {
                (why.span().start.offset, why.kind().to_string())
            }
            _ => (0, "this is no regular expression".to_owned()),
        };
        let before = pattern.get(..at).unwrap_or_default().chars().count();
        let near: String = pattern.chars().skip(before).take(12).collect();
        let place = if near.is_empty() {
            "at the end".to_owned()
        } else {
            format!("at {near:?}")
        };
        Wrong::new(
            term.at + before,
            format!("the regular expression is wrong {place}: {what}"),
        )
    })
}

/// A phrase in which any white space stands for any other.
fn spaced(phrase: &str) -> String {
    let (mut pattern, mut rest) = (String::new(), phrase);
    while let Some(at) = rest.find(char::is_whitespace) {
        let (word, space) = rest.split_at_checked(at).unwrap_or((rest, ""));
        pattern.push_str(&regex::escape(word));
        pattern.push_str(r"\s+");
        rest = space.trim_start();
    }
    pattern.push_str(&regex::escape(rest));
    pattern
}
