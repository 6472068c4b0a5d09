//! Returns the content that the model no longer sees (`get_compacted_context`): the messages before the last
//! compaction, and the pruned outputs of tools in later messages.
//!
//! Messages that the user reverted are not included, because no compaction dropped them; a notice counts them.

use serde::Serialize;

use super::history::{
    Cursor, Cut, Direction, HistoryRequest, PageLimits, PagedContent, Position, ShownMessage,
    Target, View, is_pruned,
};
use super::list::Row;
use super::{Library, Result, clean, notices};
use crate::{Boundary, Conversation, Message, PartKind};

/// All summaries together may use at most the budget divided by this number.
const SUMMARY_SHARE: usize = 4;

/// One compaction.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
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

/// Returns the content that compactions and pruning dropped, one page at a time, within the budget of `request`.
///
/// # Errors
/// As [`super::history::history`].
pub fn compacted(library: &Library, request: &HistoryRequest) -> Result<CompactedContext> {
    let catalog = library.catalog();
    let target = Target::find(&catalog, request)?;
    let conversation = library.conversation(target.entry)?;
    let dropped = Dropped::find(&conversation);
    let cursor = target.cursor(&conversation, request, PagedContent::Dropped)?;
    let view = View {
        conversation: &conversation,
        list: dropped.list,
        pruned_from: dropped.before,
        options: request.display_options(),
        paged: PagedContent::Dropped,
    };
    let budget = PageLimits::new(request.max_chars, request.limit);
    let (compactions, remaining_budget) = compactions(&view, request, budget);
    let page = view.page(cursor, remaining_budget);
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
        session: Row::from_header(&target.entry.header).masked(request.mask),
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
    fn find(conversation: &Conversation) -> Self {
        let total = conversation.messages.len();
        let end = conversation.reverted_at.unwrap_or(total).min(total);
        let before = conversation.boundaries.iter().map(|b| b.at).max();
        let before = before.unwrap_or(0).min(end);
        let pruned_outputs = |m: &Message| m.parts.iter().filter(|part| is_pruned(part)).count();
        let (mut list, mut pruned): (Vec<usize>, usize) = ((0..before).collect(), 0);
        let kept = conversation.messages.iter().enumerate().take(end);
        for (index, message) in kept.skip(before) {
            let outputs = pruned_outputs(message);
            pruned += outputs;
            if outputs > 0 {
                list.push(index);
            }
        }
        Self {
            before,
            list,
            pruned,
            reverted: total - end,
        }
    }
}

/// The compactions, and the part of the budget that their summaries leave for messages. Only the first page, for which
/// `request` has no cursor, has summaries.
fn compactions(
    view: &View<'_>,
    request: &HistoryRequest,
    budget: PageLimits,
) -> (Vec<Compaction>, PageLimits) {
    let boundaries = &view.conversation.boundaries;
    let chars_per_summary = match request.cursor {
        None => budget.chars / SUMMARY_SHARE / boundaries.len().max(1),
        Some(_) => 0,
    };
    let (mut previous_end, mut used, mut compactions) = (0, 0, Vec::new());
    for boundary in boundaries {
        let mut compaction = Compaction {
            created: boundary.created,
            automatic: boundary.automatic,
            messages: boundary.at.saturating_sub(previous_end),
            summary: None,
            summary_message_id: boundary.summary_id.as_deref().map(str::to_owned),
            cut: None,
        };
        previous_end = previous_end.max(boundary.at);
        if chars_per_summary > 0 {
            used += summarize(view, boundary, chars_per_summary, &mut compaction);
        }
        compactions.push(compaction);
    }
    (compactions, budget.without(used))
}

/// Adds the first `chars` characters of a compaction's summary to `compaction`. Returns how many were added; 0 if there
/// is no summary.
fn summarize(
    view: &View<'_>,
    boundary: &Boundary,
    chars: usize,
    compaction: &mut Compaction,
) -> usize {
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
    let length = text.chars().count();
    let shown = length.min(chars);
    compaction.cut = (shown < length).then(|| Cut {
        chars: length - shown,
        cursor: Cursor {
            direction: Direction::Forward,
            position: Position::before(index),
        }
        .write(view.conversation, view.options.mask, PagedContent::History),
        skip: None,
    });
    compaction.summary = Some(text.chars().take(shown).collect());
    shown
}
