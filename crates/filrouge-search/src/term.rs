//! One compiled term of a query.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;

use filrouge_store::text_index::fold;
use memchr::memmem::Finder;
use regex_syntax::hir::Hir;
use regex_syntax::{Parser, ParserBuilder};

use crate::expression::{Expression, Stopped, TooLarge};
use crate::index_terms;
use crate::query::{Flags, InvalidQuery, Kind, QueryFault, Term};
use crate::search_document::folded_literal;

/// The maximum nesting depth of groups in an expression.
const MAX_NESTING: u32 = 50;

/// A term, prepared for searching.
pub(crate) struct CompiledTerm {
    pub(crate) finder: TermFinder,
    /// The term's index terms: [`crate::SearchDocument::folded`] of each document that contains the term contains at
    /// least one literal of every index term.
    pub(crate) literals: Vec<index_terms::Term>,
}

/// A text with its folded form, which is computed on first use.
pub(crate) struct FoldedText<'t> {
    pub(crate) text: &'t str,
    folded: OnceCell<Cow<'t, str>>,
}

impl<'t> FoldedText<'t> {
    pub(crate) const fn new(text: &'t str) -> Self {
        Self {
            text,
            folded: OnceCell::new(),
        }
    }

    pub(crate) fn folded(&self) -> &str {
        self.folded.get_or_init(|| fold(self.text))
    }
}

/// The way in which a term is searched for.
pub(crate) enum TermFinder {
    /// Literally, in folded text.
    Word(Box<Finder<'static>>),
    /// Literally, in folded text, except that any white space matches any other.
    Phrase(Box<Expression>),
    /// In the text as written.
    Regex(Box<Expression>),
}

impl TermFinder {
    /// Returns the first match in a text. For words and phrases, `text` must be folded.
    pub(crate) fn find(&self, text: &str, stopped: Stopped<'_>) -> Option<Range<usize>> {
        match self {
            Self::Word(word) => {
                let at = word.find(text.as_bytes())?;
                Some(at..at + word.needle().len())
            }
            Self::Phrase(expression) | Self::Regex(expression) => expression.find(text, stopped),
        }
    }
}

impl CompiledTerm {
    pub(crate) fn new(term: &Term) -> Result<Self, InvalidQuery> {
        match term.kind {
            Kind::Regex(flags) => Self::from_regex(term, flags),
            Kind::Word | Kind::Phrase => Self::from_words(term),
        }
    }

    /// Whether a text contains the term.
    pub(crate) fn is_in(&self, text: &FoldedText<'_>, stopped: Stopped<'_>) -> bool {
        match &self.finder {
            TermFinder::Regex(expression) => expression.is_match(text.text, stopped),
            finder => finder.find(text.folded(), stopped).is_some(),
        }
    }

    /// Whether a match in a piece of a text is always a match in the complete text. This is not true of an expression
    /// with assertions, which may match only because a piece ends.
    pub(crate) const fn is_context_free(&self) -> bool {
        match &self.finder {
            TermFinder::Regex(expression) => expression.is_context_free(),
            _ => true,
        }
    }

    /// Whether some piece of a text may contain the term. False only if no piece contains it.
    pub(crate) fn may_be_in(&self, text: &FoldedText<'_>, stopped: Stopped<'_>) -> bool {
        match &self.finder {
            TermFinder::Regex(expression) if !expression.is_context_free() => {
                self.has_index_terms(text)
            }
            _ => self.is_in(text, stopped),
        }
    }

    /// Whether a text contains a literal of each index term. Index terms with a space are ignored, because the text may
    /// contain other white space instead.
    fn has_index_terms(&self, text: &FoldedText<'_>) -> bool {
        let has_no_space = |term: &&index_terms::Term| !term.iter().any(|one| one.contains(' '));
        let is_contained = |term: &index_terms::Term| {
            let mut literals = term.iter();
            literals.any(|literal| text.folded().contains(literal.as_str()))
        };
        self.literals.iter().filter(has_no_space).all(is_contained)
    }

    fn from_words(term: &Term) -> Result<Self, InvalidQuery> {
        let folded = fold(&term.text);
        if folded.is_empty() {
            let text = "this term has only accents, which a search ignores: add the letters that they belong to";
            return Err(InvalidQuery::new(term.at, QueryFault::BlankTerm, text));
        }
        let finder = if folded.contains(char::is_whitespace) {
            let hir = parse_regex(term, &phrase_pattern(&folded), Flags::default())?;
            TermFinder::Phrase(compile(&hir, term)?)
        } else {
            TermFinder::Word(Box::new(Finder::new(folded.as_bytes()).into_owned()))
        };
        Ok(Self {
            finder,
            literals: vec![vec![folded_literal(&term.text)]],
        })
    }

    fn from_regex(term: &Term, flags: Flags) -> Result<Self, InvalidQuery> {
        let hir = parse_regex(term, &term.text, flags)?;
        Ok(Self {
            finder: TermFinder::Regex(compile(&hir, term)?),
            literals: index_terms::terms(&hir),
        })
    }
}

fn compile(hir: &Hir, term: &Term) -> Result<Box<Expression>, InvalidQuery> {
    let text = "the expression is too large once its repetitions are expanded";
    let expression = Expression::new(hir)
        .map_err(|TooLarge| InvalidQuery::new(term.at, QueryFault::Regex, text))?;
    Ok(Box::new(expression))
}

fn parse_regex(term: &Term, pattern: &str, flags: Flags) -> Result<Hir, InvalidQuery> {
    let mut parser: Parser = ParserBuilder::new()
        .case_insensitive(flags.any_case)
        .dot_matches_new_line(flags.dot_all)
        .ignore_whitespace(flags.verbose)
        .multi_line(true)
        .nest_limit(MAX_NESTING)
        .build();
    parser.parse(pattern).map_err(|why| {
        let (at, problem) = match &why {
            regex_syntax::Error::Parse(why) => (why.span().start.offset, why.kind().to_string()),
            regex_syntax::Error::Translate(why) => {
                (why.span().start.offset, why.kind().to_string())
            }
            _ => (0, "this is no regular expression".to_owned()),
        };
        let before = pattern.get(..at).unwrap_or_default().chars().count();
        let near: String = pattern.chars().skip(before).take(12).collect();
        let location = if near.is_empty() {
            "at the end".to_owned()
        } else {
            format!("at {near:?}")
        };
        InvalidQuery::new(
            term.at + before,
            QueryFault::Regex,
            format!("the regular expression is wrong {location}: {problem}"),
        )
    })
}

/// Returns the pattern that finds a phrase, in which any white space matches any other.
fn phrase_pattern(phrase: &str) -> String {
    let (mut pattern, mut rest) = (String::new(), phrase);
    while let Some(at) = rest.find(char::is_whitespace) {
        let (word, space) = rest.split_at_checked(at).unwrap_or((rest, ""));
        pattern.push_str(&regex_syntax::escape(word));
        pattern.push_str(r"\s+");
        rest = space.trim_start();
    }
    pattern.push_str(&regex_syntax::escape(rest));
    pattern
}
