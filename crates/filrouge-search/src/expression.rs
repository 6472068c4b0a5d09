//! A regular expression whose search can be interrupted.
//!
//! Its time grows with the text, and with how much of the expression is alive at once: a counted repetition takes minutes
//! over some megabytes. Such texts are searched by following the states byte by byte, with the leftmost match and its
//! preferred end as in `regex`; all other texts are searched by `regex-automata`, which is faster.

use std::ops::Range;

use regex_automata::meta::{self, Regex};
use regex_automata::nfa::thompson::{self, NFA, State};
use regex_automata::util::primitives::StateID;
use regex_syntax::hir::Hir;

/// A compiled expression takes at most so many bytes.
const PROGRAM_BYTES: usize = 1 << 20;
/// The most bytes of the lazy automaton while searching; it is cleared when it is full.
const CACHE_BYTES: usize = 1 << 20;
/// Bytes of a text times states that are searched without an interruption: about a second at the worst.
const AT_A_STRETCH: usize = 1 << 28;
/// How many bytes are searched between two checks whether the caller still waits.
const ASK_EVERY: usize = 64;

/// Says that nobody waits for an answer any more.
pub(crate) type Stopped<'s> = &'s (dyn Fn() -> bool + Sync);

/// A regular expression, ready.
pub(crate) struct Expression {
    regex: Regex,
    states: NFA,
    /// Whether it depends on what stands beside it whether something matches.
    looks: bool,
    at_a_stretch: usize,
}

/// It cannot be made ready.
#[derive(Debug)]
pub(crate) struct TooLarge;

impl Expression {
    pub(crate) fn new(hir: &Hir) -> Result<Self, TooLarge> {
        let limited = thompson::Config::new().nfa_size_limit(Some(PROGRAM_BYTES));
        let states = NFA::compiler().configure(limited).build_from_hir(hir);
        let limited = meta::Config::new()
            .nfa_size_limit(Some(PROGRAM_BYTES))
            .hybrid_cache_capacity(CACHE_BYTES);
        let regex = Regex::builder().configure(limited).build_from_hir(hir);
        Ok(Self {
            regex: regex.map_err(|_| TooLarge)?,
            states: states.map_err(|_| TooLarge)?,
            looks: !hir.properties().look_set().is_empty(),
            at_a_stretch: AT_A_STRETCH,
        })
    }

    /// Whether a text holds it. When nobody waits any more, what was not found yet is not there.
    pub(crate) fn is_in(&self, text: &str, stopped: Stopped<'_>) -> bool {
        match self.is_short(text) {
            true => self.regex.is_match(text),
            false => self.steps(text, stopped, true).is_some(),
        }
    }

    /// The leftmost place in a text; when nobody waits any more, none that was not found yet.
    pub(crate) fn find(&self, text: &str, stopped: Stopped<'_>) -> Option<Range<usize>> {
        match self.is_short(text) {
            true => Some(self.regex.find(text)?.range()),
            false => self.steps(text, stopped, false),
        }
    }

    fn is_short(&self, text: &str) -> bool {
        text.len().saturating_mul(self.states.states().len()) <= self.at_a_stretch
    }

    /// Whether what is in a piece of a text is in the text as well.
    pub(crate) const fn is_in_whole(&self) -> bool {
        !self.looks
    }

    /// Follows the states through a text; with `any`, to the end of the first match that ends.
    fn steps(&self, text: &str, stopped: Stopped<'_>, any: bool) -> Option<Range<usize>> {
        let (mut here, mut next) = (Alive::of(&self.states), Alive::of(&self.states));
        let mut found = None;
        for at in 0..=text.len() {
            if at % ASK_EVERY == 0 && stopped() {
                return None;
            }
            if found.is_some() && here.threads.is_empty() {
                break;
            }
            if found.is_none() && text.is_char_boundary(at) {
                here.add(&self.states, text, self.states.start_anchored(), (at, at));
            }
            let byte = text.as_bytes().get(at).copied();
            for (state, start) in &here.threads {
                let to = match self.states.state(*state) {
                    State::Match { .. } => {
                        found = Some(*start..at);
                        // What is behind it is preferred less.
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
            if any && found.is_some() {
                break;
            }
            std::mem::swap(&mut here, &mut next);
            next.clear();
        }
        found
    }
}

/// The states that are alive at one place of a text, the preferred first, each with where its match has begun.
struct Alive {
    threads: Vec<(StateID, usize)>,
    /// Of every state, when it was last alive.
    seen: Vec<u64>,
    now: u64,
    stack: Vec<StateID>,
}

impl Alive {
    fn of(states: &NFA) -> Self {
        Self {
            threads: Vec::new(),
            seen: vec![0; states.states().len()],
            now: 1,
            stack: Vec::new(),
        }
    }

    fn clear(&mut self) {
        self.threads.clear();
        self.now += 1;
    }

    /// Adds a state with all that it leads to without a step.
    fn add(&mut self, states: &NFA, text: &str, state: StateID, (start, at): (usize, usize)) {
        self.stack.push(state);
        while let Some(state) = self.stack.pop() {
            match self.seen.get_mut(state.as_usize()) {
                Some(seen) if *seen != self.now => *seen = self.now,
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

    /// One that never leaves a text to `regex`.
    fn stepping(pattern: &str) -> Expression {
        let mut parser = ParserBuilder::new().multi_line(true).build();
        let hir = parser.parse(pattern).unwrap();
        let mut expression = Expression::new(&hir).unwrap();
        expression.at_a_stretch = 0;
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
        fn finds_what_regex_finds(of in 0..PATTERNS.len(), text in "[abcdéßB \n日]{0,12}") {
            let expression = stepping(PATTERNS[of]);
            let expected = expression.regex.find(&text).map(|found| found.range());
            prop_assert_eq!(expression.find(&text, &|| false), expected.clone());
            prop_assert_eq!(expression.is_in(&text, &|| false), expected.is_some());
        }
    }

    #[test]
    fn lets_go_when_nobody_waits() {
        let expression = stepping("[ab][a-d]{0,4000}[x-z]");
        let text = "abcd".repeat(100_000) + "z";
        let asked = AtomicUsize::new(0);
        let stopped = || asked.fetch_add(1, Ordering::Relaxed) >= 3;
        assert!(!expression.is_in(&text, &stopped));
        assert_eq!(expression.find(&text, &stopped), None);
        assert_eq!(asked.load(Ordering::Relaxed), 5);
    }

    #[test]
    fn large_texts_are_not_left_to_regex() {
        let mut expression = stepping("a{500}");
        expression.at_a_stretch = AT_A_STRETCH;
        assert!(expression.is_short("a"));
        assert!(!expression.is_short(&"a".repeat(1 << 20)));
    }
}
