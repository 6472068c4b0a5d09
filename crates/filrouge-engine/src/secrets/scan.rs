//! Finding credentials: anchors first, then what stands around each of them.
//!
//! Every shape has a few bytes that are rare elsewhere, its anchor. All anchors are looked for at once, without
//! backtracking; only at an anchor is a shape read, and never further than [`REACH`] bytes, so that time is linear in
//! the text.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, Input, MatchKind};

use super::read::Text;
use super::shape::{ANCHORS, Kind, SIMPLE, Simple};
use super::verdict::{Found, Verdict, exact, growing};
use super::{header, jwt, pem, places};

/// No shape looks further ahead from its anchor before it is decided.
pub(super) const REACH: usize = 3072;
/// No shape looks further back.
pub(super) const LOOK_BEHIND: usize = 768;

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
