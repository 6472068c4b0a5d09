//! Searches messages and titles, and shows what matches.

use std::sync::atomic::Ordering;

use filrouge_document::role_name;
use filrouge_engine::Caller;
use filrouge_http::problem::Problem;
use filrouge_http::run_blocking;
use filrouge_search::{Excerpt, Hit, Order, SearchRequest, check};
use filrouge_sources::programs::LEDGER;
use filrouge_sources::{LibraryError, Role as Author};
use filrouge_store::WorkSize;
use filrouge_types::{Role, Session, SessionId, Timestamp};
use maud::{Markup, html};

use super::ledger::bad_end;
use super::question::Question;
use crate::Pages;
use crate::failure::of_library;
use crate::format::{number, program_label, time};
use crate::links::{history_path, session_path};
use crate::words::{Language, SessionsWords};

/// The number of sessions on a page of a search.
const PAGE_HITS: usize = 20;
/// The number of excerpts of a session.
const EXCERPTS: usize = 3;

/// One page of a search.
pub(super) struct Hits {
    pub(super) sessions: Vec<Hit>,
    /// The number of matching sessions on all pages, and whether it was counted.
    total: (usize, bool),
    /// How the query was understood, and what was left out.
    notices: Vec<String>,
    /// The cursor of the next page.
    pub(super) next: Option<String>,
}

/// Searches the ledger, as the caller may read it, and the histories of other programs. The inner error is the reason
/// why the search is invalid.
///
/// # Errors
/// `overloaded`, and the ledger's errors.
pub(super) async fn search(
    pages: &Pages,
    caller: &Caller,
    words: &SessionsWords,
    question: &Question,
    cursor: Option<String>,
) -> Result<Result<Hits, String>, Problem> {
    let request = search_request(pages, question, cursor);
    if let Err(invalid) = check(&request) {
        return Ok(Err(words.invalid_query(&invalid)));
    }
    let permit = pages.work_permit(caller, WorkSize::Small).await?;
    let settings = pages.search();
    let searcher = settings.searcher(pages.library().clone(), pages.engine(), caller);
    let searcher = searcher.with_indexes(settings.indexes.clone());
    // The search owns the permit, because it may continue briefly after the caller has disconnected.
    let results = run_blocking(move |stopped| {
        let results = searcher.search(&request, &|| stopped.load(Ordering::Relaxed));
        (results, permit)
    });
    let (results, _permit) = results.await?;
    let results = match results {
        Ok(results) => results,
        Err(LibraryError::NoSession(_)) => return Ok(Err(words.unknown_session.to_owned())),
        // The query is valid, so this is about a cursor.
        Err(LibraryError::Invalid(why)) => return Ok(Err(why)),
        Err(error) => return Err(of_library(error)),
    };
    let mut hits = Hits {
        total: (results.total_sessions, results.exact),
        notices: results.notices,
        next: results.next_cursor,
        sessions: results.sessions,
    };
    if question.is_about_ledger_only() {
        hits.retain(pages, caller, question).await?;
    }
    Ok(Ok(hits))
}

fn search_request(pages: &Pages, question: &Question, cursor: Option<String>) -> SearchRequest {
    let source = match question.is_about_ledger_only() {
        true => Some(LEDGER.to_owned()),
        false => question.source.clone(),
    };
    let has_histories = !pages.library().sources().is_empty();
    SearchRequest {
        query: question.query.clone(),
        order: match question.order {
            Some(_) => Order::Newest,
            None => Order::Best,
        },
        // Histories of other programs are shown masked, as lists of them are.
        mask: has_histories && source.as_deref() != Some(LEDGER),
        source,
        limit: PAGE_HITS,
        excerpts: EXCERPTS,
        cursor,
        ..SearchRequest::default()
    }
}

