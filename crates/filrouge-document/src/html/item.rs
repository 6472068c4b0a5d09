//! Renders one item as an HTML `article`.

use filrouge_types::{Channel, Item, Timestamp, Turn};
use maud::{Markup, html};

use super::frame::{Frame, ItemContext};
use super::page::{short_time, time};
use super::part::{folded_call, part};
use super::safe_text::SafeText;
use crate::data::{replace_data, replace_data_in_json};
use crate::part::{Kind, Part};
use crate::text::one_line;
use crate::turn_entries::TurnEntries;
use crate::words;

/// The maximum length of an excerpt in the summary line of a folded block, in characters.
pub(super) const MAX_EXCERPT_CHARS: usize = 100;

/// Renders `item`, the entry at index `at` of `entries`. `turn` is `None` for an item outside the turns.
pub(super) fn render_entry(
    entries: &TurnEntries<'_>,
    at: usize,
    item: &Item,
    turn: Option<&Turn>,
    frame: Frame<'_>,
) -> Markup {
    let label = format!(
        "{} {}: {}, {}",
        frame.say("Item"),
        item.seq,
        frame.say(words::role(item.body.role)),
        frame.say(words::channel(&item.body.channel))
    );
    let variant = words::variant(item, entries.bilingual, turn);
    let body = body(entries, at, item, frame);
    let bookkeeping_types = entries.bookkeeping_types(at);
    // A call has its own summary line. A heading above each call would double the length of a turn with many calls.
    let is_call = |(part, _): (&Part<'_>, _)| matches!(part.kind, Kind::ToolCall(_));
    let has_only_calls = !item.redacted && entries.parts_of(at).all(is_call);
    let class = format!(
        "item {} by-{}",
        class(&item.body.channel),
        item.body.role.as_str()
    );
    html! {
        article class=(class) id=(frame.item_id(item.seq)) aria-label=(SafeText(&label)) {
            @if item.body.channel == Channel::ToolCall && has_only_calls {
                (body)
            } @else if is_folded(entries, at, item) {
                details.bookkeeping[bookkeeping_types.is_some()] {
                    summary {
                        (heading(item, variant, entries.began, frame))
                        @match &bookkeeping_types {
                            Some(types) => { bdi { (SafeText(&one_line(&types.join(", "), MAX_EXCERPT_CHARS))) } }
                            None => { span.excerpt dir="auto" { (SafeText(&excerpt(entries, at))) } }
                        }
                    }
                    (body)
                }
            } @else {
                header { (heading(item, variant, entries.began, frame)) }
                (body)
            }
            (seq_link(item, frame))
        }
    }
}

/// The item's number, as a link to the item.
pub(super) fn seq_link(item: &Item, frame: Frame<'_>) -> Markup {
    html! { a.seq href=(frame.item_link(item.seq)) aria-label={ (frame.say("Link to item")) " " (item.seq) } { (item.seq) } }
}

fn heading(
    item: &Item,
    variant: Option<&str>,
    began: Option<Timestamp>,
    frame: Frame<'_>,
) -> Markup {
    html! {
        span.role { (frame.say(words::role(item.body.role))) } " "
        span.channel { bdi { (SafeText(frame.say(words::channel(&item.body.channel)))) } } " "
        @if let Some(variant) = variant { span.pill { (frame.say(variant)) } " " }
        (facts(item, began, frame)) " "
    }
}

/// The line with the time, agent, model and usage.
pub(super) fn facts(item: &Item, began: Option<Timestamp>, frame: Frame<'_>) -> Markup {
    let named = [
        (frame.say("agent"), &item.body.agent),
        (frame.say("model"), &item.body.model),
    ];
    html! {
        span.meta {
            (short_time(item.when(), began))
            @for (name, value) in named {
                @if let Some(value) = value { " · " (name) " " bdi { (SafeText(value)) } }
            }
            @if let Some(usage) = words::usage(item) { " · " bdi { (SafeText(&usage)) } }
        }
    }
}

fn body(entries: &TurnEntries<'_>, at: usize, item: &Item, frame: Frame<'_>) -> Markup {
    let context = ItemContext { item, frame };
    html! {
        div.body {
            @if item.redacted { (redacted(item, frame)) }
            @for (shown, result) in entries.parts_of(at) {
                @if let Kind::ToolCall(call) = &shown.kind { (folded_call((call, shown), context, entries.began, result)) }
                @else { (part(shown, context)) }
            }
        }
    }
}

fn redacted(item: &Item, frame: Frame<'_>) -> Markup {
    let redaction = frame.redactions.covering(item.seq);
    html! {
        p.redacted {
            strong { (frame.say("Redacted")) }
            @if let Some(redaction) = redaction {
                " " (frame.say("on")) " " (time(redaction.at))
                " (" a href=(frame.item_link(redaction.seq)) { (frame.say("item")) " " (redaction.seq) } ")"
                @if let Some(reason) = &redaction.reason { ": " bdi { (SafeText(reason)) } }
            }
        }
    }
}

/// Whether an item is folded at first; the reader can open it.
fn is_folded(entries: &TurnEntries<'_>, at: usize, item: &Item) -> bool {
    let is_unknown = |(p, _): (&Part<'_>, _)| matches!(p.kind, Kind::Other(_));
    match item.body.channel {
        _ if item.redacted => false,
        Channel::Thought | Channel::Plan | Channel::ToolResult => true,
        Channel::SystemNote => entries.parts_of(at).any(is_unknown),
        _ => false,
    }
}

/// The excerpt in the summary line of a folded item: the beginning of its first part that has text or JSON.
fn excerpt(entries: &TurnEntries<'_>, at: usize) -> String {
    let text = entries.parts_of(at).find_map(|(p, _)| match &p.kind {
        Kind::Text(text) | Kind::Reasoning(text) | Kind::Code { text, .. } => {
            Some(replace_data(text))
        }
        Kind::ToolResult(result) => result.content.map(replace_data_in_json),
        Kind::Other(json) => Some(replace_data_in_json(json)),
        _ => None,
    });
    one_line(&text.unwrap_or_default(), MAX_EXCERPT_CHARS)
}

const fn class(channel: &Channel) -> &'static str {
    match channel {
        Channel::Question => "question",
        Channel::Final => "answer",
        Channel::Partial => "partial",
        Channel::Plan | Channel::Thought => "thought",
        Channel::Observation => "observation",
        Channel::ToolCall | Channel::ToolResult => "tool",
        Channel::Error => "error",
        Channel::HitlRequest | Channel::HitlResponse => "human",
        Channel::Summary => "summary",
        Channel::Interrupted | Channel::Cancelled => "stop",
        Channel::SystemNote | Channel::Link | Channel::Redaction => "note",
        Channel::Other(_) => "other",
    }
}
