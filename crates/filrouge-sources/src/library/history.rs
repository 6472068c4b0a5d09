//! The messages of a session: `get_session_history`, `filrouge sessions show`.
//!
//! Pages run in both directions, within a budget of characters. A text that is cut off is reported with its remaining
//! length and the cursor that continues it. All pages together contain the entire conversation, each text once. A
//! message is split over pages only if it alone exceeds the budget, and a part of it only if that part alone exceeds
//! the budget.

mod cursor;
mod layout;
mod page;
mod shape;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use serde::Serialize;

use super::extras::Extras;
use super::list::Row;
use super::{Catalog, Entry, Library, Result, notices};
use crate::{Changes, Conversation, PartKind, Role, Tokens, ToolStatus};

pub(super) use cursor::{Cursor, Direction, PagedContent, Position};
pub(super) use layout::{DisplayOptions, is_pruned};
pub(super) use page::{PageLimits, View};

/// The default budget of a page in characters: about 10,000 tokens.
pub const MAX_CHARS: usize = 40_000;

/// A request for one page of a history.
#[derive(Debug, Clone, Default)]
pub struct HistoryRequest {
    /// The id of the session, or `sessionID:messageID`, as in the `place` of a search result's excerpt.
    pub session_id: String,
    /// The place to continue: `nextCursor` or `previousCursor` of a page, or the cursor of a cut text. `message:ID` and
    /// `sessionID:messageID` begin with that message (with `newest_first`: end with it).
    pub cursor: Option<String>,
    /// Whether to start with the newest page and page backwards.
    pub newest_first: bool,
    /// The maximum number of messages; 0 means as many as the budget allows.
    pub limit: usize,
    /// The maximum number of characters of text on the page; 0 means [`MAX_CHARS`]. File paths are not counted.
    pub max_chars: usize,
    /// Whether to show the outputs of tools.
    pub tool_output: bool,
    /// Whether to show the agent's reasoning.
    pub reasoning: bool,
    /// Whether to show texts that the program injected.
    pub synthetic: bool,
    /// Whether to show messages that the user reverted.
    pub reverted: bool,
    /// Whether to mask anything with the form of a credential.
    pub mask: bool,
}

impl HistoryRequest {
    /// Creates a request for everything from the start, masked.
    pub fn new(session_id: impl Into<String>) -> Self {
        Self {
            session_id: session_id.into(),
            tool_output: true,
            reasoning: true,
            synthetic: true,
            reverted: true,
            mask: true,
            ..Self::default()
        }
    }

    pub(super) const fn display_options(&self) -> DisplayOptions {
        DisplayOptions {
            tool_output: self.tool_output,
            reasoning: self.reasoning,
            synthetic: self.synthetic,
            steps: false,
            mask: self.mask,
        }
    }
}

/// The shown form of a part. Its `type` determines which fields it has.
#[derive(Debug, Clone, Default, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShownPart {
    /// Its id.
    pub id: String,
    /// `text`, `reasoning`, `tool`, `file`, `patch`, `compaction`, or the foreign name.
    #[serde(rename = "type")]
    pub kind: String,
    /// Text, reasoning, or a compaction's summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Whether the program injected the text.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub synthetic: bool,
    /// A tool's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The id of a tool call.
    #[serde(rename = "callID", skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// The state of a tool call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ToolStatus>,
    /// A tool's title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// A tool's arguments, JSON as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// A tool's output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// A tool's error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The time at which the program removed the output from the model's context; the page shows it in full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pruned: Option<i64>,
    /// The session that a tool call started.
    #[serde(rename = "childSessionID", skip_serializing_if = "Option::is_none")]
    pub child_session_id: Option<String>,
    /// An attached file's URL or name, or the files of a patch.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// The time at which the part began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<i64>,
    /// The time at which it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<i64>,
    /// A file's media type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime: Option<String>,
    /// A part of another kind: its JSON as text, as recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<String>,
    /// The number of its characters before those on this page, and the cursor that shows them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Cut>,
    /// The number of characters cut off at the end, and the cursor that shows them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
}

/// A text that was cut off.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cut {
    /// The number of characters that are not shown.
    pub chars: usize,
    /// The cursor that shows them.
    pub cursor: String,
    /// The cursor that continues after them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip: Option<String>,
}

/// The shown form of a message.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShownMessage {
    /// Its id.
    pub id: String,
    /// Its author.
    pub role: Role,
    /// The time of its creation, in milliseconds since 1970.
    pub created: i64,
    /// The time of its completion.
    pub completed: Option<i64>,
    /// The agent.
    pub agent: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The message it answers.
    #[serde(rename = "parentID")]
    pub parent_id: Option<String>,
    /// Its tokens.
    pub tokens: Option<Tokens>,
    /// Its cost in US dollars.
    pub cost: Option<f64>,
    /// The error it ended in.
    pub error: Option<String>,
    /// Whether it is the summary of a compaction.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub summary: bool,
    /// Whether the model no longer sees it: it is before the last compaction.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub compacted: bool,
    /// Whether a compaction boundary is directly before it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub boundary: bool,
    /// Whether the user reverted it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reverted: bool,
    /// The size of its text before this page, and the cursor that shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Cut>,
    /// The size of its text after this page, and the cursor that shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
    /// Its parts.
    pub parts: Vec<ShownPart>,
}

