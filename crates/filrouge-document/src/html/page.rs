//! Renders the page around the items: head, facts, contents, headings of turns.

use std::fmt;

use filrouge_types::{Item, Session, Timestamp, Turn, TurnId};
use maud::{Markup, PreEscaped, Render, html};

use super::frame::Frame;
use super::safe_text::SafeText;
use crate::text::one_line;
use crate::words;

/// The only style sheet of the HTML document.
pub const STYLE: &str = include_str!("style.css");

/// The SHA-256 of [`STYLE`] in base64; the content security policy of a page with this style allows only it.
pub const STYLE_HASH: &str = "PtOhSFx/CLrpJOhPsKy42324pDc6j5W3xhQj2tmPtuY=";

/// The maximum length of a question in the list of contents, in characters.
const MAX_QUESTION_CHARS: usize = 90;

pub(super) fn head(session: &Session) -> Markup {
    let policy = format!(
        "default-src 'none'; img-src data:; style-src 'sha256-{STYLE_HASH}'; base-uri 'none'; form-action 'none'"
    );
    html! {
        meta charset="utf-8";
        meta http-equiv="Content-Security-Policy" content=(policy);
        meta name="referrer" content="no-referrer";
        meta name="viewport" content="width=device-width, initial-scale=1";
        meta name="color-scheme" content="light dark";
        meta name="generator" content="filrouge";
        title { (SafeText(&one_line(words::title(session), 200))) }
        style { (PreEscaped(STYLE)) }
    }
}

pub(super) fn masthead(session: &Session) -> Markup {
    html! {
        a.skip href="#conversation" { "Skip to the conversation" }
        header.masthead {
            h1 { bdi { (SafeText(words::title(session))) } }
            dl.facts {
                @for (name, value) in words::facts(session) {
                    div { dt { (name) } dd { bdi { (SafeText(&value)) } } }
                }
            }
        }
    }
}

/// Writes the folded list of turns, each with the beginning of its question.
pub(super) fn contents_list(turns: &[(Turn, Vec<Item>)], out: &mut dyn fmt::Write) -> fmt::Result {
    out.write_str("<nav aria-label=\"Turns\"><details><summary>Contents</summary>\n<ul>\n")?;
    for (turn, _) in turns {
        let translated = turn.question_translated.as_ref();
        let question = turn.question_neutral.as_ref().or(translated);
        let question = question.map(|q| one_line(&q.to_plain(), MAX_QUESTION_CHARS));
        let line = html! {
            li {
                a href={ "#turn-" (turn.turn_id) } {
                    span.number { (turn.ordinal) }
                    @if turn.replaced_by_turn_id.is_some() { " (replaced)" }
                    " " bdi { (SafeText(&question.unwrap_or_default())) }
                }
            }
        };
        writeln!(out, "{}", line.into_string())?;
    }
    out.write_str("</ul></details></nav>\n")
}

pub(super) fn turn_heading(turn: &Turn, items: &[Item], frame: Frame<'_>) -> Markup {
    let start = words::began(turn, items);
    html! {
        div.turn-head {
            h2 id={ "turn-" (turn.turn_id) "-name" } { (frame.say("Turn")) " " (turn.ordinal) }
            " " span.pill.bad[words::is_bad(turn.status)] { (frame.say(turn.status.as_str())) }
            @for mark in words::status_labels(turn) { " " span.pill.mark { (frame.say(mark)) } }
            p.meta {
                @if start == turn.created_at { (time(start)) } @else {
                    span title={ "Recorded on " (words::moment(turn.created_at)) } { (time(start)) }
                }
                @if let Some(duration) = words::duration(turn) { " · " (duration) }
                @for (name, value) in words::turn_facts(turn) {
                    " · " (frame.say(name)) " " bdi { (SafeText(value)) }
                }
                // `deleted_at` is the time of the turn's redaction.
                @if let Some(at) = turn.deleted_at { " · " (frame.say("redacted on")) " " (time(at)) }
            }
        }
    }
}

/// The link from a replaced turn to the one that replaces it.
pub(super) fn replacement(by: TurnId, frame: Frame<'_>) -> Markup {
    html! { p.meta { a href=(turn_link(by, frame)) { (frame.say("Its replacement")) } } }
}

/// The address of a turn that replaces another one.
fn turn_link(id: TurnId, frame: Frame<'_>) -> String {
    let first_seq = frame.view.and_then(|view| view.first_seqs.get(&id));
    match first_seq {
        Some(seq) => frame.item_link(*seq),
        None => format!("#turn-{id}"),
    }
}

/// The beginning of the section of a turn whose first items are in an earlier part.
pub(super) fn continued_turn(turn: &Turn, frame: Frame<'_>) -> Markup {
    let (name, continued) = (frame.say("Turn"), frame.say("continued"));
    let label = format!("{name} {}, {continued}", turn.ordinal);
    let open = html! {
        p.continued { a href=(frame.item_link(turn.first_seq)) { (name) " " (turn.ordinal) } ", " (continued) }
    };
    let id = turn.turn_id;
    PreEscaped(format!(
        "<section class=\"turn continued\" data-turn=\"{id}\" aria-label=\"{label}\">\n{}\n",
        open.into_string()
    ))
}

/// A time to the second; its exact value is in the `datetime` attribute.
pub(super) fn time(at: Timestamp) -> impl Render {
    let exact = at.to_string();
    html! {
        // A time beyond the calendar's years is written as microseconds, which HTML does not accept in `datetime`.
        @if exact.ends_with('Z') { time datetime=(exact) { (words::moment(at)) } } @else { (exact) }
    }
}

/// The time of an item. The day is shown only if it differs from the day on which the turn began, or if the item is
/// outside the turns (`began` is `None`).
pub(super) fn short_time(at: Timestamp, began: Option<Timestamp>) -> Markup {
    let (exact, readable) = (at.to_string(), words::moment(at));
    let day = began.map(words::moment);
    let same_day = day.is_some_and(|d| d.get(..11) == readable.get(..11)) && exact.ends_with('Z');
    match readable.get(11..19) {
        Some(clock) if same_day => html! { time datetime=(exact) title=(readable) { (clock) } },
        _ => html! { (time(at)) },
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    fn base64(bytes: &[u8]) -> String {
        const DIGITS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut out = String::new();
        for chunk in bytes.chunks(3) {
            let group =
                chunk.iter().fold(0_u32, |g, b| g << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
            for i in 0..=chunk.len() {
                out.push(DIGITS[(group >> (18 - 6 * i) & 63) as usize] as char);
            }
        }
        while !out.len().is_multiple_of(4) {
            out.push('=');
        }
        out
    }

    #[test]
    fn the_policy_names_the_style() {
        assert_eq!(base64(b"light w"), "bGlnaHQgdw==");
        assert_eq!(
            STYLE_HASH,
            base64(&Sha256::digest(STYLE)),
            "STYLE_HASH has to follow style.css"
        );
        for forbidden in ["</", "url(", "@import", "expression"] {
            assert!(!STYLE.contains(forbidden), "{forbidden}");
        }
    }
}
