//! `/ui/shared/{token}`: what was shared of a conversation, for anybody who has the address.
//!
//! The page has no scripts, links only to its own next part, and may load nothing. Every failure is a page without links
//! too, and the causes of a missing share look the same.

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use filrouge_document::{PartView, Redactions, STYLE, STYLE_HASH, Shown};
use filrouge_engine::Caller;
use filrouge_engine::shares::{OpenedShare, Share};
use filrouge_http::limits::UnreadResponse;
use filrouge_http::problem::Problem;
use filrouge_http::response::text;
use filrouge_store::WorkSize;
use filrouge_types::{Channel, ErrorCode, Failure, Item, TenantId, UNASSIGNED};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::Pages;
use crate::format::time;
use crate::visit::language_of;
use crate::words::{Language, SharedWords};

/// The route of a shared page; it needs no credentials.
pub(crate) const PATH: &str = "/ui/shared/{token}";

/// The maximum number of items in one part.
const PART_ITEMS: usize = 200;

/// A part of what is shared.
struct Part {
    /// The items as HTML.
    html: String,
    /// The seq after which the next part begins; `None` if this is the last part.
    next: Option<u64>,
}

/// Shows a part of what was shared.
pub(crate) async fn show(
    State(pages): State<Pages>,
    token: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response<Body> {
    let language = language_of(&headers);
    let token = token.map(|Path(token)| token).unwrap_or_default();
    let query = query.unwrap_or_default();
    let after = query
        .strip_prefix("after=")
        .and_then(|seq| seq.parse().ok());
    match read(&pages, language, &token, after.unwrap_or(0)).await {
        Ok(page) => respond(StatusCode::OK, page.into()),
        Err(problem) => respond_to_failure(language, &problem.0),
    }
}

/// Opens the share, and builds the page. All visitors together count as one caller, whose share of the server is
/// limited. Addresses of no share are refused before, so that they take nothing of it.
async fn read(
    pages: &Pages,
    language: Language,
    token: &str,
    after: u64,
) -> Result<UnreadResponse, Problem> {
    let limits = pages.limits();
    if !pages.shares.is_known(token).await? {
        limits.check_unknown_share()?;
        let detail = "there is no such share";
        return Err(Problem::new(ErrorCode::SessionNotFound, detail));
    }
    let visitors = Caller::local(TenantId::default_tenant(), None);
    let visitors = visitors.with_name(Some("shares".into()));
    let permit = limits.large_response_permit(&visitors, WorkSize::Large);
    let permit = permit.await?;
    let needs_credentials = pages.authority().requires_credentials();
    let opened = pages.shares.open(token, needs_credentials).await;
    let opened = match opened {
        Err(failure) if failure.code == ErrorCode::SessionNotFound => {
            limits.check_unknown_share()?;
            return Err(failure.into());
        }
        opened => opened?,
    };
    let subject = format!("share\0{}", opened.share.share_id);
    limits.check([None, None, Some(subject.as_str())])?;
    let part = read_part(pages, language, &opened, after).await?;
    let page = shared_page(language, &opened, &part);
    Ok(permit.hold(page.into_string()).await?)
}

/// Renders the shared items after a seq, at most [`PART_ITEMS`].
async fn read_part(
    pages: &Pages,
    language: Language,
    opened: &OpenedShare,
    after: u64,
) -> Result<Part, Problem> {
    let OpenedShare { share, creator, .. } = opened;
    let session = &opened.session.session_id;
    let after = after.max(share.first_seq.saturating_sub(1));
    let page = pages.turns.items(creator, session, after, PART_ITEMS);
    let (mut items, next) = page.await?;
    let end = share.last_seq.unwrap_or(u64::MAX);
    // A link names the owner, whom no share shows.
    let is_shared = |item: &Item| {
        item.seq <= end && item.seq != UNASSIGNED && item.body.channel != Channel::Link
    };
    items.retain(is_shared);
    let last = items.last().map(|item| item.seq);
    let next = last.filter(|last| next.is_some() && *last < end);
    let shown = shown(share);
    shown.reduce_items(&mut items);
    let view = PartView {
        language: language.of_document(),
        max_bytes: usize::MAX,
        ..PartView::default()
    };
    let frame = (&Redactions::from_items(&[]), &view);
    let mut html = String::new();
    for run in items.chunk_by(|a: &Item, b: &Item| a.turn_id == b.turn_id) {
        let written = match run.first().and_then(|item| item.turn_id) {
            Some(id) => {
                let mut turn = pages.turns.get(creator, session, id).await?;
                shown.reduce_turn(&mut turn);
                filrouge_document::html_turn(&turn, run, frame, &mut html)
            }
            None => filrouge_document::html_items(None, run, frame, &mut html),
        };
        written.map_err(|error| Problem::new(ErrorCode::Internal, error.to_string()))?;
    }
    Ok(Part { html, next })
}

const fn shown(share: &Share) -> Shown {
    Shown {
        reasoning: share.reasoning,
        tools: share.tools,
        names: share.names,
    }
}

fn shared_page(language: Language, opened: &OpenedShare, part: &Part) -> Markup {
    let words = SharedWords::of(language);
    let share = &opened.share;
    // A title may be the first question, which a later part does not show.
    let title = match share.first_seq {
        0..=1 => opened.session.title.as_deref(),
        _ => Some(words.part),
    };
    let content = html! {
        header.masthead {
            h1 { bdi { (title.unwrap_or(words.conversation)) } }
            p.meta {
                (words.usable_until) " " (time(share.expires_at)) " UTC."
                @if shown(share) != Shown::ALL { " " (words.reduced) }
            }
        }
        main #conversation {
            @if part.html.is_empty() { p.meta { (words.nothing_here) } }
            (PreEscaped(&part.html))
            @if let Some(next) = part.next { p { a href={ "?after=" (next) } rel="next" { (words.next) } } }
        }
    };
    document(language, words.conversation, &content)
}

