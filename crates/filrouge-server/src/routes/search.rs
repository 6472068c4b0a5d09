//! `/api/v1/search`: who said what, in the sessions that the caller sees.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::State;
use filrouge_search::{Ask, Excerpt, Hit, Mode, Order, Results};
use filrouge_sources::{LibraryError, Role};
use filrouge_types::{ErrorCode, SessionId, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::openapi::Schema;
use utoipa::{IntoParams, ToSchema};

use super::busy::done;
use crate::app::App;
use crate::openapi::{Shown, words};
use filrouge_http::access::may;
use filrouge_http::answer::{Answer, json};
use filrouge_http::extract::{InTenant, Limit};
use filrouge_http::problem::Problem;

fn modes() -> Schema {
    words(["words", "meaning", "both"])
}

fn orders() -> Schema {
    words(["best", "newest"])
}

fn roles() -> Schema {
    words(["user", "assistant", "system"])
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchQuery {
    /// Words, `"a phrase"`, `/regex/`, `-without`, `agent:` `tool:` `role:` `project:` `before:` `after:` `on:`. All words
    /// must stand in one message or title.
    #[param(example = "\"you open\" -draft")]
    q: Option<String>,
    /// A regular expression, instead of `q`.
    regex: Option<String>,
    /// A question: finds what was asked alike before, with what was answered. Instead of `q`.
    similar: Option<String>,
    /// By what is looked for.
    #[serde(default)]
    #[param(schema_with = modes)]
    mode: Mode,
    /// Only what this agent has said and done.
    #[param(min_length = 1)]
    agent: Option<String>,
    /// Only sessions of this project.
    #[param(min_length = 1)]
    project_id: Option<String>,
    /// Only calls of this tool.
    #[param(min_length = 1)]
    tool: Option<String>,
    /// Only messages of this role.
    #[param(schema_with = roles)]
    role: Option<Role>,
    /// Only one session: pages go through its matches then.
    session_id: Option<SessionId>,
    /// Only what was said at this moment or later.
    since: Option<Timestamp>,
    /// Only what was said before this moment.
    until: Option<Timestamp>,
    /// What comes first.
    #[serde(default)]
    #[param(schema_with = orders)]
    order: Order,
    /// At most so many sessions.
    #[serde(default)]
    #[param(inline)]
    limit: Limit,
    /// The `next_cursor` of the page before.
    #[param(pattern = r"^search\.")]
    cursor: Option<String>,
}

/// One page of sessions in which something was found.
#[derive(Serialize, ToSchema)]
pub(crate) struct SearchPage {
    /// The sessions.
    data: Vec<SessionFound>,
    /// Goes on behind this page; `null` on the last.
    next_cursor: Option<String>,
    /// How many sessions match on all pages.
    total_sessions: usize,
    /// How many messages and titles match in all.
    total_matches: usize,
    /// Whether the totals were counted; else they are estimated.
    exact: bool,
    /// Everything that was said until then was looked through.
    as_of: Option<Timestamp>,
    /// How the query was understood, and what was left out.
    notices: Vec<String>,
}

/// A session in which something was found.
#[derive(Serialize, ToSchema)]
struct SessionFound {
    /// The session.
    session_id: String,
    /// Its title.
    title: Option<String>,
    /// The session that has started it.
    parent_session_id: Option<String>,
    /// When it was made.
    created_at: Option<Timestamp>,
    /// When it last changed.
    updated_at: Option<Timestamp>,
    /// How many of its messages match; the title counts as one. 0 for what was found by its meaning.
    matches: usize,
    /// Whether that was counted; else it is estimated.
    exact: bool,
    /// The first places.
    excerpts: Vec<PlaceFound>,
}

/// A place where something was found.
#[derive(Serialize, ToSchema)]
struct PlaceFound {
    /// `session_id:seq`; of a title the session's id.
    place: String,
    /// The item; `null` for a title.
    seq: Option<u64>,
    /// Which text it is: `title`, `text`, `reasoning`, `tool_input`, `tool_output`, `tool_error`, `tool`, `file`,
    /// `summary`, `error`, `other`.
    field: String,
    /// Who said it: `user`, `assistant` or `system`.
    #[schema(value_type = Option<String>)]
    role: Option<Role>,
    /// The tool.
    tool: Option<String>,
    /// When it was said.
    created_at: Option<Timestamp>,
    /// Where in the text the hit begins, in characters.
    offset: usize,
    /// What stands around it, the hit between `«` and `»`.
    text: String,
}

/// Finds who said what: words, phrases, regular expressions, or what means the like.
///
/// Words are found in any case and without regard to accents, also within others. What is not the caller's is neither
/// found nor counted. `as_of` tells how new the answer is.
#[utoipa::path(
    get,
    path = "/api/v1/search",
    operation_id = "search",
    tag = "reading",
    params(SearchQuery),
    responses(Shown<SearchPage>)
)]
pub(super) async fn find(State(app): State<App>, at: InTenant<may::Read, SearchQuery>) -> Answer {
    let ask = ask(at.query)?;
    let leave = app.limits().large_answer().await?;
    let searcher = app.search.of_ledger(app.engine(), &at.caller);
    // Who goes away waits for nothing any more.
    let given_up = GivenUp(Arc::default());
    let stopped = given_up.0.clone();
    // The leave is with the work, which lasts a moment longer than whoever goes away.
    let found = tokio::task::spawn_blocking(move || {
        let found = searcher.search(&ask, &|| stopped.load(Ordering::Relaxed));
        (found, leave)
    });
    let (found, _leave) = done(found).await?;
    json(&page(found.map_err(refused)?))
}

/// Set when it is dropped.
struct GivenUp(Arc<AtomicBool>);

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn ask(query: SearchQuery) -> Result<Ask, Problem> {
    let alone = [&query.q, &query.regex, &query.similar];
    if alone.iter().filter(|one| one.is_some()).count() > 1 {
        let text = "q, regex and similar exclude each other";
        return Err(Problem::new(ErrorCode::Invalid, text));
    }
    Ok(Ask {
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
        ..Ask::default()
    })
}

fn refused(error: LibraryError) -> Problem {
    match error {
        LibraryError::NoSession(_) => {
            Problem::new(ErrorCode::SessionNotFound, "there is no such session")
        }
        LibraryError::Invalid(what) => Problem::new(ErrorCode::Invalid, what),
        LibraryError::Unavailable(failure) => failure.into(),
        LibraryError::Unreadable(..) | LibraryError::GivenUp => {
            Problem::new(ErrorCode::Internal, error.to_string())
        }
    }
}

fn page(found: Results) -> SearchPage {
    SearchPage {
        data: found.sessions.into_iter().map(session).collect(),
        next_cursor: found.next_cursor,
        total_sessions: found.total_sessions,
        total_matches: found.total_matches,
        exact: found.exact,
        as_of: found.as_of.and_then(Timestamp::from_millis),
        notices: found.notices,
    }
}

fn session(hit: Hit) -> SessionFound {
    let row = hit.session;
    SessionFound {
        excerpts: hit
            .excerpts
            .into_iter()
            .map(|one| place(&row.id, one))
            .collect(),
        session_id: row.id,
        title: row.title,
        parent_session_id: row.parent_id,
        created_at: Timestamp::from_millis(row.created),
        updated_at: Timestamp::from_millis(row.updated),
        matches: hit.matches,
        exact: hit.exact,
    }
}

fn place(session: &str, excerpt: Excerpt) -> PlaceFound {
    PlaceFound {
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
    }
}
