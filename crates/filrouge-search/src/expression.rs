//! A regular expression whose search can be cancelled.
//!
//! The time of a search grows with the text and with the number of states that are active at once: a counted repetition
//! can take minutes over some megabytes. Texts that may take long are therefore searched by following the states byte
//! by byte, with checks for cancellation. All other texts are searched by `regex-automata`, which is faster. Both find
//! the same match as `regex`: the leftmost one, with its preferred end.

use std::ops::Range;

use regex_automata::meta::{self, Regex};
use regex_automata::nfa::thompson::{self, NFA, State};
use regex_automata::util::primitives::StateID;
use regex_syntax::hir::Hir;

/// The maximum size of a compiled expression, in bytes.
const PROGRAM_BYTES: usize = 1 << 20;
/// The maximum size of the lazy automaton's cache, in bytes. A full cache is cleared.
const CACHE_BYTES: usize = 1 << 20;
/// A text is searched without checks for cancellation if its number of bytes, multiplied by the expression's number of
/// states, is at most this. Such a search takes about a second at worst.
const MAX_UNCHECKED: usize = 1 << 28;
/// The number of bytes searched between two checks for cancellation.
const CHECK_EVERY: usize = 64;

/// Returns true once the search is cancelled.
pub(crate) type Stopped<'s> = &'s (dyn Fn() -> bool + Sync);

/// A compiled regular expression.
pub(crate) struct Expression {
    regex: Regex,
    states: NFA,
    /// Whether it has assertions such as `^` or `\b`, so that a match depends on the text around it.
    has_assertions: bool,
    /// [`MAX_UNCHECKED`], or another value in tests.
    max_unchecked: usize,
}

/// The error for an expression whose compiled form exceeds a limit.
#[derive(Debug)]
pub(crate) struct TooLarge;

impl Expression {
    pub(crate) fn new(hir: &Hir) -> Result<Self, TooLarge> {
        let config = thompson::Config::new().nfa_size_limit(Some(PROGRAM_BYTES));
        let states = NFA::compiler().configure(config).build_from_hir(hir);
        let config = meta::Config::new()
            .nfa_size_limit(Some(PROGRAM_BYTES))
            .hybrid_cache_capacity(CACHE_BYTES);
        let regex = Regex::builder().configure(config).build_from_hir(hir);
        Ok(Self {
            regex: regex.map_err(|_| TooLarge)?,
            states: states.map_err(|_| TooLarge)?,
            has_assertions: !hir.properties().look_set().is_empty(),
            max_unchecked: MAX_UNCHECKED,
        })
    }

    /// Whether a text has a match; false also when the search is cancelled before it finds one.
    pub(crate) fn is_match(&self, text: &str, stopped: Stopped<'_>) -> bool {
        match self.is_short(text) {
            true => self.regex.is_match(text),
            false => self.find_by_states(text, stopped, true).is_some(),
        }
    }

    /// Returns the range of the leftmost match in a text, in bytes; `None` also when the search is cancelled before it
    /// ends.
    pub(crate) fn find(&self, text: &str, stopped: Stopped<'_>) -> Option<Range<usize>> {
        match self.is_short(text) {
            true => Some(self.regex.find(text)?.range()),
            false => self.find_by_states(text, stopped, false),
        }
    }

    /// Whether a text is short enough to be searched without checks for cancellation.
    fn is_short(&self, text: &str) -> bool {
        text.len().saturating_mul(self.states.states().len()) <= self.max_unchecked
    }

    /// Whether every match in a piece of a text is also a match in the complete text.
    pub(crate) const fn is_context_free(&self) -> bool {
        !self.has_assertions
    }

    /// Follows the states through a text, and returns the leftmost match. With `accept_any`, stops as soon as it knows
    /// that a match exists, and returns a match that may be shorter. Returns `None` when `stopped` returns true.
    fn find_by_states(
        &self,
        text: &str,
        stopped: Stopped<'_>,
        accept_any: bool,
    ) -> Option<Range<usize>> {
        let (mut current, mut next) = (
            ActiveStates::new(&self.states),
            ActiveStates::new(&self.states),
        );
        let mut found = None;
        for at in 0..=text.len() {
            if at % CHECK_EVERY == 0 && stopped() {
                return None;
            }
            if found.is_some() && current.threads.is_empty() {
                break;
            }
            if found.is_none() && text.is_char_boundary(at) {
                current.add(&self.states, text, self.states.start_anchored(), (at, at));
            }
            let byte = text.as_bytes().get(at).copied();
            for (state, start) in &current.threads {
                let to = match self.states.state(*state) {
                    State::Match { .. } => {
                        found = Some(*start..at);
                        // The states after this one have lower priority.
                        break;
                    }
                    State::ByteRange { trans } => {
                        byte.and_then(|byte| trans.matches_byte(byte).then_some(trans.next))
                    }
                    State::Sparse(sparse) => byte.and_then(|byte| sparse.matches_byte(byte)),
                    State::Dense(dense) => byte.and_then(|byte| dense.matches_byte(byte)),
                    _ => None,
                };
                if let Some(to) = to {
                    next.add(&self.states, text, to, (*start, at + 1));
                }
            }
            if accept_any && found.is_some() {
                break;
            }
            std::mem::swap(&mut current, &mut next);
            next.clear();
        }
        found
    }
}

