//! `get_session_history`

use std::fmt::Write as _;

use filrouge_sources::library::extras::Extras;
use filrouge_sources::library::history::{History, HistoryRequest, history};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Count, Tool, page, row_limit};
use crate::call::Call;
use crate::refusal::Result;
use crate::text::{
    Readable, messages, name_list, origins, quoted, with_noun, write_end, write_quoted, write_row,
};

pub(super) struct GetSessionHistory;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct HistoryArguments {
    /// The session; by default the one you are in, if it is known.
    #[serde(rename = "sessionID")]
    session_id: Option<String>,
    /// nextCursor or previousCursor of a page, the cursor of a text that was cut, or "message:ID" to start at a message.
    cursor: Option<String>,
    /// Begin with the newest page; previousCursor continues with older ones.
    newest_first: Option<bool>,
    /// The maximum number of messages.
    limit: Option<Count>,
    /// The maximum number of characters of text on the page; by default the whole answer has at most 8 kB.
    max_chars: Option<Count>,
    /// false leaves out the outputs of tools.
    tool_output: Option<bool>,
    /// false leaves out the agent's reasoning.
    reasoning: Option<bool>,
    /// false leaves out text that the program inserted.
    synthetic: Option<bool>,
    /// false leaves out messages that the user has reverted.
    reverted: Option<bool>,
}

impl Tool for GetSessionHistory {
    const NAME: &'static str = "get_session_history";
    const TITLE: &'static str = "Read a session";
    const DESCRIPTION: &'static str = "Reads what was said in a session, in order, a page at a time: also what a compaction removed from the context, marked as compacted. \
        Whatever is cut says so and names the cursor to continue.";
    type Arguments = HistoryArguments;
    type Answer = History;

    fn answer(call: &Call<'_>, arguments: HistoryArguments) -> Result<History> {
        let request = HistoryRequest {
            cursor: arguments.cursor,
            newest_first: arguments.newest_first.unwrap_or_default(),
            limit: row_limit("limit", arguments.limit)?,
            tool_output: arguments.tool_output.unwrap_or(true),
            reasoning: arguments.reasoning.unwrap_or(true),
            synthetic: arguments.synthetic.unwrap_or(true),
            reverted: arguments.reverted.unwrap_or(true),
            mask: true,
            ..HistoryRequest::new(call.resolve_session(arguments.session_id.as_deref())?)
        };
        page(arguments.max_chars, |max_chars| {
            let request = HistoryRequest {
                max_chars,
                ..request.clone()
            };
            Ok(history(call.library, &request)?)
        })
    }
}

fn write_extras(out: &mut String, extras: &Extras) {
    if !extras.todos.is_empty() {
        out.push_str("Its to-do list:\n");
    }
    for todo in &extras.todos {
        let status = todo.status.as_deref().unwrap_or("no status");
        write_quoted(out, &format!("[{status}] {}", todo.content));
    }
    if !extras.changed_files.is_empty() {
        out.push_str("Files that it changed, with lines added and deleted:\n");
    }
    for changed in &extras.changed_files {
        let (file, additions, deletions) = (&changed.file, changed.additions, changed.deletions);
        write_quoted(out, &format!("{file} +{additions} -{deletions}"));
    }
    if let Some(url) = &extras.share_url {
        let _ = writeln!(out, "Shared at {}", quoted(url));
    }
}

impl Readable for History {
    fn origin(&self) -> String {
        origins([&self.session].into_iter())
    }

    fn conversation(&self) -> Option<(&str, Option<usize>)> {
        Some((&self.session.id, Some(self.messages.len())))
    }

    fn write(&self, out: &mut String) {
        out.push_str("Session ");
        write_row(out, &self.session);
        let (shown, total) = (self.messages.len(), self.total_messages);
        let total = with_noun(total, "message", "messages");
        let _ = writeln!(out, "{shown} of {total}.");
        if !self.children.is_empty() {
            let _ = writeln!(out, "It has started: {}", name_list(&self.children));
        }
        write_extras(out, &self.extras);
        messages::write_messages(out, &self.messages);
        out.push('\n');
        let (earlier, later) = (&self.previous_cursor, &self.next_cursor);
        write_end(out, &[], "Earlier messages", earlier.as_deref());
        write_end(out, &self.notices, "Later messages", later.as_deref());
    }
}
