//! `search_sessions`

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use filrouge_search::{Excerpt, Mode, Order, Results, SearchRequest, started_at};
use filrouge_sources::Role;
use filrouge_types::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Count, Program, Tool, row_limit};
use crate::call::Call;
use crate::refusal::Refusal;
use crate::text::{
    Readable, format_time, json_name, origins, quoted_if_needed, with_noun, write_end,
    write_quoted, write_row,
};
use crate::when::When;

pub(super) struct SearchSessions;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SearchArguments {
    /// Words that one message contains, in any order and case; "a phrase"; -word for what it must not contain; or /a regex/ with flags i, m, s, x. Filters may be mixed in: agent:build, -tool:bash, role:user, project:name, on:28-december, before:2025-12-01, after:monday.
    query: String,
    /// Only sessions and messages of this agent.
    agent: Option<String>,
    /// A project's id, name or folder.
    #[serde(rename = "projectID")]
    project_id: Option<String>,
    /// Only messages at this time or later: epoch milliseconds, ISO 8601 such as 2025-12-28, or how long ago such as 7d.
    start_date: Option<When>,
    /// Only messages until this time: epoch milliseconds or ISO 8601; a date includes that day.
    end_date: Option<When>,
    /// The maximum number of sessions; 20 by default.
    limit: Option<Count>,
    /// Only calls of this tool: their arguments, outputs and errors.
    tool: Option<String>,
    /// Only messages of this role.
    #[schemars(with = "Option<String>", extend("enum" = ["user", "assistant", "system"]))]
    role: Option<Role>,
    /// Only sessions of this program.
    source: Option<Program>,
    /// Only this session; "own" means the session you are in.
    #[serde(rename = "sessionID")]
    session_id: Option<String>,
    /// Not this session; "own" means the session you are in.
    exclude_session: Option<String>,
    /// The maximum number of excerpts per session; 5 by default.
    excerpts: Option<Count>,
    /// words (the default): messages with all words; meaning: messages with a similar meaning in other words; both: as one list.
    #[schemars(with = "Option<String>", extend("enum" = ["words", "meaning", "both"]))]
    mode: Option<Mode>,
    /// best (the default) or newest first.
    #[schemars(with = "Option<String>", extend("enum" = ["best", "newest"]))]
    order: Option<Order>,
    /// nextCursor of the previous page.
    cursor: Option<String>,
}

impl Tool for SearchSessions {
    const NAME: &'static str = "search_sessions";
    const TITLE: &'static str = "Search sessions";
    const DESCRIPTION: &'static str = "Searches everything that was said, thought and done in recorded sessions: titles, texts, reasoning, tool arguments, outputs and errors, file names. \
        Returns sessions with excerpts, the hit between « and »; messageID and place lead to get_session_history, whose cursor \"message:ID\" starts there.";
    type Arguments = SearchArguments;
    type Answer = Results;

    fn answer(call: &Call<'_>, arguments: SearchArguments) -> Result<Results, Refusal> {
        let resolve = |id: Option<String>| {
            let resolved = id.map(|id| call.resolve_session(Some(id.as_str())));
            resolved.transpose()
        };
        // On a later page, times such as 7d are counted from the time at which the first page was requested.
        let first_page_at = arguments.cursor.as_deref().and_then(started_at);
        let now = first_page_at.and_then(Timestamp::from_millis);
        let now = now.unwrap_or_else(|| call.now());
        let request = SearchRequest {
            query: arguments.query,
            mode: arguments.mode.unwrap_or_default(),
            order: arguments.order.unwrap_or_default(),
            now: Some(now.as_millis()),
            agent: arguments.agent,
            project_id: arguments.project_id,
            tool: arguments.tool,
            role: arguments.role,
            since: arguments.start_date.map(|when| when.start_ms(now)),
            until: arguments.end_date.map(|when| when.end_ms(now)),
            source: arguments.source.map(|program| program.0),
            exclude_session: resolve(arguments.exclude_session)?,
            session_id: resolve(arguments.session_id)?,
            limit: row_limit("limit", arguments.limit)?,
            excerpts: row_limit("excerpts", arguments.excerpts)?,
            cursor: arguments.cursor,
            mask: true,
            ..SearchRequest::default()
        };
        let stopped = || call.stopped.load(Ordering::Relaxed);
        Ok(call.searcher.search(&request, &stopped)?)
    }
}

impl Readable for Results {
    fn origin(&self) -> String {
        origins(self.sessions.iter().map(|hit| &hit.session))
    }

    fn write(&self, out: &mut String) {
        let shown = self.sessions.len();
        let _ = writeln!(out, "{}, {shown} of them here:", self.totals());
        for hit in &self.sessions {
            let found_by = match hit.matches {
                0 => "by meaning".to_owned(),
                matches => with_noun(matches, "match", "matches"),
            };
            let _ = write!(out, "\n- {found_by} in ");
            write_row(out, &hit.session);
            for excerpt in &hit.excerpts {
                write_excerpt(out, excerpt);
            }
        }
        let next = self.next_cursor.as_deref();
        write_end(out, &self.notices, "More sessions", next);
    }
}

fn write_excerpt(out: &mut String, excerpt: &Excerpt) {
    let _ = write!(out, "{}", excerpt.field);
    if let Some(role) = &excerpt.role {
        let _ = write!(out, " · {}", json_name(role));
    }
    if let Some(tool) = &excerpt.tool {
        let _ = write!(out, " · tool {}", quoted_if_needed(tool));
    }
    if let Some(message) = &excerpt.message_id {
        let _ = write!(out, " · message {}", quoted_if_needed(message));
    }
    if let Some(created) = excerpt.created {
        let _ = write!(out, " · {}", format_time(created));
    }
    out.push_str(":\n");
    write_quoted(out, &excerpt.text);
}