/// The states that are active at one position of a text, the preferred first, each with the start of its match.
struct ActiveStates {
    threads: Vec<(StateID, usize)>,
    /// For every state, the number of the step at which it was last active.
    last_active: Vec<u64>,
    /// The number of the current step.
    step: u64,
    /// The states that [`ActiveStates::add`] still has to add; empty between its calls.
    stack: Vec<StateID>,
}

impl ActiveStates {
    fn new(states: &NFA) -> Self {
        Self {
            threads: Vec::new(),
            last_active: vec![0; states.states().len()],
            step: 1,
            stack: Vec::new(),
        }
    }

    fn clear(&mut self) {
        self.threads.clear();
        self.step += 1;
    }

    /// Adds a state, and all states that it leads to without consuming a byte. `start` is where the match begins, `at`
    /// the current position in `text`.
    fn add(&mut self, states: &NFA, text: &str, state: StateID, (start, at): (usize, usize)) {
        self.stack.push(state);
        while let Some(state) = self.stack.pop() {
            match self.last_active.get_mut(state.as_usize()) {
                Some(last_active) if *last_active != self.step => *last_active = self.step,
                _ => continue,
            }
            match states.state(state) {
                State::Look { look, next } => {
                    if states.look_matcher().matches(*look, text.as_bytes(), at) {
                        self.stack.push(*next);
                    }
                }
                State::Union { alternates } => self.stack.extend(alternates.iter().rev()),
                State::BinaryUnion { alt1, alt2 } => self.stack.extend([*alt2, *alt1]),
                State::Capture { next, .. } => self.stack.push(*next),
                State::Fail => {}
                _ => self.threads.push((state, start)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use proptest::prelude::*;
    use regex_syntax::ParserBuilder;

    use super::*;

    /// An expression that always follows the states, however short the text.
    fn stepping(pattern: &str) -> Expression {
        let mut parser = ParserBuilder::new().multi_line(true).build();
        let hir = parser.parse(pattern).unwrap();
        let mut expression = Expression::new(&hir).unwrap();
        expression.max_unchecked = 0;
        expression
    }

    const PATTERNS: [&str; 18] = [
        "a",
        "ab|a",
        "a|ab",
        "a+?b*",
        "(a|ab)(c|bcd)?",
        "^a.*b$",
        r"\bab\b",
        r"\Bé",
        "a{2,3}?",
        "(a*)*b",
        "é+|ß",
        "(?i)ÉB",
        r"\A\w",
        r"\s\z",
        "",
        "x*",
        "(?s)a.b",
        "[^a]{3}",
    ];

    proptest! {
        #[test]
        fn finds_what_regex_finds(number in 0..PATTERNS.len(), text in "[abcdéßB \n日]{0,12}") {
            let expression = stepping(PATTERNS[number]);
            let expected = expression.regex.find(&text).map(|found| found.range());
            prop_assert_eq!(expression.find(&text, &|| false), expected.clone());
            prop_assert_eq!(expression.is_match(&text, &|| false), expected.is_some());
        }
    }

    #[test]
    fn a_cancelled_search_stops() {
        let expression = stepping("[ab][a-d]{0,4000}[x-z]");
        let text = "abcd".repeat(100_000) + "z";
        let checks = AtomicUsize::new(0);
        let stopped = || checks.fetch_add(1, Ordering::Relaxed) >= 3;
        assert!(!expression.is_match(&text, &stopped));
        assert_eq!(expression.find(&text, &stopped), None);
        assert_eq!(checks.load(Ordering::Relaxed), 5);
    }

    #[test]
    fn large_texts_are_searched_by_states() {
        let mut expression = stepping("a{500}");
        expression.max_unchecked = MAX_UNCHECKED;
        assert!(expression.is_short("a"));
        assert!(!expression.is_short(&"a".repeat(1 << 20)));
    }
}
