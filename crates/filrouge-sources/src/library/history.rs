//! What was said in a session: `get_session_history`, `filrouge sessions show`.
//!
//! Pages both ways, within a budget of characters; whatever is cut says so and names the cursor that goes on. All pages
//! one after the other are the whole conversation, each text once. A message is on one page unless it alone is larger
//! than the budget; so is a part.

mod cursor;
mod lay;
mod page;
mod shape;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use serde::Serialize;

use super::list::Row;
use super::{Catalog, Entry, Library, LibraryError, notices};
use crate::{Changes, Conversation, PartKind, Role, Tokens, ToolStatus};

pub(super) use cursor::{Cursor, Paged, Place, Way};
pub(super) use lay::{Shows, is_pruned};
pub(super) use page::{Bounds, View};

/// The budget when none is given: about 10,000 tokens.
pub const MAX_CHARS: usize = 40_000;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The session; also `sessionID:messageID`, the place of an excerpt.
    pub session_id: String,
    /// Where to go on: `nextCursor` or `previousCursor` of a page, or of something cut. `message:ID` and
    /// `sessionID:messageID` begin with that message (with `newest_first`: end with it).
    pub cursor: Option<String>,
    /// Begin with the newest page and go back.
    pub newest_first: bool,
    /// At most so many messages; 0: as many as the budget takes.
    pub limit: usize,
    /// At most so many characters of text on the page; 0 means [`MAX_CHARS`]. Paths of files are not counted.
    pub max_chars: usize,
    /// What tools gave.
    pub tool_output: bool,
    /// What the agent thought.
    pub reasoning: bool,
    /// What the program put in.
    pub synthetic: bool,
    /// What the user has taken back.
    pub reverted: bool,
    /// Masks what has the form of a credential.
    pub mask: bool,
}

impl Ask {
    /// Everything from the start, masked.
    #[must_use]
    pub fn of(session_id: impl Into<String>) -> Self {
        Self {
            session_id: session_id.into(),
            cursor: None,
            newest_first: false,
            limit: 0,
            max_chars: 0,
            tool_output: true,
            reasoning: true,
            synthetic: true,
            reverted: true,
            mask: true,
        }
    }
}

/// A part as it is shown. Which fields there are depends on `type`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Whether the program put the text in.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub synthetic: bool,
    /// A tool's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The id of a tool call.
    #[serde(rename = "callID", skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// What a tool call came to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ToolStatus>,
    /// A tool's title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// A tool's arguments, JSON as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// What a tool gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// A tool's error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When the program took the output away from the model; it stands here in full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pruned: Option<i64>,
    /// The session a tool call has started.
    #[serde(rename = "childSessionID", skip_serializing_if = "Option::is_none")]
    pub child_session_id: Option<String>,
    /// An attached file's address or name, or the files of a patch.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<i64>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<i64>,
    /// A file's media type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime: Option<String>,
    /// A part of another kind as written, JSON as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<String>,
    /// How many characters of it stand before what is shown here, and the cursor that shows them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Cut>,
    /// How many characters were cut here, and the cursor that shows them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
}

/// A text that was cut: never silently.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Cut {
    /// Characters that are not shown.
    pub chars: usize,
    /// Shows them.
    pub cursor: String,
    /// Leaves them out: goes on behind them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip: Option<String>,
}

/// A message as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ShownMessage {
    /// Its id.
    pub id: String,
    /// Who it is from.
    pub role: Role,
    /// When it was made, milliseconds since 1970.
    pub created: i64,
    /// When it was complete.
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
    /// Whether it is the summary that a compaction made.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub summary: bool,
    /// Whether the model no longer sees it: it is before the last compaction.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub compacted: bool,
    /// Whether a compaction has cut right before it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub boundary: bool,
    /// Whether the user has taken it back.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reverted: bool,
    /// How much of it stands before what is shown here; those parts are on the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Cut>,
    /// How much of it follows on the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
    /// Its parts.
    pub parts: Vec<ShownPart>,
}

/// One page of a conversation, oldest message first.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct History {
    /// The session.
    pub session: Row,
    /// The sessions it has started, in order.
    pub children: Vec<String>,
    /// The messages of this page.
    pub messages: Vec<ShownMessage>,
    /// How many messages there are in all.
    pub total_messages: usize,
    /// What it changed in all, where known.
    pub changes: Option<Changes>,
    /// Goes on behind this page; `null` at the end.
    pub next_cursor: Option<String>,
    /// Goes on before this page; `null` at the start.
    pub previous_cursor: Option<String>,
    /// What was left out or cut, in words.
    pub notices: Vec<String>,
}