/// A document whose only style is that of documents, and that has no scripts.
fn document(language: Language, title: &str, content: &Markup) -> Markup {
    let words = SharedWords::of(language);
    html! {
        (DOCTYPE)
        html lang=(language.tag()) {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                meta name="robots" content="noindex, nofollow, noarchive";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#conversation" { (words.skip_to_content) }
                (content)
            }
        }
    }
}

fn respond_to_failure(language: Language, failure: &Failure) -> Response<Body> {
    let words = SharedWords::of(language);
    let status = failure.code.status();
    let (title, hint) = match failure.code {
        ErrorCode::SessionNotFound => (words.not_found, words.not_found_hint),
        _ => (words.try_again, words.try_again_hint),
    };
    if status >= 500 {
        tracing::warn!(err = failure.code.as_str(), "[SHARES][OPEN] failed");
    }
    let content = html! {
        main #conversation { h1 { (title) } p { (hint) } }
    };
    let page = document(language, title, &content).into_string();
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = respond(status, page.into());
    if failure.code == ErrorCode::RateLimited {
        let seconds = HeaderValue::from_static("1");
        response.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
    response
}

/// Adds the headers of shared pages, which are stricter than those of other pages.
fn respond(status: StatusCode, body: Body) -> Response<Body> {
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{STYLE_HASH}'; img-src data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'"
    );
    let policy = HeaderValue::try_from(policy);
    let policy = policy.unwrap_or(HeaderValue::from_static("default-src 'none'"));
    let headers = [
        (header::CONTENT_SECURITY_POLICY, policy),
        (
            header::REFERRER_POLICY,
            HeaderValue::from_static("no-referrer"),
        ),
    ];
    let robots = [("x-robots-tag", "noindex, nofollow, noarchive")];
    (
        status,
        headers,
        robots,
        text("text/html; charset=utf-8", body),
    )
        .into_response()
}
