//! Renders the parts of an item.

use filrouge_types::{Item, Role, Timestamp};
use maud::{Markup, html};

use super::forms;
use super::frame::{Frame, ItemContext};
use super::item::{MAX_EXCERPT_CHARS, facts, seq_link};
use super::page::time;
use super::rich::render_markdown;
use super::safe_text::SafeText;
use crate::data::{replace_data_in_json, replace_data_in_string_value};
use crate::json::{decode_string, pretty};
use crate::part::{
    ErrorPart, FilePart, Kind, Part, RedactionPart, ToolCall, ToolResult, nested_parts,
};
use crate::text::one_line;
use crate::turn_entries::AttachedResult;
use crate::{url, words};

pub(super) fn part(part: &Part<'_>, context: ItemContext<'_>) -> Markup {
    html! {
        (render_kind(part, context))
        (further_fields(part, context))
    }
}

/// The fields that this version does not interpret.
fn further_fields(part: &Part<'_>, context: ItemContext<'_>) -> Markup {
    html! {
        @if let Some(rest) = &part.other_members {
            details.rest { summary { (context.say("Further fields")) } (context.listing("json", &pretty(rest))) }
        }
    }
}

fn render_kind(part: &Part<'_>, context: ItemContext<'_>) -> Markup {
    let item = context.item;
    match &part.kind {
        // Tools seldom write Markdown.
        Kind::Text(text) if item.body.role == Role::Tool => forms::output(text, context),
        Kind::Text(text) | Kind::Reasoning(text) => context.limited(text, render_markdown),
        Kind::Code { language, text } => {
            context.listing(language.as_deref().unwrap_or_default(), text)
        }
        Kind::Image { url } => image(url, context),
        Kind::File(shown) => file(shown, context),
        Kind::Link { url, title } => html! {
            p.attached { span.label { (context.say("Link")) } " " (link(context.beginning(title.as_deref().unwrap_or(url)), context.address(url))) }
            @if !context.fits(url) { (context.complete_item(url.len())) }
        },
        Kind::ToolCall(shown) => call(shown, context, html! {}),
        Kind::ToolResult(shown) => tool_result(shown, context, html! {}),
        Kind::Error(shown) => error(shown, context),
        Kind::Refusal(text) => {
            html! { p.label { (context.say("Refused")) } (context.limited(text, render_markdown)) }
        }
        Kind::Redaction(shown) => redaction(shown, item),
        Kind::Status(status) => {
            html! { p.status { (context.say("The turn is now")) ": " bdi { (SafeText(context.frame.say(status))) } } }
        }
        Kind::Other(json) => context.listing("json", &pretty(json)),
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
            html! { bdi { (SafeText(label)) } @if name != label && !name.is_empty() { " (" bdi { (SafeText(&name)) } ")" } }
        }
    }
}

fn image(address: &str, context: ItemContext<'_>) -> Markup {
    html! {
        p.attached {
            @match url::picture(address).filter(|picture| context.fits(picture)) {
                Some(source) => { img src=(source) alt=(context.say("Image of this item")); }
                None => { span.label { (context.say("Image")) } " " (link(context.beginning(&url::label(address)), context.address(address))) }
            }
        }
        @if !context.fits(address) { (context.complete_item(address.len())) }
    }
}

fn file(shown: &FilePart, context: ItemContext<'_>) -> Markup {
    let (media_type, address) = (shown.media_type.as_deref(), shown.url.as_deref());
    let label = shown.label();
    html! {
        p.attached {
            span.label { (context.say("File")) } " " (link(context.beginning(&label), context.address(address.unwrap_or(&label))))
            @if let Some(kind) = shown.type_unless_in_url() { " · " bdi { (SafeText(kind)) } }
        }
        @if let Some(picture) = address.filter(|a| url::picture(a).is_some()) { (image(picture, context)) }
        @if let Some(text) = address.and_then(|a| url::short_text(a, media_type)) { (context.listing("", &text)) }
    }
}

