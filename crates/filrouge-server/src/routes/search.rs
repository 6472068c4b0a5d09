//! `/api/v1/search`: who said what, in the sessions that the caller sees.

use std::sync::atomic::Ordering;

use filrouge_search::{Excerpt, Hit, Mode, Order, Results, SearchRequest};
use filrouge_sources::{Library, LibraryError, Role};
use filrouge_store::WorkSize;
use filrouge_types::{ErrorCode, SessionId, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::openapi::Schema;
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::openapi::{StateResponse, enum_schema};
use filrouge_http::access::may;
use filrouge_http::extract::{Limit, TenantAccess};
use filrouge_http::problem::Problem;
use filrouge_http::response::{RouteResult, json};
use filrouge_http::run_blocking;

fn mode_schema() -> Schema {
    enum_schema(["words", "meaning", "both"])
}

fn order_schema() -> Schema {
    enum_schema(["best", "newest"])
}

fn role_schema() -> Schema {
    enum_schema(["user", "assistant", "system"])
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchQuery {
    /// Words, `"a phrase"`, `/regex/`, `-without`, `agent:` `tool:` `role:` `project:` `before:` `after:` `on:`. All words
    /// must be in one message or title.
    #[param(example = "\"you open\" -draft")]
    q: Option<String>,
    /// A regular expression, instead of `q`.
    regex: Option<String>,
    /// A question: finds similar earlier questions with their answers. Instead of `q`.
    similar: Option<String>,
    /// Whether to search by words, by meaning, or both.
    #[serde(default)]
    #[param(schema_with = mode_schema)]
    mode: Mode,
    /// Only items of this agent.
    #[param(min_length = 1)]
    agent: Option<String>,
    /// Only sessions of this project.
    #[param(min_length = 1)]
    project_id: Option<String>,
    /// Only calls of this tool.
    #[param(min_length = 1)]
    tool: Option<String>,
    /// Only messages of this role.
    #[param(schema_with = role_schema)]
    role: Option<Role>,
    /// Only this session: then pages list its matches.
    session_id: Option<SessionId>,
    /// Only messages at this moment or later.
    since: Option<Timestamp>,
    /// Only messages before this moment.
    until: Option<Timestamp>,
    /// The order of results.
    #[serde(default)]
    #[param(schema_with = order_schema)]
    order: Order,
    /// The maximum number of sessions.
    #[serde(default)]
    #[param(inline)]
    limit: Limit,
    /// The `next_cursor` of the previous page.
    #[param(pattern = r"^search\.")]
    cursor: Option<String>,
}

/// A page of matching sessions.
#[derive(Serialize, ToSchema)]
pub(crate) struct SearchPage {
    /// The sessions.
    data: Vec<SearchHit>,
    /// Continues after this page; `null` on the last.
    next_cursor: Option<String>,
    /// The number of matching sessions on all pages.
    total_sessions: usize,
    /// The total number of matching messages and titles.
    total_matches: usize,
    /// Whether the totals were counted. Otherwise they are estimates, or lack sessions that cannot be read.
    exact: bool,
    /// Everything up to this time was searched.
    as_of: Option<Timestamp>,
    /// How the query was interpreted, and what was left out.
    notices: Vec<String>,
}

/// A matching session.
#[derive(Serialize, ToSchema)]
struct SearchHit {
    /// The session.
    session_id: String,
    /// Its title.
    title: Option<String>,
    /// The session that started it.
    parent_session_id: Option<String>,
    /// When it was created.
    created_at: Option<Timestamp>,
    /// When it last changed.
    updated_at: Option<Timestamp>,
    /// The number of its matching messages; the title counts as one. 0 for a match by meaning.
    matches: usize,
    /// Whether `matches` was counted; otherwise it is an estimate.
    exact: bool,
    /// The first matches.
    excerpts: Vec<SearchExcerpt>,
}

/// A match.
#[derive(Serialize, ToSchema)]
struct SearchExcerpt {
    /// `session_id:seq`; for a title, the session's id.
    place: String,
    /// The item; `null` for a title.
    seq: Option<u64>,
    /// The kind of the text: `title`, `text`, `reasoning`, `tool_input`, `tool_output`, `tool_error`, `tool`, `file`,
    /// `summary`, `error`, `other`.
    field: String,
    /// The role of the message: `user`, `assistant` or `system`.
    #[schema(value_type = Option<String>)]
    role: Option<Role>,
    /// The tool.
    tool: Option<String>,
    /// When the message was created.
    created_at: Option<Timestamp>,
    /// The offset of the match in the text, in characters.
    offset: usize,
    /// The surrounding text, with the match between `«` and `»`.
    text: String,
    /// The turn's number in the session; only for questions in a search with `similar`.
    #[serde(skip_serializing_if = "Option::is_none")]
    turn_ordinal: Option<u64>,
    /// How similar the question is, from 0 to 1; only in a search with `similar`, if vectors were compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
}

/// Searches messages and titles: by words, phrases, regular expressions, or meaning.
///
/// Words match in any case, regardless of accents, and within other words. Sessions that the caller may not read are
/// neither found nor counted. `as_of` says how current the result is.
#[utoipa::path(
    get,
    path = "/api/v1/search",
    params(SearchQuery),
    responses(StateResponse<SearchPage>)
)]
pub(super) async fn search(app: App, access: TenantAccess<may::Read, SearchQuery>) -> RouteResult {
    let search_request = search_request(access.query)?;
    let permit = app.work_permit(&access.caller, WorkSize::Small).await?;
    let no_library = Library::new(Vec::new(), 0);
    let searcher = app
        .search
        .searcher(no_library, app.engine(), &access.caller);
    // The search owns the permit, because it may continue briefly after the caller has disconnected.
    let results = run_blocking(move |stopped| {
        let results = searcher.search(&search_request, &|| stopped.load(Ordering::Relaxed));
        (results, permit)
    });
    let (results, _permit) = results.await?;
    json(&to_page(results.map_err(to_problem)?))
}

