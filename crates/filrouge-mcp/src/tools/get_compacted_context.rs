//! `get_compacted_context`

use std::fmt::Write as _;

use filrouge_sources::library::compacted::{CompactedContext, compacted};
use filrouge_sources::library::history::HistoryRequest;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Count, Tool, page, row_limit};
use crate::call::Call;
use crate::refusal::Result;
use crate::text::{
    Readable, format_time, messages, origins, quoted, write_end, write_quoted, write_row,
};

pub(super) struct GetCompactedContext;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ContextArguments {
    /// The session; by default the one you are in, if it is known.
    #[serde(rename = "sessionID")]
    session_id: Option<String>,
    /// nextCursor or previousCursor of a page, or the cursor of a text that was cut.
    cursor: Option<String>,
    /// Begin with the messages that were dropped last.
    newest_first: Option<bool>,
    /// The maximum number of messages.
    limit: Option<Count>,
    /// The maximum number of characters of text on the page; by default the whole answer has at most 8 kB.
    max_chars: Option<Count>,
}

impl Tool for GetCompactedContext {
    const NAME: &'static str = "get_compacted_context";
    const TITLE: &'static str = "Read the compacted context";
    const DESCRIPTION: &'static str = "Returns what you can no longer see of a session: messages that compactions dropped, and tool outputs that were pruned. \
        Call it without parameters after your context was compacted, to read the original words behind the summary.";
    type Arguments = ContextArguments;
    type Answer = CompactedContext;

    fn answer(call: &Call<'_>, arguments: ContextArguments) -> Result<CompactedContext> {
        let request = HistoryRequest {
            cursor: arguments.cursor,
            newest_first: arguments.newest_first.unwrap_or_default(),
            limit: row_limit("limit", arguments.limit)?,
            ..HistoryRequest::new(call.resolve_session(arguments.session_id.as_deref())?)
        };
        page(arguments.max_chars, |max_chars| {
            let request = HistoryRequest {
                max_chars,
                ..request.clone()
            };
            Ok(compacted(call.library, &request)?)
        })
    }
}

impl Readable for CompactedContext {
    fn origin(&self) -> String {
        origins([&self.session].into_iter())
    }

    fn conversation(&self) -> Option<(&str, Option<usize>)> {
        Some((&self.session.id, Some(self.messages.len())))
    }

    fn write(&self, out: &mut String) {
        out.push_str("Session ");
        write_row(out, &self.session);
        if self.compactions.is_empty() && self.pruned_outputs == 0 {
            out.push_str(
                "Nothing of it was compacted or pruned: its model still sees all of it.\n",
            );
        }
        for compaction in &self.compactions {
            let trigger = match compaction.automatic {
                Some(true) => "automatic",
                Some(false) => "on request",
                None => "",
            };
            let (when, messages) = (format_time(compaction.created), compaction.messages);
            let _ = writeln!(
                out,
                "Compaction {when} {trigger}: removed {messages} messages."
            );
            if let Some(summary) = &compaction.summary {
                out.push_str("Its summary:\n");
                write_quoted(out, summary);
            }
            if let Some(cut) = &compaction.cut {
                let (chars, cursor) = (cut.chars, quoted(&cut.cursor));
                let _ = writeln!(
                    out,
                    "… {chars} characters more: get_session_history with cursor {cursor}"
                );
            }
        }
        let (shown, total) = (self.messages.len(), self.total_messages);
        let pruned = self.pruned_outputs;
        let _ = writeln!(
            out,
            "Pruned tool outputs: {pruned}. {shown} of {total} messages with what was dropped:"
        );
        messages::write_messages(out, &self.messages);
        out.push('\n');
        write_end(out, &[], "Before this", self.previous_cursor.as_deref());
        write_end(out, &self.notices, "More", self.next_cursor.as_deref());
    }
}
