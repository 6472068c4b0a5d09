//! Returns the content that the model no longer sees (`get_compacted_context`): the messages before the last
//! compaction, and the pruned outputs of tools in later messages.
//!
//! Messages that the user reverted are not included, because no compaction dropped them; a notice counts them.

use serde::Serialize;

use super::history::{
    Ask, Bounds, Cursor, Cut, Direction, Paged, Position, ShownMessage, Target, View, is_pruned,
};
use super::list::Row;
use super::{Library, LibraryError, clean, notices};
use crate::{Boundary, Conversation, Message, PartKind};

/// All summaries together may use at most the budget divided by this number.
const SUMMARIES: usize = 4;

/// One compaction.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Compaction {
    /// The time of the compaction, in milliseconds since 1970.
    pub created: i64,
    /// Whether the program started it without a request.
    pub automatic: Option<bool>,
    /// The number of messages it dropped, without those that earlier compactions had dropped.
    pub messages: usize,
    /// The summary that replaces them; only on the first page.
    pub summary: Option<String>,
    /// The id of the message that is the summary.
    #[serde(rename = "summaryMessageID")]
    pub summary_message_id: Option<String>,
    /// The size of the cut-off rest of the summary, and the cursor of `get_session_history` that shows the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
}

/// Dropped messages and outputs, oldest first.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CompactedContext {
    /// The session.
    pub session: Row,
    /// Its compactions in order.
    pub compactions: Vec<Compaction>,
    /// The number of tool outputs pruned after the last compaction.
    pub pruned_outputs: usize,
    /// Messages of this page: those before the last compaction, then those with pruned outputs after it. Each shows
    /// only what was dropped.
    pub messages: Vec<ShownMessage>,
    /// The total number of such messages.
    pub total_messages: usize,
    /// The cursor of the next page; `null` at the end.
    pub next_cursor: Option<String>,
    /// The cursor of the previous page; `null` at the start.
    pub previous_cursor: Option<String>,
    /// Texts about what was left out or cut.
    pub notices: Vec<String>,
}

/// Returns the content that compactions and pruning dropped, one page at a time, within the budget of `ask`.
///
/// # Errors
/// As [`super::history::history`].
pub fn compacted(library: &Library, ask: &Ask) -> Result<CompactedContext, LibraryError> {
    let catalog = library.catalog();
    let target = Target::of(&catalog, ask)?;
    let conversation = library.conversation(target.entry)?;
    let dropped = Dropped::of(&conversation);
    let cursor = target.cursor(&conversation, ask, Paged::Dropped)?;
    let view = View {
        conversation: &conversation,
        list: dropped.list,
        pruned_from: dropped.before,
        options: ask.display_options(),
        paged: Paged::Dropped,
    };
    let budget = Bounds::new(ask.max_chars, ask.limit);
    let (compactions, left) = compactions(&view, ask, budget);
    let page = view.page(cursor, left);
    let mut notices = page.notices;
    if dropped.reverted > 0 {
        let count = dropped.reverted;
        notices.push(format!(
            "messages reverted by the user, not listed here: {count}"
        ));
    }
    if view.list.is_empty() {
        notices
            .push("nothing was dropped: get_session_history shows what the model sees".to_owned());
    }
    notices.extend(notices::of_skipped(&conversation.skipped));
    Ok(CompactedContext {
        session: Row::of(&target.entry.header).masked(ask.mask),
        compactions,
        pruned_outputs: dropped.pruned,
        messages: page.messages,
        total_messages: view.list.len(),
        next_cursor: page.next,
        previous_cursor: page.previous,
        notices,
    })
}

/// The messages and outputs that the model no longer sees.
struct Dropped {
    /// Messages before this index were dropped entirely.
    before: usize,
    /// The indexes of all messages to show: those before `before`, and later ones with pruned outputs.
    list: Vec<usize>,
    /// The number of pruned outputs in the messages from `before` on.
    pruned: usize,
    /// The number of messages that the user reverted.
    reverted: usize,
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
            reverted: all - end,
        }
    }
}

/// The compactions, and the part of the budget that their summaries leave for messages. Only the first page, for which
/// `ask` has no cursor, has summaries.
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
            used += summarize(view, boundary, each, &mut compaction);
        }
        all.push(compaction);
    }
    (all, budget.without(used))
}

/// Adds the first `chars` characters of a compaction's summary to `into`; returns how many were added, 0 if there is no
/// summary.
fn summarize(view: &View<'_>, boundary: &Boundary, chars: usize, into: &mut Compaction) -> usize {
    let Some(id) = boundary.summary_id.as_deref() else {
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
    let text = texts.collect::<Vec<_>>().join("\n\n");
    let text = clean::display_text(&text, view.options.mask);
    let all = text.chars().count();
    let shown = all.min(chars);
    into.cut = (shown < all).then(|| Cut {
        chars: all - shown,
        cursor: Cursor {
            direction: Direction::Forward,
            position: Position::before(index),
        }
        .write(view.conversation, view.options.mask, Paged::History),
        skip: None,
    });
    into.summary = Some(text.chars().take(shown).collect());
    shown
}
