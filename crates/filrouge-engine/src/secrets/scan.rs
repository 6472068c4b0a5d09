//! Finding credentials: anchors first, then what stands around each of them.
//!
//! Every shape has a few bytes that are rare elsewhere, its anchor. All anchors are looked for at once, without
//! backtracking; only at an anchor is a shape read, and never further than [`REACH`] bytes, so that time is linear in
//! the text.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, Input, MatchKind};

use super::read::{Class, Run, Text};
use super::shape::{ANCHORS, Kind, SIMPLE, Shape, Simple};
use super::{header, jwt, pem, places};

/// No shape looks further ahead from its anchor before it is decided.
pub(super) const REACH: usize = 3072;
/// No shape looks further back.
pub(super) const LOOK_BEHIND: usize = 768;

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
    /// It cannot be told yet; a credential would begin here, or later.
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

static AUTOMATON: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostFirst)
        .build(ANCHORS.iter().map(|(anchor, _)| anchor))
        .ok()
});

/// Calls `see` with every anchor's verdict.
fn each(text: Text<'_>, mut see: impl FnMut(Verdict)) {
    // The anchors are constants; a test builds them.
    let Some(automaton) = AUTOMATON.as_ref() else {
        return;
    };
    let mut at = 0;
    while let Some(hit) = automaton.find(Input::new(text.bytes).span(at..text.len())) {
        let (anchor, kind) = ANCHORS[hit.pattern().as_usize()];
        see(judge(text, hit.start(), anchor.len(), kind));
        at = hit.start() + 1;
    }
    for at in memchr::memchr2_iter(b'.', b'K', text.bytes) {
        see(if text.bytes[at] == b'.' {
            places::discord(text, at)
        } else {
            places::twilio(text, at)
        });
    }
}

fn judge(text: Text<'_>, at: usize, length: usize, kind: Kind) -> Verdict {
    let behind = at + length;
    match kind {
        Kind::Simple(index) => simple(text, at, behind, &SIMPLE[index]),
        Kind::Sk => places::sk(text, at, behind),
        Kind::Slack => places::slack(text, at, behind),
        Kind::SlackApp => places::slack_app(text, at, behind),
        Kind::SlackWebhook => places::slack_webhook(text, behind),
        Kind::SendGrid => places::sendgrid(text, at, behind),
        Kind::Telegram => places::telegram(text, at),
        Kind::Filrouge => places::filrouge(text, at, behind),
        Kind::AwsSecret => header::aws_secret(text, behind),
        Kind::StorageKey => header::storage_key(text, behind),
        Kind::Bearer => header::bearer(text, at, behind),
        Kind::Basic => header::basic(text, at, behind),
        Kind::Url => header::url(text, at, behind),
        Kind::Jwt => jwt::judge(text, at),
        Kind::Pem => pem::judge(text, at, behind),
    }
}

/// A prefix and one run behind it.
fn simple(text: Text<'_>, at: usize, behind: usize, of: &Simple) -> Verdict {
    let Some(start) = at.checked_sub(of.back) else {
        return Verdict::No;
    };
    let prefix = &text.bytes[start..at];
    if !text.begins(start) || !of.before.is_empty() && !of.before.contains(&prefix) {
        return Verdict::No;
    }
    if of.most > of.least {
        return growing(text, start, behind, of.least, of.class, of.shape);
    }
    exact(text, start, behind, of.least, of.class, of.shape)
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

/// All credentials of a text from `from` on in their order, none of them within another; and where the first one
/// would begin that cannot be told yet.
pub(super) fn scan(text: Text<'_>, from: usize) -> (Vec<Found>, Option<usize>) {
    let (mut all, mut pending): (Vec<Found>, Option<usize>) = (Vec::new(), None);
    each(text, |verdict| match verdict {
        Verdict::More(start) if start >= from => {
            pending = Some(pending.map_or(start, |p| p.min(start)));
        }
        Verdict::Found(found) if found.start >= from => all.push(found),
        _ => {}
    });
    // Of those that begin together, the one whose anchor comes first: a header's takes in all that stands in it.
    all.sort_by_key(|f| f.start);
    let mut end = 0;
    all.retain(|found| {
        let apart = found.start >= end;
        if apart {
            end = found.end;
        }
        apart
    });
    (all, pending)
}
