//! A regular expression that lets go of a text when nobody waits any more.
//!
//! Its time grows with the text, and with how much of the expression is alive at once: of some megabytes a counted
//! repetition makes minutes. So a large text is searched window by window, and between them it is asked whether somebody
//! still waits. A window ends a step behind the next one's beginning: in a text of several windows nothing is found that
//! is longer than a step, unless its beginning is a match as well.

use std::ops::Range;

use regex_automata::Input;
use regex_automata::meta::{self, Regex};
use regex_automata::nfa::thompson::{self, NFA};
use regex_syntax::hir::Hir;

/// A compiled expression takes at most so many bytes.
const PROGRAM_BYTES: usize = 1 << 20;
/// What is remembered while searching takes at most so many bytes; forgotten when it is full.
const CACHE_BYTES: usize = 1 << 20;
/// Bytes of a step times states: a window takes about a second at the worst.
const STEP: usize = 1 << 27;

/// Says that nobody waits for an answer any more.
pub(crate) type Stopped<'s> = &'s (dyn Fn() -> bool + Sync);

/// A regular expression, ready.
pub(crate) struct Expression {
    regex: Regex,
    /// Whether it depends on what stands beside it whether something matches.
    looks: bool,
    /// From the beginning of a window to that of the next one, in bytes.
    step: usize,
}

/// It cannot be made ready.
#[derive(Debug)]
pub(crate) struct TooLarge;

impl Expression {
    pub(crate) fn new(hir: &Hir) -> Result<Self, TooLarge> {
        let limited = thompson::Config::new().nfa_size_limit(Some(PROGRAM_BYTES));
        let states = NFA::compiler().configure(limited).build_from_hir(hir);
        let states = states.map_err(|_| TooLarge)?.states().len();
        let limited = meta::Config::new()
            .nfa_size_limit(Some(PROGRAM_BYTES))
            .hybrid_cache_capacity(CACHE_BYTES);
        let regex = Regex::builder().configure(limited).build_from_hir(hir);
        Ok(Self {
            regex: regex.map_err(|_| TooLarge)?,
            looks: !hir.properties().look_set().is_empty(),
            step: STEP / states.max(1),
        })
    }

    /// Whether a text holds it. When nobody waits any more, what was not found yet is not there.
    pub(crate) fn is_in(&self, text: &str, stopped: Stopped<'_>) -> bool {
        let is_in = |window, _| self.regex.is_match(window).then_some(());
        self.windows(text, stopped, is_in).is_some()
    }

    /// The leftmost place in a text; when nobody waits any more, none that was not found yet.
    pub(crate) fn find(&self, text: &str, stopped: Stopped<'_>) -> Option<Range<usize>> {
        self.windows(text, stopped, |window, next| {
            let found = self.regex.find(window)?;
            // What begins in the next window is found there, whole.
            (found.start() < next).then(|| found.range())
        })
    }

    /// Whether what is in a piece of a text is in the text as well.
    pub(crate) const fn is_in_whole(&self) -> bool {
        !self.looks
    }

    /// The first thing that is found in a window, given where the next one begins, if there is one.
    fn windows<'t, T>(
        &self,
        text: &'t str,
        stopped: Stopped<'_>,
        find: impl Fn(Input<'t>, usize) -> Option<T>,
    ) -> Option<T> {
        let mut from = 0;
        loop {
            let next = text.ceil_char_boundary(from + self.step);
            let end = text.ceil_char_boundary(next + self.step);
            let is_last = end == text.len();
            let until = if is_last { usize::MAX } else { next };
            let found = find(Input::new(text).range(from..end), until);
            if found.is_some() || is_last || stopped() {
                return found;
            }
            from = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use proptest::prelude::*;
    use regex_syntax::ParserBuilder;

    use super::*;

    /// One that searches windows of a step each.
    fn stepping(pattern: &str, step: usize) -> Expression {
        let mut parser = ParserBuilder::new().multi_line(true).build();
        let mut expression = Expression::new(&parser.parse(pattern).unwrap()).unwrap();
        expression.step = step;
        expression
    }

    const PATTERNS: [&str; 16] = [
        "a",
        "ab|a",
        "a|ab",
        "a+?b",
        "(a|ab)(c|bcd)?",
        "^a.?b$",
        r"\bab\b",
        r"\Bé",
        "a{2,3}?",
        "é{1,3}|ß",
        "(?i)ÉB",
        r"\A\w",
        r"\s\z",
        "",
        "(?s)a.b",
        "[^a]{3}",
    ];

    proptest! {
        /// No match is longer than a step: the windows make no difference.
        #[test]
        fn finds_what_regex_finds(of in 0..PATTERNS.len(), text in "[abcdéßB \n日]{0,60}") {
            let expression = stepping(PATTERNS[of], 12);
            let expected = expression.regex.find(&text).map(|found| found.range());
            prop_assert_eq!(expression.find(&text, &|| false), expected.clone());
            prop_assert_eq!(expression.is_in(&text, &|| false), expected.is_some());
        }
    }

    #[test]
    fn lets_go_when_nobody_waits() {
        let expression = stepping("[ab][a-d]{0,4}[x-z]", 100);
        let text = "abcd".repeat(100_000) + "z";
        let asked = AtomicUsize::new(0);
        let stopped = || asked.fetch_add(1, Ordering::Relaxed) >= 3;
        assert!(!expression.is_in(&text, &stopped));
        assert_eq!(expression.find(&text, &stopped), None);
        assert_eq!(asked.load(Ordering::Relaxed), 5);
    }

    #[test]
    fn a_counted_repetition_is_not_left_a_large_text() {
        let of = |pattern| Expression::new(&regex_syntax::parse(pattern).unwrap()).unwrap();
        let (small, large) = (of("a"), of("[ab][a-d]{0,4000}[x-z]"));
        assert!(large.step < 1 << 18 && small.step > 1 << 20);
        assert!(large.is_in("abcdz", &|| true));
    }
}