impl Hits {
    /// Removes sessions of the ledger that do not pass the filters that searches do not have.
    async fn retain(
        &mut self,
        pages: &Pages,
        caller: &Caller,
        question: &Question,
    ) -> Result<(), Problem> {
        let found = std::mem::take(&mut self.sessions);
        for hit in found {
            let Ok(id) = SessionId::new(hit.session.id.clone()) else {
                continue;
            };
            // The session may have been erased since the search.
            let Ok(session) = pages.sessions.get(caller, &id).await else {
                continue;
            };
            let passes = passes(question, &session)
                && (!question.only_failed || bad_end(pages, caller, &id).await?.is_some());
            match passes {
                true => self.sessions.push(hit),
                false => self.total.1 = false,
            }
        }
        Ok(())
    }
}

/// Whether a session has the requested status and owner.
fn passes(question: &Question, session: &Session) -> bool {
    let filter = &question.filter;
    let owner = filter.identity_id.as_ref();
    filter.status.is_none_or(|status| status == session.status)
        && owner.is_none_or(|owner| session.identity_id.as_ref() == Some(owner))
}

/// How many sessions match, and notices.
pub(super) fn summary(words: &SessionsWords, hits: &Hits) -> Markup {
    let (total, is_exact) = hits.total;
    html! {
        p.meta role="status" {
            @if !is_exact { (words.about) " " }
            (number(total as u64)) " "
            @if total == 1 { (words.matching_session) } @else { (words.matching_sessions) }
        }
        @for notice in &hits.notices { p.meta { bdi { (notice) } } }
    }
}

/// The sessions with their excerpts.
pub(super) fn list(language: Language, hits: &Hits) -> Markup {
    html! { ol.hits #rows { @for hit in &hits.sessions { (show(language, hit)) } } }
}

fn show(language: Language, hit: &Hit) -> Markup {
    let words = SessionsWords::of(language);
    let session = &hit.session;
    let is_in_ledger = session.source == LEDGER;
    let path = match is_in_ledger {
        true => session_path(&session.id),
        false => history_path(&session.source, &session.id),
    };
    let project = session
        .project_name
        .as_ref()
        .or(session.project_id.as_ref());
    html! {
        li.row {
            h2 {
                a.open href=(path) { bdi { (session.title.as_deref().unwrap_or(words.untitled)) } }
                @if !is_in_ledger { " " span.pill { (program_label(&session.source)) } }
            }
            p.meta {
                @if let Some(at) = Timestamp::from_millis(session.updated) { (time(at)) }
                @if let Some(agent) = &session.agent { " · " bdi { (agent) } }
                @if let Some(project) = project { " · " bdi { (project) } }
            }
            @if !hit.excerpts.is_empty() {
                ul { @for excerpt in &hit.excerpts { li { (show_excerpt(language, &path, excerpt)) } } }
            }
        }
    }
}

/// A match, as a link to its item.
fn show_excerpt(language: Language, path: &str, excerpt: &Excerpt) -> Markup {
    let address = match excerpt.seq.filter(|_| excerpt.message_id.is_some()) {
        Some(seq) => format!("{path}?at={seq}#seq-{seq}"),
        None => path.to_owned(),
    };
    let speaker = match &excerpt.tool {
        Some(tool) => Some(tool.as_str()),
        None => excerpt.role.map(|author| {
            let role = match author {
                Author::User => Role::User,
                Author::Assistant => Role::Assistant,
                Author::System => Role::System,
            };
            role_name(role, language.of_document())
        }),
    };
    let words = SessionsWords::of(language);
    html! {
        a.excerpt-link href=(address) {
            span.meta { bdi { (speaker.unwrap_or(words.title)) } } " "
            bdi { (marked(excerpt)) }
        }
    }
}

/// The text of an excerpt, with its match highlighted in place of the marks that a search puts around it.
fn marked(excerpt: &Excerpt) -> Markup {
    let text = &excerpt.text;
    let parts = excerpt.marked.as_ref().and_then(|range| {
        let before = text.get(..range.start)?.strip_suffix('«')?;
        let after = text.get(range.end..)?.strip_prefix('»')?;
        Some((before, text.get(range.clone())?, after))
    });
    html! {
        @match parts {
            Some((before, matched, after)) => { (before) mark { (matched) } (after) },
            None => { (text) },
        }
    }
}
