//! `/`: the sessions that the caller sees, in the ledger and in the histories of other programs, and a search in them.

mod arrivals;
mod figures;
mod hits;
mod ledger;
mod lists;
mod query;
mod question;
mod rows;

use axum::extract::State;
use filrouge_engine::Caller;
use filrouge_engine::caller::may;
use filrouge_http::extract::TenantAccess;
use filrouge_http::problem::Problem;
use filrouge_http::response::RouteResult;
use filrouge_sources::programs::LEDGER;
use maud::{Markup, html};

use crate::Pages;
use crate::format::program_label;
use crate::layout::page;
use crate::visit::Visit;
use crate::words::{Language, SessionsWords};
pub(crate) use arrivals::{PATH as ARRIVALS_PATH, arrivals};
pub(crate) use figures::{PATH as FIGURES_PATH, figures};
use hits::Hits;
use lists::ListPage;
use query::{ListOrder, ListQuery};
use question::Question;

/// The part of the page below the search box.
enum Content {
    List(ListPage),
    Hits(Hits),
    /// The search is invalid, for this reason.
    Refused(String),
}

/// Lists sessions, or searches them.
pub(crate) async fn list(
    State(pages): State<Pages>,
    visit: Visit,
    access: TenantAccess<may::Read, ListQuery>,
) -> RouteResult {
    let (words, query) = (SessionsWords::of(visit.language), access.query);
    let (content, notice) = match Question::parse(&query, words) {
        Ok(question) => read(&pages, &access.caller, words, &query, question).await?,
        Err(reason) => (Content::Refused(reason), None),
    };
    let shows_owner = access.caller.identity().is_none();
    let is_refused = matches!(content, Content::Refused(_));
    let markup = html! {
        h1 { (words.sessions) }
        (search_form(words, &query, is_refused))
        (tabs(words, &pages, &query))
        (order(words, &query, matches!(content, Content::Hits(_))))
        @if let Some(notice) = notice { (notice) }
        (show(visit.language, &query, &content, shows_owner))
        (keys(words))
    };
    Ok(page(&visit, words.sessions, &markup))
}

/// Reads what the page shows, and builds the place of the notice about new sessions.
async fn read(
    pages: &Pages,
    caller: &Caller,
    words: &SessionsWords,
    query: &ListQuery,
    question: Question,
) -> Result<(Content, Option<Markup>), Problem> {
    if question.needs_search() {
        let hits = hits::search(pages, caller, words, &question, query.cursor.clone()).await?;
        let content = hits.map_or_else(Content::Refused, Content::Hits);
        return Ok((content, None));
    }
    let list = lists::read(pages, caller, &question, query.cursor.as_deref()).await?;
    let notice = match &query.cursor {
        None => arrivals::place(pages, caller, query, &question).await?,
        Some(_) => None,
    };
    Ok((Content::List(list), notice))
}

fn search_form(words: &SessionsWords, query: &ListQuery, is_refused: bool) -> Markup {
    html! {
        form.search role="search" action="/" {
            input type="search" role="searchbox" name="q" value=(query.q) aria-label=(words.search)
                placeholder=(words.search_hint) aria-invalid=[is_refused.then_some("true")]
                aria-describedby=[is_refused.then_some("wrong-search")];
            @if let Some(source) = &query.source { input type="hidden" name="source" value=(source); }
            @if let Some(order) = query.order { input type="hidden" name="order" value=(order.as_str()); }
            button type="submit" { (words.search) }
        }
    }
}

/// The histories beside the ledger, if there are any.
fn tabs(words: &SessionsWords, pages: &Pages, query: &ListQuery) -> Markup {
    let mut names: Vec<&'static str> = Vec::new();
    for source in pages.library().sources() {
        if !names.contains(&source.name()) {
            names.push(source.name());
        }
    }
    let chosen = query.source.as_deref().filter(|name| !name.is_empty());
    let tab = |name: Option<&str>, label: &str| {
        html! {
            a href=(query.address(name, query.order, None)) aria-current=[(name == chosen).then_some("page")] { (label) }
        }
    };
    html! {
        @if !names.is_empty() {
            nav.tabs aria-label=(words.histories) {
                (tab(None, words.all))
                (tab(Some(LEDGER), words.ledger))
                @for name in names { (tab(Some(name), program_label(name))) }
            }
        }
    }
}

