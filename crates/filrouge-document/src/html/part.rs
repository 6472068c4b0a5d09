//! Renders the parts of an item.

use filrouge_types::{Item, Role, Timestamp};
use maud::{Markup, html};

use super::item::{MAX_EXCERPT_CHARS, facts, seq_link};
use super::page::time;
use super::rich::render_markdown;
use super::safe_text::{SafeText, listing};
use crate::data::{replace_data_in_json, replace_data_in_string_value};
use crate::json::{decode_string, format_arguments, pretty};
use crate::part::{
    ErrorPart, FilePart, Kind, Part, RedactionPart, ToolCall, ToolResult, nested_parts,
};
use crate::text::one_line;
use crate::turn_entries::AttachedResult;
use crate::{url, words};

pub(super) fn part(part: &Part<'_>, item: &Item) -> Markup {
    html! {
        (render_kind(part, item))
        (further_fields(part))
    }
}

/// The fields that this version does not interpret.
fn further_fields(part: &Part<'_>) -> Markup {
    html! {
        @if let Some(rest) = &part.other_members {
            details.rest { summary { "Further fields" } (listing("json", &pretty(rest))) }
        }
    }
}

fn render_kind(part: &Part<'_>, item: &Item) -> Markup {
    match &part.kind {
        // Tools seldom write Markdown.
        Kind::Text(text) if item.body.role == Role::Tool => listing("", text),
        Kind::Text(text) | Kind::Reasoning(text) => render_markdown(text),
        Kind::Code { language, text } => listing(language.as_deref().unwrap_or_default(), text),
        Kind::Image { url } => image(url),
        Kind::File(shown) => file(shown),
        Kind::Link { url, title } => html! {
            p.attached { span.label { "Link" } " " (link(title.as_deref().unwrap_or(url), url)) }
        },
        Kind::ToolCall(shown) => call(shown, html! {}),
        Kind::ToolResult(shown) => tool_result(shown, item, html! {}),
        Kind::Error(shown) => error(shown),
        Kind::Refusal(text) => html! { p.label { "Refused" } (render_markdown(text)) },
        Kind::Redaction(shown) => redaction(shown, item),
        Kind::Status(status) => {
            html! { p.status { "The turn is now: " bdi { (SafeText(status)) } } }
        }
        Kind::Other(json) => listing("json", &pretty(json)),
    }
}

/// The sentence about a redaction: its author, items, time and reason.
fn redaction(shown: &RedactionPart, item: &Item) -> Markup {
    html! {
        p {
            @match &shown.by {
                Some(by) => { bdi { (SafeText(by)) } " redacted " }
                None => { "Redacted: " }
            }
            (words::ranges(&shown.seqs))
            @if let Some(id) = &shown.turn_id { " (turn " bdi { (SafeText(id)) } ")" }
            " on " (time(item.created_at))
            @if let Some(reason) = &shown.reason { ": " bdi { (SafeText(reason)) } } @else { "." }
        }
    }
}

/// A link, or only its label and address when the address may not be followed.
fn link(label: &str, address: &str) -> Markup {
    match url::followable(address) {
        Some(target) => html! {
            a href=(SafeText(target)) rel="noopener noreferrer nofollow" { bdi { (SafeText(label)) } }
        },
        None => {
            let name = url::label(address);
            html! { bdi { (SafeText(label)) } @if name != label { " (" bdi { (SafeText(&name)) } ")" } }
        }
    }
}

fn image(address: &str) -> Markup {
    html! {
        p.attached {
            @match url::picture(address) {
                Some(source) => { img src=(source) alt="Image of this item"; }
                None => { span.label { "Image" } " " (link(&url::label(address), address)) }
            }
        }
    }
}

fn file(shown: &FilePart) -> Markup {
    let (media_type, address) = (shown.media_type.as_deref(), shown.url.as_deref());
    let label = shown.label();
    html! {
        p.attached {
            span.label { "File" } " " (link(&label, address.unwrap_or(&label)))
            @if let Some(kind) = shown.type_unless_in_url() { " · " bdi { (SafeText(kind)) } }
        }
        @if let Some(picture) = address.filter(|a| url::picture(a).is_some()) { (image(picture)) }
        @if let Some(text) = address.and_then(|a| url::short_text(a, media_type)) { (listing("", &text)) }
    }
}

