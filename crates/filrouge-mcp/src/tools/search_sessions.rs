//! `search_sessions`

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use filrouge_search::{Excerpt, Mode, Order, Results, SearchRequest, started_at};
use filrouge_sources::{LibraryError, Role};
use filrouge_types::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{ANSWER_BYTES, Count, Program, Tool, fit, page_chars, row_limit};
use crate::call::Call;
use crate::refusal::Result;
use crate::text::{
    Readable, format_time, json_name, origins, quoted_if_needed, with_noun, write_end,
    write_quoted, write_row,
};
use crate::when::When;

/// The default number of sessions on a page.
const SESSIONS: usize = 20;
/// The default number of excerpts per session.
const EXCERPTS: usize = 2;

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
    /// Not this session. By default not the one you are in, if it is known.
    exclude_session: Option<String>,
    /// true: hits in the session you are in too.
    include_own: Option<bool>,
    /// The maximum number of excerpts per session; 2 by default.
    excerpts: Option<Count>,
    /// The maximum number of characters of the answer; 8,000 by default.
    max_chars: Option<Count>,
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

    fn answer(call: &Call<'_>, arguments: SearchArguments) -> Result<Results> {
        let resolve = |id: &Option<String>| {
            let id = id.as_deref();
            id.map(|id| call.resolve_session(Some(id))).transpose()
        };
        let excluded = resolve(&arguments.exclude_session)?;
        let session_id = resolve(&arguments.session_id)?;
        let all = arguments.include_own.unwrap_or_default();
        let own = match excluded.is_none() && session_id.is_none() && !all {
            true => call.known_own_session(),
            false => None,
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
            exclude_session: excluded.or_else(|| own.clone()),
            session_id,
            excerpts: or_default(row_limit("excerpts", arguments.excerpts)?, EXCERPTS),
            cursor: arguments.cursor,
            mask: true,
            ..SearchRequest::default()
        };
        let limit = or_default(row_limit("limit", arguments.limit)?, SESSIONS);
        let bytes = page_chars(arguments.max_chars)?.unwrap_or(ANSWER_BYTES);
        let without_own = own.is_some();
        let mut results = fit(1..=limit, bytes, |limit| {
            search(call, &request, limit, without_own)
        })?;
        if let Some(own) = own.filter(|_| request.cursor.is_none()) {
            results.notices.push(own_session_notice(&own));
        }
        if results.total_sessions == 0 {
            results.notices.extend(next_steps(&request));
        }
        Ok(results)
    }
}

/// The notice that the caller's own session is left out.
pub(super) fn own_session_notice(own: &str) -> String {
    let own = quoted_if_needed(own);
    format!("your own session {own} is left out; includeOwn true includes it")
}

pub(super) fn or_default(requested: usize, default: usize) -> usize {
    if requested == 0 { default } else { requested }
}

/// Returns the first `limit` hits after the cursor. `without_own`: the request excludes the caller's own session, which
/// it does not name. If that session has become known since the first page, it is not left out of this page, because it
/// was not left out of the first.
pub(super) fn search(
    call: &Call<'_>,
    request: &SearchRequest,
    limit: usize,
    without_own: bool,
) -> Result<Results> {
    let stopped = || call.stopped.load(Ordering::Relaxed);
    let request = SearchRequest {
        limit,
        ..request.clone()
    };
    match call.searcher.search(&request, &stopped) {
        Err(LibraryError::Invalid(_)) if without_own && request.cursor.is_some() => {
            let request = SearchRequest {
                exclude_session: None,
                ..request
            };
            Ok(call.searcher.search(&request, &stopped)?)
        }
        results => Ok(results?),
    }
}

/// What to try after a search without hits.
fn next_steps(request: &SearchRequest) -> Vec<String> {
    let filters = [
        ("agent", request.agent.is_some()),
        ("projectID", request.project_id.is_some()),
        (
            "startDate and endDate",
            request.since.is_some() || request.until.is_some(),
        ),
        ("tool", request.tool.is_some()),
        ("role", request.role.is_some()),
        ("source", request.source.is_some()),
        ("sessionID", request.session_id.is_some()),
    ];
    let given = filters.iter().filter(|(_, is_given)| *is_given);
    let given: Vec<&str> = given.map(|(name, _)| *name).collect();
    let mut steps = Vec::new();
    if !given.is_empty() {
        steps.push(format!("search without {}", given.join(", ")));
    }
    if request.query.split_whitespace().count() > 1 {
        steps.push("search for fewer words: one message must contain all of them".to_owned());
    }
    if request.mode == Mode::Words {
        steps.push(
            "search in mode both, which also finds other words of the same meaning".to_owned(),
        );
    }
    steps.push("call list_sessions to find a session by title, project or time".to_owned());
    let steps = steps
        .into_iter()
        .map(|step| format!("nothing was found; {step}"));
    steps.collect()
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