/// The links that change the order.
fn order(words: &SessionsWords, query: &ListQuery, has_best: bool) -> Markup {
    let best = has_best.then_some((None, words.best_match));
    let chosen = match has_best {
        true => query.order,
        false => query.order.or(Some(ListOrder::Updated)),
    };
    let by_time = match has_best {
        true => vec![(Some(ListOrder::Updated), words.last_activity)],
        false => vec![
            (Some(ListOrder::Updated), words.last_activity),
            (Some(ListOrder::Created), words.created),
        ],
    };
    let address = |order| query.address(query.source.as_deref(), order, None);
    html! {
        nav.order aria-label=(words.order) {
            span aria-hidden="true" { (words.order) ":" }
            @for (order, label) in best.into_iter().chain(by_time) {
                a href=(address(order)) aria-current=[(order == chosen).then_some("true")] { (label) }
            }
        }
    }
}

fn show(language: Language, query: &ListQuery, content: &Content, shows_owner: bool) -> Markup {
    let words = SessionsWords::of(language);
    match content {
        Content::Refused(reason) => html! {
            p.wrong #wrong-search role="alert" { (words.wrong_search) " " bdi { (reason) } }
        },
        Content::List(list) => html! {
            (damaged(words, list))
            @if list.rows.is_empty() {
                (empty(words, query))
            } @else {
                (rows::table(language, &list.rows, shows_owner, query.order == Some(ListOrder::Created)))
            }
            (older(words, query, list.next.as_deref()))
        },
        Content::Hits(hits) => html! {
            (hits::summary(words, hits))
            @if hits.sessions.is_empty() { (empty(words, query)) } @else { (hits::list(language, hits)) }
            (older(words, query, hits.next.as_deref()))
        },
    }
}

/// The link to the next page. Scripts append its rows to this page, and replace the link by the next one.
fn older(words: &SessionsWords, query: &ListQuery, next: Option<&str>) -> Markup {
    html! {
        p.older #older {
            @if let Some(next) = next {
                @let address = query.next_address(next);
                a #older-link href=(address) hx-get=(address) hx-target="#rows" hx-select="#rows > *"
                    hx-swap="beforeend" hx-select-oob="#older" { (words.older) }
            }
        }
    }
}

fn empty(words: &SessionsWords, query: &ListQuery) -> Markup {
    let is_search = !query.q.trim().is_empty() || query.cursor.is_some();
    let (title, hint) = match is_search {
        true => (words.nothing_found, words.nothing_found_hint),
        false => (words.no_sessions, words.no_sessions_hint),
    };
    html! { section.empty { h2 { (title) } p { (hint) } } }
}

/// The sessions that the list lacks because they are damaged, and notices of other histories.
fn damaged(words: &SessionsWords, list: &ListPage) -> Markup {
    html! {
        @if !list.findings.is_empty() {
            section.findings {
                p { span.pill.bad { (words.damaged) } " " (words.damaged_hint) }
                ul {
                    @for finding in &list.findings {
                        li {
                            @if let Some(id) = &finding.session_id { bdi { (id) } ": " }
                            bdi { (finding.what) }
                        }
                    }
                }
            }
        }
        @for notice in &list.notices { p.meta { bdi { (notice) } } }
    }
}

/// The keys of the page. A script shows the button, because the keys need it.
fn keys(words: &SessionsWords) -> Markup {
    let all = [
        ("/", words.key_search),
        ("j", words.key_next),
        ("k", words.key_previous),
        ("Enter", words.key_open),
        ("?", words.keys),
    ];
    html! {
        button.show-keys #show-keys type="button" aria-haspopup="dialog" hidden { (words.keys) }
        dialog #keys aria-labelledby="keys-title" {
            h2 #keys-title { (words.keys) }
            dl { @for (key, meaning) in all { div { dt { kbd { (key) } } dd { (meaning) } } } }
            form method="dialog" { button type="submit" { (words.close) } }
        }
    }
}
