//! The thread at the side: a mark for each turn, or for several turns of a long session, and the way to it.

use std::collections::BTreeSet;

use filrouge_engine::{Outline, OutlineTurn};
use filrouge_types::{Lease, Session, TurnStatus};
use maud::{Markup, html};

use crate::links::session_path;
use crate::words::ConversationWords;

/// The maximum number of marks.
const TICKS_MAX: usize = 48;

/// What happened in a turn besides a question and its answer. The order is that in which marks are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    Failed,
    Stopped,
    Open,
    Leased,
    Redacted,
    Summary,
    Checkpoint,
    Replaced,
    Late,
}

impl Mark {
    /// The class, the sign and the name of the mark.
    const fn look(self, words: &ConversationWords) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Failed => ("failed", "!", words.failed),
            Self::Stopped => ("stopped", "‖", words.stopped),
            Self::Open => ("open", "●", words.open),
            Self::Leased => ("leased", "⚿", words.leased),
            Self::Redacted => ("redacted-mark", "▬", words.redacted),
            Self::Summary => ("summary-mark", "Σ", words.summary),
            Self::Checkpoint => ("checkpoint", "◆", words.checkpoint),
            Self::Replaced => ("replaced-mark", "↻", words.replaced),
            Self::Late => ("late", "+", words.late),
        }
    }
}

/// The thread of a session, with its marks.
pub(super) fn with_marks(
    words: &ConversationWords,
    session: &Session,
    outline: &Outline,
    lease: &Lease,
) -> Markup {
    let path = session_path(&session.session_id);
    let leased_seq = lease.holder.as_ref().map(|_| session.last_seq);
    of_turns(words, &path, outline, leased_seq)
}

/// The thread of a conversation at this path. `leased_seq` is the seq at which a lease is in force.
pub(super) fn of_turns(
    words: &ConversationWords,
    path: &str,
    outline: &Outline,
    leased_seq: Option<u64>,
) -> Markup {
    let turns = &outline.turns;
    let per_tick = turns.len().div_ceil(TICKS_MAX).max(1);
    let chunks: Vec<&[OutlineTurn]> = turns.chunks(per_tick).collect();
    let ticks = chunks.iter().enumerate().map(|(at, chunk)| {
        let next = chunks.get(at + 1).and_then(|chunk| chunk.first());
        let end = next.map_or(u64::MAX, |turn| turn.first_seq);
        tick(words, path, chunk, &marks(chunk, end, outline, leased_seq))
    });
    html! {
        nav.thread aria-label=(words.thread) {
            ol { @for tick in ticks { (tick) } }
        }
    }
}

/// The marks of these turns; `end` is the first seq after them.
fn marks(
    turns: &[OutlineTurn],
    end: u64,
    outline: &Outline,
    leased_seq: Option<u64>,
) -> BTreeSet<Mark> {
    let start = turns.first().map_or(0, |turn| turn.first_seq);
    let span = start..end;
    let mut marks = BTreeSet::new();
    for turn in turns {
        marks.extend(match turn.status {
            TurnStatus::Failed => Some(Mark::Failed),
            TurnStatus::Interrupted | TurnStatus::Cancelled => Some(Mark::Stopped),
            TurnStatus::Open => Some(Mark::Open),
            TurnStatus::Finalized => None,
        });
        marks.extend(turn.is_replaced.then_some(Mark::Replaced));
        marks.extend(turn.has_late_items.then_some(Mark::Late));
    }
    let is_redacted = |(first, last): &(u64, u64)| *first < end && *last >= start;
    marks.extend(
        outline
            .redacted
            .iter()
            .any(is_redacted)
            .then_some(Mark::Redacted),
    );
    for (mark, seqs) in [
        (Mark::Summary, &outline.summaries),
        (Mark::Checkpoint, &outline.checkpoints),
    ] {
        marks.extend(seqs.iter().any(|seq| span.contains(seq)).then_some(mark));
    }
    marks.extend(
        leased_seq
            .filter(|seq| span.contains(seq))
            .map(|_| Mark::Leased),
    );
    marks
}

fn tick(
    words: &ConversationWords,
    path: &str,
    turns: &[OutlineTurn],
    marks: &BTreeSet<Mark>,
) -> Markup {
    let (Some(first), Some(last)) = (turns.first(), turns.last()) else {
        return html! {};
    };
    let looks: Vec<_> = marks.iter().map(|mark| mark.look(words)).collect();
    let mut label = format!("{} {}", words.turn, first.ordinal);
    if last.ordinal != first.ordinal {
        label = format!("{label} {} {}", words.to, last.ordinal);
    }
    for (_, _, name) in &looks {
        label = format!("{label}, {name}");
    }
    html! {
        li {
            a href={ (path) "?at=" (first.first_seq) "#seq-" (first.first_seq) } title=(label) aria-label=(label) {
                span.number { (first.ordinal) }
                @for (class, sign, _) in &looks { span class={ "tick-mark " (class) } aria-hidden="true" { (sign) } }
            }
        }
    }
}

/// The thread of a session with very many turns: by position, until scripts load the marks.
pub(super) fn without_marks(words: &ConversationWords, session: &Session) -> Markup {
    let path = session_path(&session.session_id);
    let step = session.last_seq.div_ceil(TICKS_MAX as u64).max(1);
    let seqs = (0..TICKS_MAX as u64).map(|tick| tick * step + 1);
    html! {
        nav.thread aria-label=(words.thread) hx-get={ (path) "/thread" } hx-trigger="load" hx-swap="outerHTML" {
            ol {
                @for seq in seqs.filter(|seq| *seq <= session.last_seq) {
                    li {
                        a href={ (path) "?at=" (seq) "#seq-" (seq) } aria-label={ (words.item) " " (seq) } {
                            span.number { (seq) }
                        }
                    }
                }
            }
        }
    }
}
