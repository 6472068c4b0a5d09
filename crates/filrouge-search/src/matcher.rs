//! What is looked for, made ready to look: which terms a text holds.

use std::ops::Range;

use filrouge_engine::credentials;
use regex::{Regex, RegexBuilder};
use regex_syntax::hir::Hir;
use regex_syntax::{Parser, ParserBuilder};
use unicode_normalization::UnicodeNormalization;

use crate::cutting;
use crate::fields::{self, Field};
use crate::literals::{self, Run};
use crate::query::{Flags, Kind, Query, Term, Wrong};
use crate::view::View;
use filrouge_sources::{Message, Part, PartKind};

/// A compiled expression takes at most so many bytes.
const PROGRAM_BYTES: usize = 1 << 20;
/// What is remembered while searching takes at most so many bytes; forgotten when it is full.
const CACHE_BYTES: usize = 1 << 20;
/// Groups in groups.
const NESTING: u32 = 50;

/// All terms of a query.
pub(crate) struct Matcher {
    terms: Vec<Compiled>,
    /// The bits of terms that a message must hold.
    pub(crate) wanted: u64,
    /// The bits of those it must not.
    refused: u64,
    /// Only calls of this tool can hold what is wanted.
    tool: Option<Box<str>>,
    /// Whether nothing is found in what has the form of a credential.
    mask: bool,
}

struct Compiled {
    regex: Regex,
    runs: Vec<Run>,
}

impl Matcher {
    pub(crate) fn new(query: &Query, tool: Option<&str>, mask: bool) -> Result<Self, Wrong> {
        let (mut wanted, mut refused) = (0, 0);
        for (bit, term) in query.terms.iter().enumerate() {
            let mask = if term.excluded {
                &mut refused
            } else {
                &mut wanted
            };
            *mask |= 1 << bit;
        }
        let terms = query.terms.iter().map(compile);
        Ok(Self {
            terms: terms.collect::<Result<_, _>>()?,
            wanted,
            refused,
            tool: tool.map(Box::from),
            mask,
        })
    }

    /// The bit of each wanted term, and runs of which whatever matches it holds one; none when nothing is known.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (u64, &[Run])> {
        let bits = self.terms.iter().enumerate();
        let wanted = bits.filter(|(bit, _)| self.wanted >> bit & 1 == 1);
        wanted.map(|(bit, term)| (1 << bit, term.runs.as_slice()))
    }

    /// Whether a message must not hold some term.
    pub(crate) const fn refuses(&self) -> bool {
        self.refused != 0
    }

    /// Whether a message with these terms is one that is looked for.
    pub(crate) const fn accepts(&self, bits: u64) -> bool {
        bits & self.wanted == self.wanted && bits & self.refused == 0
    }

    /// Which of the terms in `sought` a text holds.
    pub(crate) fn of_text(&self, field: Field, text: &str, sought: u64) -> u64 {
        let found = self.holds(text, &self.hidden(text, None), sought);
        let left = sought & !found;
        if left == 0 || !field.is_json() {
            return found;
        }
        match View::of(text) {
            Some(view) => {
                let hidden = self.hidden(text, Some(&view));
                found | self.holds(&view.text, &hidden, left)
            }
            None => found,
        }
    }

    fn holds(&self, text: &str, hidden: &[Range<usize>], sought: u64) -> u64 {
        let terms = self.terms.iter().enumerate();
        let sought = terms.filter(|(bit, _)| sought >> bit & 1 == 1);
        let is_in =
            |term: &Compiled| open(text, hidden).any(|(_, piece)| term.regex.is_match(piece));
        let found = sought.filter(|(_, term)| is_in(term));
        found.fold(0, |bits, (bit, _)| bits | 1 << bit)
    }

    /// The first place in a text of a term, outside of what is hidden.
    pub(crate) fn place(
        &self,
        term: u32,
        text: &str,
        hidden: &[Range<usize>],
    ) -> Option<Range<usize>> {
        let term = self.terms.get(usize::try_from(term).ok()?)?;
        open(text, hidden).find_map(|(start, piece)| {
            let found = term.regex.find(piece)?;
            Some(start + found.start()..start + found.end())
        })
    }

    /// Where credentials stand in a text: as it is written, or as it reads.
    pub(crate) fn hidden(&self, written: &str, view: Option<&View>) -> Vec<Range<usize>> {
        if !self.mask {
            return Vec::new();
        }
        let Some(view) = view else {
            return credentials(written);
        };
        let mut hidden = credentials(&view.text);
        let there = credentials(written).into_iter();
        hidden.extend(there.map(|r| view.here(r.start)..view.here(r.end)));
        cutting::joined(hidden)
    }

    /// Whether what is wanted may stand in this part.
    pub(crate) fn looks_in(&self, part: &Part) -> bool {
        match (&self.tool, &part.kind) {
            (None, _) => true,
            (Some(wanted), PartKind::Tool(tool)) => tool.name.eq_ignore_ascii_case(wanted),
            _ => false,
        }
    }

    /// Whether what is wanted may stand outside of the calls of tools.
    pub(crate) const fn looks_everywhere(&self) -> bool {
        self.tool.is_none()
    }

    /// Which terms a part holds; wanted ones only where they are looked for.
    pub(crate) fn of_part(&self, part: &Part) -> u64 {
        let mut left = self.refused;
        if self.looks_in(part) {
            left |= self.wanted;
        }
        let mut found = 0;
        fields::of_part(part, &mut |field, text| {
            let more = self.of_text(field, text, left);
            found |= more;
            left &= !more;
        });
        found
    }

    /// Which terms the error of a message holds.
    pub(crate) fn of_error(&self, error: &filrouge_sources::MessageError) -> u64 {
        let mut sought = self.refused;
        if self.looks_everywhere() {
            sought |= self.wanted;
        }
        let mut found = 0;
        fields::of_error(error, &mut |field, text| {
            found |= self.of_text(field, text, sought);
        });
        found
    }

    /// Whether a message is one that is looked for.
    pub(crate) fn is_in(&self, message: &Message) -> bool {
        if self.wanted == 0 && !message.parts.iter().any(|p| self.looks_in(p)) {
            return self.looks_everywhere() && self.accepts(self.of_message(message));
        }
        self.accepts(self.of_message(message))
    }

    fn of_message(&self, message: &Message) -> u64 {
        let error = message.error.as_ref().map_or(0, |e| self.of_error(e));
        message
            .parts
            .iter()
            .fold(error, |bits, part| bits | self.of_part(part))
    }
}

