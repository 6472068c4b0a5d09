//! Finds credentials: first anchors, then the text around each of them.
//!
//! Every shape has an anchor: a few bytes that are rare outside credentials. One pass without backtracking finds all
//! anchors. Whether a credential is there is judged only from the [`LOOK_BEHIND`] bytes before an anchor and the
//! [`REACH`] bytes after it, so the time is linear in the length of the text.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, Input, MatchKind};

use super::read::Text;
use super::shape::{ANCHORS, Kind, SIMPLE, Simple};
use super::verdict::{Found, Verdict, exact, growing};
use super::{header, jwt, pem, places};

/// The maximum number of bytes after an anchor that are read to decide whether a credential is there.
pub(super) const REACH: usize = 3072;
/// The maximum number of bytes before an anchor that are read.
pub(super) const LOOK_BEHIND: usize = 768;

static AUTOMATON: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostFirst)
        .build(ANCHORS.iter().map(|(anchor, _)| anchor))
        .ok()
});

/// Calls `see` with the verdict at every anchor. The two shapes of `.` and `K`, which are frequent, come last.
fn each(text: Text<'_>, mut see: impl FnMut(Verdict)) {
    // Building the automaton cannot fail, because the anchors are constants; a test builds it.
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
    let after = at + length;
    match kind {
        Kind::Simple(index) => simple(text, at, after, &SIMPLE[index]),
        Kind::Sk => places::sk(text, at, after),
        Kind::Slack => places::slack(text, at, after),
        Kind::SlackApp => places::slack_app(text, at, after),
        Kind::SlackWebhook => places::slack_webhook(text, after),
        Kind::SendGrid => places::sendgrid(text, at, after),
        Kind::Telegram => places::telegram(text, at),
        Kind::Filrouge => places::filrouge(text, at, after),
        Kind::AwsSecret => header::aws_secret(text, after),
        Kind::StorageKey => header::storage_key(text, after),
        Kind::Bearer => header::bearer(text, at, after),
        Kind::Basic => header::basic(text, at, after),
        Kind::Url => header::url(text, at, after),
        Kind::Jwt => jwt::judge(text, at),
        Kind::Pem => pem::judge(text, at, after),
    }
}

/// The verdict on a shape that consists of a prefix and one run of characters.
fn simple(text: Text<'_>, at: usize, after: usize, rule: &Simple) -> Verdict {
    let Some(start) = at.checked_sub(rule.back) else {
        return Verdict::No;
    };
    let prefix = &text.bytes[start..at];
    if !text.begins(start) || !rule.before.is_empty() && !rule.before.contains(&prefix) {
        return Verdict::No;
    }
    if rule.most > rule.least {
        return growing(text, start, after, rule.least, rule.class, rule.shape);
    }
    exact(text, start, after, rule.least, rule.class, rule.shape)
}

/// The credentials in a text that begin at or after `from`, in order and without overlaps. Also returns the position at
/// which the first undecided credential would begin; `None` if there is none.
pub(super) fn scan(text: Text<'_>, from: usize) -> (Vec<Found>, Option<usize>) {
    let (mut all, mut pending): (Vec<Found>, Option<usize>) = (Vec::new(), None);
    each(text, |verdict| match verdict {
        Verdict::More(start) if start >= from => {
            pending = Some(pending.map_or(start, |p| p.min(start)));
        }
        Verdict::Found(found) if found.start >= from => all.push(found),
        _ => {}
    });
    // The sort is stable, so of finds with the same start, the one with the earlier anchor wins. An example is a JWT
    // after `Bearer`, which counts as a bearer token.
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