/// A call with its result, folded into one line. `shown` is the kind of `part`; `began` is the start of the turn, or
/// `None` outside the turns.
pub(super) fn folded_call(
    shown: &ToolCall<'_>,
    part: &Part<'_>,
    item: &Item,
    began: Option<Timestamp>,
    result: Option<AttachedResult<'_, '_>>,
) -> Markup {
    let (failed, latency) = match result.map(|r| &r.part.kind) {
        Some(Kind::ToolResult(result)) => (result.ok == Some(false), result.latency_ms),
        _ => (false, None),
    };
    html! {
        details.call.failed[failed] {
            summary {
                span.role { "Tool" } " " code.name { bdi { (SafeText(&shown.name)) } } " "
                @if failed { span.pill.bad { "failed" } " " }
                @if result.is_none() { span.pill { "no result" } " " }
                @if let Some(ms) = latency { span.meta { (SafeText(ms)) " ms" } " " }
                span.excerpt dir="ltr" { (SafeText(&one_line(&replace_data_in_json(shown.args.unwrap_or_default()), MAX_EXCERPT_CHARS))) }
            }
            (call(shown, facts(item, began)))
            (further_fields(part))
            @if let Some(attached) = result { (result_below(attached, began)) }
        }
    }
}

/// A result below its call. If the result's item has no article of its own, this element is the target of `#seq-N`.
fn result_below(attached: AttachedResult<'_, '_>, began: Option<Timestamp>) -> Markup {
    let id = attached
        .shows_complete_item
        .then(|| format!("seq-{}", attached.item.seq));
    html! {
        div.result id=[id] {
            (seq_link(attached.item))
            @if let Kind::ToolResult(shown) = &attached.part.kind {
                (tool_result(shown, attached.item, facts(attached.item, began)))
            }
            (further_fields(attached.part))
        }
    }
}

fn call(shown: &ToolCall<'_>, facts: Markup) -> Markup {
    html! {
        p.label { "Arguments" (call_id_label(shown.call_id.as_deref())) " " (facts) }
        @if let Some(args) = shown.args { (listing("", &format_arguments(args))) }
    }
}

fn call_id_label(call_id: Option<&str>) -> Markup {
    html! { @if let Some(id) = call_id { " " span.meta { "call " bdi { (SafeText(id)) } } } }
}

fn tool_result(shown: &ToolResult<'_>, item: &Item, facts: Markup) -> Markup {
    html! {
        p.label {
            "Result" @if shown.ok == Some(false) { " " span.pill.bad { "failed" } }
            @if let Some(ms) = shown.latency_ms { " " span.meta { (SafeText(ms)) " ms" } }
            (call_id_label(shown.call_id.as_deref())) " " (facts)
        }
        @if let Some(content) = shown.content { (result_content(content, item)) }
    }
}

fn result_content(content: &str, item: &Item) -> Markup {
    if let Some(parts) = nested_parts(content) {
        return html! { @for inner in &parts { (part(inner, item)) } };
    }
    match decode_string(content) {
        Some(text) => listing("", &replace_data_in_string_value(&text)),
        None => listing("", &pretty(content)),
    }
}

fn error(shown: &ErrorPart) -> Markup {
    html! {
        p.failure {
            @if let Some(code) = &shown.code { code { bdi { (SafeText(code)) } } " " }
            @if let Some(source) = &shown.source { span.meta { "source " bdi { (SafeText(source)) } } " " }
            @match shown.retryable {
                Some(true) => { span.meta { "may be retried" } }
                Some(false) => { span.meta { "not to be retried" } }
                None => {}
            }
        }
        @if let Some(message) = &shown.message { pre.plain dir="auto" { (SafeText(message)) } }
    }
}
