//! `list_sessions`

use std::fmt::Write as _;

use filrouge_sources::library::list::{DEFAULT_LIMIT, ListRequest, Sessions, list};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{ANSWER_BYTES, Count, Program, Tool, fit, page_chars, row_limit};
use crate::call::Call;
use crate::refusal::Result;
use crate::text::{Readable, origins, quoted_if_needed, with_noun, write_end, write_row};
use crate::when::When;

pub(super) struct ListSessions;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ListArguments {
    /// Part of the title, or a pattern such as *parser*, any case; if no title matches, a project's name.
    session_name: Option<String>,
    /// A project's id, name or folder.
    #[serde(rename = "projectID")]
    project_id: Option<String>,
    /// The maximum number of sessions; 50 by default, at most 500.
    limit: Option<Count>,
    /// Only sessions of this agent; * is any text.
    agent: Option<String>,
    /// Only sessions that this session started.
    #[serde(rename = "parentID")]
    parent_id: Option<String>,
    /// Only sessions that no other session started.
    roots: Option<bool>,
    /// true: only archived sessions; false: only the others.
    archived: Option<bool>,
    /// Only sessions of this program.
    source: Option<Program>,
    /// Only sessions last changed at this time or later: epoch milliseconds, ISO 8601 such as 2025-12-28, or how long ago such as 7d.
    since: Option<When>,
    /// Only sessions last changed until this time: epoch milliseconds or ISO 8601; a date includes that day.
    until: Option<When>,
    /// The order, newest first: by the last change (updated, the default) or by creation (created).
    #[schemars(with = "Option<String>", extend("enum" = ["updated", "created"]))]
    order: Option<ListOrder>,
    /// The maximum number of characters of the answer; 8,000 by default.
    max_chars: Option<Count>,
    /// nextCursor of the previous page, with the same order.
    cursor: Option<String>,
}

/// The order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ListOrder {
    Updated,
    Created,
}

impl Tool for ListSessions {
    const NAME: &'static str = "list_sessions";
    const TITLE: &'static str = "List sessions";
    const DESCRIPTION: &'static str = "Lists recorded sessions of coding agents, the last changed first: id, title, times, agent, project, what started them. \
        Use it to find a session by title, project, agent or time; to find one by what was said, use search_sessions.";
    type Arguments = ListArguments;
    type Answer = Sessions;

    fn answer(call: &Call<'_>, arguments: ListArguments) -> Result<Sessions> {
        let now = call.now();
        let request = ListRequest {
            session_name: arguments.session_name,
            project_id: arguments.project_id,
            agent: arguments.agent,
            parent_id: arguments.parent_id,
            roots: arguments.roots.unwrap_or_default(),
            archived: arguments.archived,
            source: arguments.source.map(|program| program.0),
            since: arguments.since.map(|when| when.start_ms(now)),
            until: arguments.until.map(|when| when.end_ms(now)),
            by_creation: arguments.order == Some(ListOrder::Created),
            limit: 0,
            cursor: arguments.cursor,
            mask: true,
        };
        let limit = match row_limit("limit", arguments.limit)? {
            0 => DEFAULT_LIMIT,
            limit => limit,
        };
        let bytes = page_chars(arguments.max_chars)?.unwrap_or(ANSWER_BYTES);
        let mut sessions = fit(1..=limit, bytes, |limit| {
            let request = ListRequest {
                limit,
                ..request.clone()
            };
            Ok(list(call.library, &request)?)
        })?;
        if sessions.total == 0 {
            let next = "no session matches: leave out a parameter, or call search_sessions to find sessions by what was said";
            sessions.notices.push(next.to_owned());
        }
        Ok(sessions)
    }
}

impl Readable for Sessions {
    fn origin(&self) -> String {
        origins(self.sessions.iter())
    }

    fn write(&self, out: &mut String) {
        let shown = self.sessions.len();
        let total = with_noun(self.total, "session", "sessions");
        let order = match self.by_creation {
            true => "the newest first",
            false => "the last changed first",
        };
        let _ = write!(out, "{shown} of {total}, {order}");
        if let Some(project) = &self.project_id {
            let _ = write!(out, ", all of project {}", quoted_if_needed(project));
        }
        out.push_str(":\n");
        for session in &self.sessions {
            out.push_str("- ");
            write_row(out, session);
        }
        write_end(out, &self.notices, "More", self.next_cursor.as_deref());
    }
}