/// One page of a conversation.
///
/// # Errors
/// [`LibraryError`]: no such session, a cursor that is none, a session that cannot be read.
pub fn history(library: &Library, ask: &Ask) -> Result<History, LibraryError> {
    let catalog = library.catalog();
    let asked = Asked::of(&catalog, ask)?;
    let conversation = library.conversation(asked.entry)?;
    let hidden = conversation.reverted_at.filter(|_| !ask.reverted);
    let all = conversation.messages.len();
    let view = View {
        conversation: &conversation,
        list: (0..hidden.unwrap_or(all).min(all)).collect(),
        pruned_from: usize::MAX,
        shows: ask.shows(),
        paged: Paged::History,
    };
    let cursor = asked.cursor(&conversation, ask, Paged::History)?;
    let page = view.page(cursor, Bounds::new(ask.max_chars, ask.limit));
    let mut told = page.notices;
    if let Some(at) = hidden {
        let count = all.saturating_sub(at);
        told.push(format!(
            "messages taken back by the user, left out: {count}"
        ));
    }
    told.extend(notices::of_skipped(&conversation.skipped));
    Ok(History {
        session: Row::of(&asked.entry.header).masked(ask.mask),
        children: children(&catalog, asked.entry, &conversation),
        messages: page.messages,
        total_messages: all,
        changes: asked.entry.header.changes,
        next_cursor: page.next,
        previous_cursor: page.previous,
        notices: told,
    })
}

impl Ask {
    pub(super) const fn shows(&self) -> Shows {
        Shows {
            tool_output: self.tool_output,
            reasoning: self.reasoning,
            synthetic: self.synthetic,
            steps: false,
            mask: self.mask,
        }
    }
}

/// The session that is meant, and the message, where the id names one as well.
pub(super) struct Asked<'a> {
    pub(super) entry: &'a Entry,
    place: Option<&'a str>,
}

impl<'a> Asked<'a> {
    pub(super) fn of(catalog: &'a Catalog, ask: &'a Ask) -> Result<Self, LibraryError> {
        let id = ask.session_id.as_str();
        let whole = catalog.get(id);
        if let Ok(entry) = whole {
            return Ok(Self { entry, place: None });
        }
        // Ids may hold colons themselves.
        let parts = id.match_indices(':').filter_map(|(at, _)| id.get(..at));
        let named = parts.filter_map(|part| catalog.get(part).ok()).next();
        let place = Some(id);
        named.map_or(whole.map(|entry| Self { entry, place: None }), |entry| {
            Ok(Self { entry, place })
        })
    }

    /// Where the page begins or ends.
    pub(super) fn cursor(
        &self,
        of: &Conversation,
        ask: &Ask,
        paged: Paged,
    ) -> Result<Cursor, LibraryError> {
        let way = if ask.newest_first { Way::Back } else { Way::On };
        let all = of.messages.len();
        match ask.cursor.as_deref().or(self.place) {
            Some(text) => {
                let id = &self.entry.header.id;
                Cursor::read(text, of, id, ask.mask, (way, paged))
            }
            None => Ok(Cursor {
                way,
                place: Place::before(if ask.newest_first { all } else { 0 }),
            }),
        }
    }
}

/// What a session has started: at its tool calls, then by what the others say themselves. A copied tool call (a fork)
/// names a session that another one has started; it is not among them.
pub(super) fn children(catalog: &Catalog, entry: &Entry, of: &Conversation) -> Vec<String> {
    let id = &*entry.header.id;
    let parts = of.messages.iter().flat_map(|message| &message.parts);
    let called = parts.filter_map(|part| match &part.kind {
        PartKind::Tool(tool) => tool.child.as_deref(),
        _ => None,
    });
    let is_own = |child: &&str| {
        let known = catalog.get(child).ok();
        let parent = known.map(|entry| entry.header.parent_id.as_deref());
        parent.flatten().is_none_or(|parent| parent == id)
    };
    let told = catalog.children(id).map(|entry| &*entry.header.id);
    let mut seen = HashSet::new();
    let all = called.filter(is_own).chain(told);
    all.filter(|child| seen.insert(*child))
        .map(str::to_owned)
        .collect()
}