/// One page of a conversation, oldest message first.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct History {
    /// The session.
    pub session: Row,
    /// The sessions that this one started, in order.
    pub children: Vec<String>,
    /// The messages of this page.
    pub messages: Vec<ShownMessage>,
    /// The total number of messages.
    pub total_messages: usize,
    /// All changes that the session made, where they are recorded.
    pub changes: Option<Changes>,
    /// What the session has beside its messages; only on the first page.
    #[serde(flatten)]
    pub extras: Extras,
    /// The cursor of the next page; `null` at the end.
    pub next_cursor: Option<String>,
    /// The cursor of the previous page; `null` at the start.
    pub previous_cursor: Option<String>,
    /// Texts about content that was left out or cut.
    pub notices: Vec<String>,
}

/// Returns one page of a conversation.
///
/// # Errors
/// [`LibraryError`](crate::LibraryError): no such session, an invalid cursor, a session that cannot be read.
pub fn history(library: &Library, request: &HistoryRequest) -> Result<History> {
    let catalog = library.catalog();
    let target = Target::find(&catalog, request)?;
    let conversation = library.conversation(target.entry)?;
    let hidden = conversation.reverted_at.filter(|_| !request.reverted);
    let total = conversation.messages.len();
    let view = View {
        conversation: &conversation,
        list: (0..hidden.unwrap_or(total).min(total)).collect(),
        pruned_from: usize::MAX,
        options: request.display_options(),
        paged: PagedContent::History,
    };
    let cursor = target.cursor(&conversation, request, PagedContent::History)?;
    let page = view.page(cursor, PageLimits::new(request.max_chars, request.limit));
    let mut notices = page.notices;
    if let Some(at) = hidden {
        let count = total.saturating_sub(at);
        notices.push(format!("messages reverted by the user, left out: {count}"));
    }
    let is_first = request.cursor.is_none() && target.message.is_none();
    let extras = is_first.then(|| library.extras(target.entry, request.mask));
    let (extras, mut skipped) = extras.transpose()?.unwrap_or_default();
    skipped.extend_from_slice(&conversation.skipped);
    notices.extend(notices::of_skipped(&skipped));
    Ok(History {
        session: Row::from_header(&target.entry.header).masked(request.mask),
        children: children(&catalog, target.entry, &conversation),
        messages: page.messages,
        total_messages: total,
        changes: target.entry.header.changes,
        extras,
        next_cursor: page.next,
        previous_cursor: page.previous,
        notices,
    })
}

/// The session of a query, and the message if [`HistoryRequest::session_id`] names one too.
pub(super) struct Target<'a> {
    pub(super) entry: &'a Entry,
    /// [`HistoryRequest::session_id`] if it names a message too. It is then used as the cursor if the query has none.
    message: Option<&'a str>,
}

impl<'a> Target<'a> {
    /// Finds the session of a query.
    pub(super) fn find(catalog: &'a Catalog, request: &'a HistoryRequest) -> Result<Self> {
        let id = request.session_id.as_str();
        let found = catalog.get(id).map(|entry| (entry, None));
        let (entry, message) = found.or_else(|why| {
            // Session ids can contain colons, so each prefix that ends at a colon is tried.
            let mut prefixes = id.match_indices(':').filter_map(|(at, _)| id.get(..at));
            let entry = prefixes.find_map(|prefix| catalog.get(prefix).ok());
            entry.map(|entry| (entry, Some(id))).ok_or(why)
        })?;
        Ok(Self { entry, message })
    }

    /// The cursor from which the page extends: that of the query, or else the beginning (with `newest_first`, the end)
    /// of the conversation.
    pub(super) fn cursor(
        &self,
        conversation: &Conversation,
        request: &HistoryRequest,
        paged: PagedContent,
    ) -> Result<Cursor> {
        let direction = if request.newest_first {
            Direction::Backward
        } else {
            Direction::Forward
        };
        let total = conversation.messages.len();
        match request.cursor.as_deref().or(self.message) {
            Some(text) => {
                let id = &self.entry.header.id;
                Cursor::read(text, conversation, id, request.mask, (direction, paged))
            }
            None => Ok(Cursor {
                direction,
                position: Position::before(if request.newest_first { total } else { 0 }),
            }),
        }
    }
}

/// The sessions that this one started: first those that its tool calls name, then those that name it as their parent. A
/// copied tool call (in a fork) names a session that another session started; it is left out.
pub(super) fn children(
    catalog: &Catalog,
    entry: &Entry,
    conversation: &Conversation,
) -> Vec<String> {
    let id = &*entry.header.id;
    let parts = conversation
        .messages
        .iter()
        .flat_map(|message| &message.parts);
    let called = parts.filter_map(|part| match &part.kind {
        PartKind::Tool(tool) => tool.child.as_deref(),
        _ => None,
    });
    let is_own = |child: &&str| {
        let child = catalog.get(child).ok();
        let parent = child.map(|entry| entry.header.parent_id.as_deref());
        parent.flatten().is_none_or(|parent| parent == id)
    };
    let by_parent = catalog.children(id).map(|entry| &*entry.header.id);
    let mut seen = HashSet::new();
    let children = called.filter(is_own).chain(by_parent);
    children
        .filter(|child| seen.insert(*child))
        .map(str::to_owned)
        .collect()
}
