//! What the model no longer sees: messages before the last compaction, and outputs that were pruned behind it:
//! `get_compacted_context`.
//!
//! Messages that the user has taken back were not dropped by a compaction; they are counted in a notice.

use serde::Serialize;

use super::history::{
    Ask, Asked, Bounds, Cursor, Cut, Paged, Place, ShownMessage, View, Way, is_pruned,
};
use super::list::Row;
use super::{Library, LibraryError, clean, notices};
use crate::{Boundary, Conversation, Message, PartKind};

/// The share of the budget that summaries may take.
const SUMMARIES: usize = 4;

/// One compaction.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Compaction {
    /// When, milliseconds since 1970.
    pub created: i64,
    /// By the program itself, not asked for.
    pub automatic: Option<bool>,
    /// How many messages it took away from the model, those of earlier ones not counted again.
    pub messages: usize,
    /// The summary that stands for them; only on the first page.
    pub summary: Option<String>,
    /// The message that is the summary.
    #[serde(rename = "summaryMessageID")]
    pub summary_message_id: Option<String>,
    /// How much of the summary is cut, and the cursor of `get_session_history` that shows the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
}

/// What was dropped, oldest first.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CompactedContext {
    /// The session.
    pub session: Row,
    /// Its compactions in order.
    pub compactions: Vec<Compaction>,
    /// Outputs of tools that were pruned after the last compaction.
    pub pruned_outputs: usize,
    /// Messages of this page: those before the last compaction, then those with pruned outputs behind it, each with
    /// what was dropped alone.
    pub messages: Vec<ShownMessage>,
    /// How many such messages there are in all.
    pub total_messages: usize,
    /// Goes on behind this page; `null` at the end.
    pub next_cursor: Option<String>,
    /// Goes on before this page; `null` at the start.
    pub previous_cursor: Option<String>,
    /// What was left out or cut, in words.
    pub notices: Vec<String>,
}

/// What compactions and pruning dropped, a page at a time within the budget of `ask`.
///
/// # Errors
/// As [`super::history::history`].
pub fn compacted(library: &Library, ask: &Ask) -> Result<CompactedContext, LibraryError> {
    let catalog = library.catalog();
    let asked = Asked::of(&catalog, ask)?;
    let conversation = library.conversation(asked.entry)?;
    let dropped = Dropped::of(&conversation);
    let cursor = asked.cursor(&conversation, ask, Paged::Dropped)?;
    let view = View {
        conversation: &conversation,
        list: dropped.list,
        pruned_from: dropped.before,
        shows: ask.shows(),
        paged: Paged::Dropped,
    };
    let budget = Bounds::new(ask.max_chars, ask.limit);
    let (compactions, left) = compactions(&view, ask, budget);
    let page = view.page(cursor, left);
    let mut told = page.notices;
    if dropped.taken_back > 0 {
        let count = dropped.taken_back;
        told.push(format!(
            "messages taken back by the user, not among these: {count}"
        ));
    }
    if view.list.is_empty() {
        told.push("nothing was dropped: get_session_history shows what the model sees".to_owned());
    }
    told.extend(notices::of_skipped(&conversation.skipped));
    Ok(CompactedContext {
        session: Row::of(&asked.entry.header).masked(ask.mask),
        compactions,
        pruned_outputs: dropped.pruned,
        messages: page.messages,
        total_messages: view.list.len(),
        next_cursor: page.next,
        previous_cursor: page.previous,
        notices: told,
    })
}

/// What the model no longer sees.
struct Dropped {
    /// Messages before this index, whole.
    before: usize,
    /// The indexes of all messages of which something was dropped.
    list: Vec<usize>,
    /// Outputs pruned in messages from `before` on.
    pruned: usize,
    /// Messages the user has taken back.
    taken_back: usize,
}

impl Dropped {
    fn of(conversation: &Conversation) -> Self {
        let all = conversation.messages.len();
        let end = conversation.reverted_at.unwrap_or(all).min(all);
        let before = conversation.boundaries.iter().map(|b| b.at).max();
        let before = before.unwrap_or(0).min(end);
        let count = |m: &Message| m.parts.iter().filter(|part| is_pruned(part)).count();
        let (mut list, mut pruned): (Vec<usize>, usize) = ((0..before).collect(), 0);
        let rest = conversation.messages.iter().enumerate().take(end);
        for (index, message) in rest.skip(before) {
            let outputs = count(message);
            pruned += outputs;
            if outputs > 0 {
                list.push(index);
            }
        }
        Self {
            before,
            list,
            pruned,
            taken_back: all - end,
        }
    }
}

/// The compactions, and what of the budget their summaries leave. Later pages are without summaries.
fn compactions(view: &View<'_>, ask: &Ask, budget: Bounds) -> (Vec<Compaction>, Bounds) {
    let boundaries = &view.conversation.boundaries;
    let each = budget.chars() / SUMMARIES / boundaries.len().max(1);
    let each = if ask.cursor.is_none() { each } else { 0 };
    let (mut last, mut used, mut all) = (0, 0, Vec::new());
    for boundary in boundaries {
        let mut compaction = Compaction {
            created: boundary.created,
            automatic: boundary.automatic,
            messages: boundary.at.saturating_sub(last),
            summary: None,
            summary_message_id: boundary.summary_id.as_deref().map(str::to_owned),
            cut: None,
        };
        last = last.max(boundary.at);
        if each > 0 {
            used += summarise(view, boundary, each, &mut compaction);
        }
        all.push(compaction);
    }
    (all, budget.without(used))
}

/// Adds the summary of a compaction, at most `chars` of it; gives how many they are.
fn summarise(view: &View<'_>, of: &Boundary, chars: usize, into: &mut Compaction) -> usize {
    let Some(id) = of.summary_id.as_deref() else {
        return 0;
    };
    let messages = &view.conversation.messages;
    let Some(index) = messages.iter().position(|m| &*m.id == id) else {
        return 0;
    };
    let texts = messages.get(index).into_iter().flat_map(|m| &m.parts);
    let texts = texts.filter_map(|part| match &part.kind {
        PartKind::Text { text, .. } => Some(&**text),
        PartKind::Compaction { summary, .. } => summary.as_deref(),
        _ => None,
    });
    let whole = texts.collect::<Vec<_>>().join("\n\n");
    let whole = clean::word(&whole, view.shows.mask);
    let all = whole.chars().count();
    let shown = all.min(chars);
    into.cut = (shown < all).then(|| Cut {
        chars: all - shown,
        cursor: Cursor {
            way: Way::On,
            place: Place::before(index),
        }
        .write(view.conversation, view.shows.mask, Paged::History),
        skip: None,
    });
    into.summary = Some(whole.chars().take(shown).collect());
    shown
}
