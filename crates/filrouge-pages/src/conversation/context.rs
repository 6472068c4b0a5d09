//! `/ui/sessions/{session_id}/context`: what the model was sent, as messages to read, with the report.

use std::collections::BTreeMap;

use axum::extract::State;
use filrouge_engine::caller::may;
use filrouge_engine::restore::{Report, RestoreQuery, Selection};
use filrouge_http::extract::SessionAccess;
use filrouge_http::problem::Problem;
use filrouge_http::response::RouteResult;
use filrouge_store::WorkSize;
use filrouge_transcode::{Format, restore};
use filrouge_types::{ErrorCode, Variant};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::IntoParams;

use super::item::hold;
use super::message;
use crate::Pages;
use crate::layout::page;
use crate::links::session_path;
use crate::visit::Visit;
use crate::words::ConversationWords;

/// The number of messages on a page.
const PAGE_MESSAGES: usize = 50;
/// The maximum number of items that the report names for one reason.
const ITEMS_MAX: usize = 20;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct ContextQuery {
    /// The format of the messages: `openai-chat` by default.
    format: Option<String>,
    /// The language: neutral by default.
    variant: Option<Variant>,
    /// The number of messages after the page, so that the first page has the newest ones.
    #[serde(default)]
    skip: usize,
}

/// Shows the restored context of a session.
pub(crate) async fn show(
    State(pages): State<Pages>,
    visit: Visit,
    access: SessionAccess<may::Read, ContextQuery>,
) -> RouteResult {
    let (caller, id) = (&access.caller, &access.session);
    let format: Format = match access.query.format.as_deref().map(str::parse) {
        None => Format::OpenaiChat,
        Some(Ok(format)) => format,
        Some(Err(unknown)) => {
            return Err(Problem::new(ErrorCode::Invalid, unknown.to_string()));
        }
    };
    let query = RestoreQuery {
        selection: match format {
            Format::Pairs => Selection::Pairs,
            _ => Selection::Messages,
        },
        variant: access.query.variant.unwrap_or_default(),
        ..RestoreQuery::default()
    };
    let permit = pages.work_permit(caller, WorkSize::Large).await?;
    let context = restore(pages.engine(), caller, id, format, query).await?;
    let messages: Vec<&RawValue> = serde_json::from_str(context.messages.as_str())
        .map_err(|error| Problem::new(ErrorCode::Internal, error.to_string()))?;
    let words = ConversationWords::of(visit.language);
    let path = session_path(id);
    let content = html! {
        h1 { (words.context) }
        p { a href=(path) { (words.back) } }
        nav.formats aria-label=(words.format) {
            @for one in Format::ALL {
                a href={ (path) "/context?format=" (one.as_str()) } aria-current=[(one == format).then_some("page")] { (one.as_str()) }
            }
        }
        (report(words, &path, &context.report))
        h2 { (words.messages) }
        (page_of(words, &messages, &format!("{path}/context?format={format}"), access.query.skip))
    };
    hold(permit, page(&visit, words.context, &content)).await
}

/// One page of messages, with the links to the others.
fn page_of(words: &ConversationWords, messages: &[&RawValue], path: &str, skip: usize) -> Markup {
    let end = messages.len().saturating_sub(skip);
    let start = end.saturating_sub(PAGE_MESSAGES);
    html! {
        @if messages.is_empty() { p.empty { (words.no_messages) } }
        @if start > 0 {
            p.more { a href={ (path) "&skip=" (messages.len() - start) } { (words.earlier_messages) " (" (start) ")" } }
        }
        @for (number, raw) in (start + 1..).zip(&messages[start..end]) {
            (message::render(number, &serde_json::from_str(raw.get()).unwrap_or(Value::Null), words))
        }
        @if end < messages.len() {
            p.more { a href={ (path) "&skip=" (skip.saturating_sub(PAGE_MESSAGES)) } { (words.later_messages) } }
        }
    }
}

fn report(words: &ConversationWords, path: &str, report: &Report) -> Markup {
    let window = &report.window;
    let dropped = report.dropped.iter().map(|one| (one.reason, one.seq));
    let adapted = report.adapted.iter().map(|one| (one.change, one.seq));
    let (dropped, adapted) = (by_reason(dropped), by_reason(adapted));
    html! {
        dl.facts {
            div { dt { (words.tokens) } dd { (window.tokens) } }
            div { dt { (words.estimate) } dd { (window.estimate) } }
            div { dt { (words.turns) } dd { (window.turns) } }
            div { dt { (words.kept) } dd { (report.kept) } }
            div { dt { (words.left_out) } dd { (report.dropped.len()) } }
        }
        @if window.cut { p { (words.older_turns_cut) } }
        @if let Some(seq) = window.summary_seq { p { (words.summary_replaces) ": " (item_link(path, seq)) } }
        @if dropped.is_empty() { p { (words.nothing_left_out) } }
        @else { (reasons(words, path, (words.left_out, words.reason), &dropped)) }
        @if !adapted.is_empty() { (reasons(words, path, (words.changed, words.change), &adapted)) }
    }
}

type ByReason = BTreeMap<&'static str, Vec<u64>>;

fn by_reason(items: impl Iterator<Item = (&'static str, u64)>) -> ByReason {
    let mut reasons = ByReason::new();
    for (reason, seq) in items {
        reasons.entry(reason).or_default().push(seq);
    }
    reasons
}

/// A table of reasons, each with its number of items, and links to the first of them.
fn reasons(
    words: &ConversationWords,
    path: &str,
    (title, reason): (&str, &str),
    rows: &ByReason,
) -> Markup {
    html! {
        div.wide {
            table.reasons {
                caption { (title) }
                thead { tr { th scope="col" { (reason) } th scope="col" { (words.count) } th scope="col" { (words.items) } } }
                tbody {
                    @for (name, seqs) in rows {
                        tr {
                            th scope="row" { (name.replace('_', " ")) }
                            td.number { (seqs.len()) }
                            td {
                                @for seq in seqs.iter().take(ITEMS_MAX) { (item_link(path, *seq)) " " }
                                @if seqs.len() > ITEMS_MAX { "…" }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn item_link(path: &str, seq: u64) -> Markup {
    html! { a href={ (path) "?at=" (seq) "#seq-" (seq) } { (seq) } }
}
