//! What is said of a stretch of text at an anchor.

use super::pem;
use super::read::{Class, Run, Text};
use super::shape::Shape;

/// A place in a text that holds a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) shape: Shape,
    /// How it goes on, when it ends where the text does, which may still grow.
    pub(super) tail: Option<Tail>,
}

/// How a credential goes on that is known to be one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tail {
    Run(Class),
    Pem,
}

impl Tail {
    /// How far it goes from `at`, and whether it may go on.
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

/// What stands at an anchor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    No,
    /// It is not known yet; a credential would begin here, or later.
    More(usize),
    Found(Found),
}

impl Verdict {
    /// A credential of a known end.
    pub(super) const fn found(shape: Shape, start: usize, end: usize) -> Self {
        Self::Found(Found {
            start,
            end,
            shape,
            tail: None,
        })
    }

    /// A credential that goes on as long as it can.
    pub(super) fn going(text: Text<'_>, shape: Shape, start: usize, at: usize, tail: Tail) -> Self {
        let (end, open) = tail.extend(text, at);
        Self::Found(Found {
            start,
            end,
            shape,
            tail: open.then_some(tail),
        })
    }
}

/// A run of at least so many bytes.
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
    Verdict::going(text, shape, start, run.end, Tail::Run(class))
}

/// A run of exactly so many bytes, and no letter or digit behind it.
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
    let goes_on = more.count > 0 || text.get(run.end).is_some_and(super::read::word);
    if goes_on || placeholder(&text.bytes[at..run.end]) {
        return Verdict::No;
    }
    Verdict::found(shape, start, run.end)
}

/// A run that is too short, so far or for good.
pub(super) const fn short(run: Run, start: usize) -> Verdict {
    if run.open {
        Verdict::More(start)
    } else {
        Verdict::No
    }
}

/// Whether it stands in a credential's place and is none: `xxxx…`, `****`.
pub(super) fn placeholder(bytes: &[u8]) -> bool {
    bytes
        .iter()
        .all(|b| matches!(b, b'x' | b'X' | b'*' | b'.' | b'-' | b'_'))
}