/// What stands between the hidden places, each with where it begins. Each is looked through for itself, so that whether
/// something is found never depends on what is hidden: who asks for beginnings of a key must learn nothing.
fn open<'t>(text: &'t str, hidden: &[Range<usize>]) -> impl Iterator<Item = (usize, &'t str)> {
    let starts = std::iter::once(0).chain(hidden.iter().map(|one| one.end));
    let ends = hidden.iter().map(|one| one.start).chain([text.len()]);
    let pieces = starts.zip(ends);
    pieces.filter_map(|(start, end)| Some((start, text.get(start..end)?)))
}

fn compile(term: &Term) -> Result<Compiled, Wrong> {
    let (pattern, flags) = match term.kind {
        Kind::Regex(flags) => (term.text.clone(), flags),
        Kind::Word | Kind::Phrase => (
            spelled(term),
            Flags {
                any_case: true,
                ..Flags::default()
            },
        ),
    };
    let hir = parse(term, &pattern, flags)?;
    let regex = RegexBuilder::new(&pattern)
        .case_insensitive(flags.any_case)
        .dot_matches_new_line(flags.dot_all)
        .ignore_whitespace(flags.verbose)
        .multi_line(true)
        .nest_limit(NESTING)
        .size_limit(PROGRAM_BYTES)
        .dfa_size_limit(CACHE_BYTES)
        .build()
        .map_err(|_| {
            Wrong::new(
                term.at,
                "this is too large once its repetitions are written out",
            )
        })?;
    let runs = literals::required(&hir).unwrap_or_default();
    Ok(Compiled { regex, runs })
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

/// A word or phrase as an expression: as it was typed, and with its accents composed and decomposed.
fn spelled(term: &Term) -> String {
    let mut forms = vec![term.text.clone()];
    for form in [term.text.nfc().collect(), term.text.nfd().collect()] {
        if !forms.contains(&form) {
            forms.push(form);
        }
    }
    let forms = forms.iter().map(|form| match term.kind {
        Kind::Phrase => spaced(form),
        _ => regex::escape(form),
    });
    forms.collect::<Vec<_>>().join("|")
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