/// A call with its result, folded into one line. `began` is the start of the turn, or `None` outside the turns.
pub(super) fn folded_call(
    (shown, part): (&ToolCall<'_>, &Part<'_>),
    context: ItemContext<'_>,
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
                span.role { (context.say("Tool")) } " " code.name { bdi { (SafeText(context.beginning(&shown.name))) } } " "
                @if failed { span.pill.bad { (context.say("failed")) } " " }
                @if result.is_none() { span.pill { (context.say("no result")) } " " }
                @if let Some(ms) = latency { span.meta { (SafeText(ms)) " ms" } " " }
                span.excerpt dir="ltr" { (SafeText(&one_line(&replace_data_in_json(shown.args.unwrap_or_default()), MAX_EXCERPT_CHARS))) }
            }
            (call(shown, context, facts(context.item, began, context.frame)))
            (further_fields(part, context))
            @if let Some(attached) = result { (result_below(attached, context.frame, began)) }
        }
    }
}

/// A result below its call. If the result's item has no article of its own, this element is the target of `#seq-N`.
fn result_below(
    attached: AttachedResult<'_, '_>,
    frame: Frame<'_>,
    began: Option<Timestamp>,
) -> Markup {
    let id = attached
        .shows_complete_item
        .then(|| frame.item_id(attached.item.seq));
    let context = ItemContext {
        item: attached.item,
        frame,
    };
    html! {
        div.result id=[id] {
            (seq_link(attached.item, frame))
            @if let Kind::ToolResult(shown) = &attached.part.kind {
                (tool_result(shown, context, facts(attached.item, began, frame)))
            }
            (further_fields(attached.part, context))
        }
    }
}

fn call(shown: &ToolCall<'_>, context: ItemContext<'_>, facts: Markup) -> Markup {
    html! {
        p.label { (context.say("Arguments")) (call_id_label(shown.call_id.as_deref(), context)) " " (facts) }
        @if let Some(args) = shown.args { (forms::arguments(args, context)) }
    }
}

fn call_id_label(call_id: Option<&str>, context: ItemContext<'_>) -> Markup {
    html! { @if let Some(id) = call_id { " " span.meta { (context.say("call")) " " bdi { (SafeText(id)) } } } }
}

fn tool_result(shown: &ToolResult<'_>, context: ItemContext<'_>, facts: Markup) -> Markup {
    html! {
        p.label {
            (context.say("Result")) @if shown.ok == Some(false) { " " span.pill.bad { (context.say("failed")) } }
            @if let Some(ms) = shown.latency_ms { " " span.meta { (SafeText(ms)) " ms" } }
            (call_id_label(shown.call_id.as_deref(), context)) " " (facts)
        }
        @if let Some(content) = shown.content { (result_content(content, context)) }
    }
}

fn result_content(content: &str, context: ItemContext<'_>) -> Markup {
    if let Some(parts) = nested_parts(content) {
        return html! { @for inner in &parts { (part(inner, context)) } };
    }
    match decode_string(content) {
        Some(text) => forms::output(&replace_data_in_string_value(&text), context),
        None => context.listing("", &pretty(content)),
    }
}

fn error(shown: &ErrorPart, context: ItemContext<'_>) -> Markup {
    html! {
        p.failure {
            @if let Some(code) = &shown.code { code { bdi { (SafeText(code)) } } " " }
            @if let Some(source) = &shown.source { span.meta { (context.say("source")) " " bdi { (SafeText(source)) } } " " }
            @match shown.retryable {
                Some(true) => { span.meta { (context.say("may be retried")) } }
                Some(false) => { span.meta { (context.say("not to be retried")) } }
                None => {}
            }
        }
        @if let Some(message) = &shown.message { (context.limited(message, plain)) }
    }
}

fn plain(text: &str) -> Markup {
    html! { pre.plain dir="auto" { (SafeText(text)) } }
}
