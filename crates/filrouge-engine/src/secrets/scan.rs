//! Searches a text for credentials: first for anchors, then around each anchor.
//!
//! Every shape has an anchor: a few bytes that are rare outside credentials. One pass without backtracking finds all
//! anchors. The verdict on an anchor depends only on the [`LOOK_BEHIND`] bytes before it and the [`LOOK_AHEAD`] bytes
//! after it, so the time is linear in the length of the text.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, Input, MatchKind};

use super::anchors::{ANCHORS, Rule};
use super::compound;
use super::read::Text;
use super::shape::{SIMPLE_RULES, SimpleRule};
use super::verdict::{CredentialMatch, Verdict, judge_run};

/// The maximum number of bytes after an anchor that are read for its verdict.
pub(super) const LOOK_AHEAD: usize = 3072;
/// The maximum number of bytes before an anchor that are read for its verdict.
pub(super) const LOOK_BEHIND: usize = 768;

static AUTOMATON: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostFirst)
        .build(ANCHORS.iter().map(|(anchor, _)| anchor))
        .ok()
});

/// Calls `handle` with the verdict at every anchor. The two shapes of `.` and `K`, which are frequent, come last.
fn for_each_verdict(text: Text<'_>, mut handle: impl FnMut(Verdict)) {
    // Building the automaton cannot fail, because the anchors are constants; a test builds it.
    let Some(automaton) = AUTOMATON.as_ref() else {
        return;
    };
    let mut at = 0;
    while let Some(hit) = automaton.find(Input::new(text.bytes).span(at..text.len())) {
        let (anchor, rule) = ANCHORS[hit.pattern().as_usize()];
        handle(judge(text, hit.start(), anchor.len(), rule));
        at = hit.start() + 1;
    }
    for at in memchr::memchr2_iter(b'.', b'K', text.bytes) {
        handle(if text.bytes[at] == b'.' {
            compound::discord(text, at)
        } else {
            compound::twilio(text, at)
        });
    }
}

fn judge(text: Text<'_>, at: usize, length: usize, rule: Rule) -> Verdict {
    let after = at + length;
    match rule {
        Rule::Simple(index) => simple(text, at, after, &SIMPLE_RULES[index]),
        Rule::From(_) if !text.can_begin_at(at) => Verdict::NoCredential,
        Rule::From(judge) | Rule::Around(judge) => judge(text, at, after),
    }
}

/// The verdict on a shape that consists of a prefix and one run of characters.
fn simple(text: Text<'_>, at: usize, after: usize, rule: &SimpleRule) -> Verdict {
    let Some(start) = at.checked_sub(rule.prefix_length) else {
        return Verdict::NoCredential;
    };
    let prefix = &text.bytes[start..at];
    if !text.can_begin_at(start) || !rule.prefixes.is_empty() && !rule.prefixes.contains(&prefix) {
        return Verdict::NoCredential;
    }
    judge_run(text, start, after, rule)
}

/// The credentials in a complete text, in ascending order. They do not overlap.
pub(super) fn scan_complete(text: &str) -> Vec<CredentialMatch> {
    let (bytes, complete) = (text.as_bytes(), true);
    scan(Text { bytes, complete }, 0).0
}

/// The credentials in a text that begin at or after `from`, in order and without overlaps. Also returns the position at
/// which the first undecided credential would begin; `None` if there is none.
pub(super) fn scan(text: Text<'_>, from: usize) -> (Vec<CredentialMatch>, Option<usize>) {
    let (mut matches, mut pending): (Vec<CredentialMatch>, Option<usize>) = (Vec::new(), None);
    for_each_verdict(text, |verdict| match verdict {
        Verdict::Undecided(start) if start >= from => {
            pending = Some(pending.map_or(start, |p| p.min(start)));
        }
        Verdict::Credential(found) if found.start >= from => matches.push(found),
        _ => {}
    });
    // The sort is stable, so of matches with the same start, the one with the earlier anchor wins. An example is a JWT
    // after `Bearer`, which counts as a bearer token.
    matches.sort_by_key(|f| f.start);
    let mut end = 0;
    matches.retain(|found| {
        let is_separate = found.start >= end;
        if is_separate {
            end = found.end;
        }
        is_separate
    });
    (matches, pending)
}
