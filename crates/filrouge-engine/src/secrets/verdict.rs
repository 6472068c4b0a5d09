//! Verdicts: whether the text at an anchor is a credential.

use super::pem;
use super::read::{Class, Run, Text};
use super::shape::Shape;

/// A credential in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) shape: Shape,
    /// How the credential continues if the text grows; `None` if its end is known.
    pub(super) tail: Option<CredentialTail>,
}

/// Which further text belongs to a recognized credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CredentialTail {
    Run(Class),
    Pem,
}

impl CredentialTail {
    /// The end of a credential that continues at `at`, and whether it may continue when the text grows.
    pub(super) fn extend(self, text: Text<'_>, at: usize) -> (usize, bool) {
        match self {
            Self::Run(class) => {
                let run = text.run(at, class, usize::MAX);
                (run.end, run.open)
            }
            Self::Pem => pem::extend(text, at),
        }
    }
}

/// The verdict at an anchor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    No,
    /// Undecided until the text grows: a credential may begin at this position or later.
    More(usize),
    Found(Found),
}

impl Verdict {
    /// A credential whose end is known.
    pub(super) const fn found(shape: Shape, start: usize, end: usize) -> Self {
        Self::Found(Found {
            start,
            end,
            shape,
            tail: None,
        })
    }

    /// A credential from `start` that is recognized up to `at`, and extends over all text that `tail` describes.
    pub(super) fn extending(
        text: Text<'_>,
        shape: Shape,
        start: usize,
        at: usize,
        tail: CredentialTail,
    ) -> Self {
        let (end, open) = tail.extend(text, at);
        Self::Found(Found {
            start,
            end,
            shape,
            tail: open.then_some(tail),
        })
    }
}

/// The verdict on a credential from `start` whose run at `at` must have at least `least` symbols.
pub(super) fn growing(
    text: Text<'_>,
    start: usize,
    at: usize,
    least: usize,
    class: Class,
    shape: Shape,
) -> Verdict {
    let run = text.run(at, class, least);
    if run.count < least {
        return short(run, start);
    }
    if placeholder(&text.bytes[at..run.end]) {
        return Verdict::No;
    }
    Verdict::extending(text, shape, start, run.end, CredentialTail::Run(class))
}

/// The verdict on a credential from `start` whose run at `at` must have exactly `count` symbols, with no letter, digit
/// or `_` after it.
pub(super) fn exact(
    text: Text<'_>,
    start: usize,
    at: usize,
    count: usize,
    class: Class,
    shape: Shape,
) -> Verdict {
    let run = text.run(at, class, count);
    if run.count < count {
        return short(run, start);
    }
    let more = text.run(run.end, class, 1);
    if more.open {
        return Verdict::More(start);
    }
    let continues = more.count > 0 || text.get(run.end).is_some_and(super::read::word);
    if continues || placeholder(&text.bytes[at..run.end]) {
        return Verdict::No;
    }
    Verdict::found(shape, start, run.end)
}

/// The verdict on a run that is too short: undecided if it may become longer.
pub(super) const fn short(run: Run, start: usize) -> Verdict {
    if run.open {
        Verdict::More(start)
    } else {
        Verdict::No
    }
}

/// Whether the bytes only stand for a credential, as `xxxx…` or `****` do.
pub(super) fn placeholder(bytes: &[u8]) -> bool {
    bytes
        .iter()
        .all(|b| matches!(b, b'x' | b'X' | b'*' | b'.' | b'-' | b'_'))
}