fn search_request(query: SearchQuery) -> Result<SearchRequest, Problem> {
    let alternatives = [&query.q, &query.regex, &query.similar];
    if alternatives.iter().filter(|value| value.is_some()).count() > 1 {
        let text = "q, regex and similar exclude each other";
        return Err(Problem::new(ErrorCode::Invalid, text));
    }
    Ok(SearchRequest {
        query: query.q.unwrap_or_default(),
        regex: query.regex,
        similar: query.similar,
        mode: query.mode,
        order: query.order,
        agent: query.agent,
        project_id: query.project_id,
        tool: query.tool,
        role: query.role,
        since: query.since.map(Timestamp::as_millis),
        until: query.until.map(Timestamp::as_millis),
        session_id: query.session_id.map(|id| id.to_string()),
        limit: query.limit.into(),
        cursor: query.cursor,
        ..SearchRequest::default()
    })
}

fn to_problem(error: LibraryError) -> Problem {
    match error {
        LibraryError::NoSession(_) => {
            Problem::new(ErrorCode::SessionNotFound, "there is no such session")
        }
        LibraryError::Invalid(what) => Problem::new(ErrorCode::Invalid, what),
        LibraryError::Unavailable(failure) => failure.into(),
        LibraryError::Unreadable(..) | LibraryError::Cancelled => {
            Problem::new(ErrorCode::Internal, error.to_string())
        }
    }
}

fn to_page(results: Results) -> SearchPage {
    SearchPage {
        data: results.sessions.into_iter().map(to_session).collect(),
        next_cursor: results.next_cursor,
        total_sessions: results.total_sessions,
        total_matches: results.total_matches,
        exact: results.exact,
        as_of: results.as_of.and_then(Timestamp::from_millis),
        notices: results.notices,
    }
}

fn to_session(hit: Hit) -> SearchHit {
    let header = hit.session;
    SearchHit {
        excerpts: hit
            .excerpts
            .into_iter()
            .map(|excerpt| to_excerpt(&header.id, excerpt))
            .collect(),
        session_id: header.id,
        title: header.title,
        parent_session_id: header.parent_id,
        created_at: Timestamp::from_millis(header.created),
        updated_at: Timestamp::from_millis(header.updated),
        matches: hit.matches,
        exact: hit.exact,
    }
}

fn to_excerpt(session: &str, excerpt: Excerpt) -> SearchExcerpt {
    SearchExcerpt {
        place: excerpt
            .seq
            .map_or_else(|| session.to_owned(), |seq| format!("{session}:{seq}")),
        seq: excerpt.seq,
        field: excerpt.field,
        role: excerpt.role,
        tool: excerpt.tool,
        created_at: excerpt.created.and_then(Timestamp::from_millis),
        offset: excerpt.offset,
        text: excerpt.text,
        turn_ordinal: excerpt.turn_ordinal,
        score: excerpt.score,
    }
}
