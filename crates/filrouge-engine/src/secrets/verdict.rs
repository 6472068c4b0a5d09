//! Verdicts: whether the text at an anchor is a credential.

use super::pem;
use super::read::{Alphabet, Text};
use super::shape::{Shape, SimpleRule};

/// A credential in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CredentialMatch {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) shape: Shape,
    /// The characters by which the credential may continue when the text grows; `None` if its end is known.
    pub(super) tail: Option<CredentialTail>,
}

/// The kind of text that continues a recognized credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CredentialTail {
    /// A run of characters of this alphabet.
    Run(Alphabet),
    /// Further lines of a private key.
    Pem,
}

impl CredentialTail {
    /// The end of a credential that continues at `at`, and whether it may continue when the text grows.
    pub(super) fn extend(self, text: Text<'_>, at: usize) -> (usize, bool) {
        match self {
            Self::Run(alphabet) => {
                let run = text.run(at, alphabet, usize::MAX);
                (run.end, run.may_grow)
            }
            Self::Pem => pem::extend(text, at),
        }
    }
}

/// The verdict at an anchor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The text is not a credential.
    NoCredential,
    /// The verdict depends on text that has not arrived: a credential may begin at this position or later.
    Undecided(usize),
    Credential(CredentialMatch),
}

impl Verdict {
    /// A credential whose end is known.
    pub(super) const fn complete(shape: Shape, start: usize, end: usize) -> Self {
        Self::Credential(CredentialMatch {
            start,
            end,
            shape,
            tail: None,
        })
    }

    /// A credential from `start` that is recognized up to `at`, and extends over all text that `tail` describes.
    pub(super) fn with_tail(
        text: Text<'_>,
        shape: Shape,
        start: usize,
        at: usize,
        tail: CredentialTail,
    ) -> Self {
        let (end, may_grow) = tail.extend(text, at);
        Self::Credential(CredentialMatch {
            start,
            end,
            shape,
            tail: may_grow.then_some(tail),
        })
    }
}

/// The verdict on a credential from `start` whose run at `at` must have the number of symbols that `rule` gives. If that
/// number is exact, no letter, digit or `_` may follow.
pub(super) fn judge_run(text: Text<'_>, start: usize, at: usize, rule: &SimpleRule) -> Verdict {
    let run = text.run(at, rule.alphabet, rule.min);
    if run.count < rule.min {
        return undecided_if(run.may_grow, start);
    }
    let is_exact = rule.max == rule.min;
    if is_exact {
        let more = text.run(run.end, rule.alphabet, 1);
        if more.may_grow {
            return Verdict::Undecided(start);
        }
        if more.count > 0 || text.get(run.end).is_some_and(super::read::is_word_byte) {
            return Verdict::NoCredential;
        }
    }
    if is_placeholder(&text.bytes[at..run.end]) {
        return Verdict::NoCredential;
    }
    if is_exact {
        return Verdict::complete(rule.shape, start, run.end);
    }
    let tail = CredentialTail::Run(rule.alphabet);
    Verdict::with_tail(text, rule.shape, start, run.end, tail)
}

/// The verdict on a text that is too short: undecided if it may become longer.
pub(super) const fn undecided_if(may_grow: bool, start: usize) -> Verdict {
    if may_grow {
        Verdict::Undecided(start)
    } else {
        Verdict::NoCredential
    }
}

/// Whether the bytes are a placeholder for a credential, such as `xxxx…` or `****`.
pub(super) fn is_placeholder(bytes: &[u8]) -> bool {
    bytes
        .iter()
        .all(|b| matches!(b, b'x' | b'X' | b'*' | b'.' | b'-' | b'_'))
}
