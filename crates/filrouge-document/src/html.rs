//! The HTML document: one file that has no scripts and makes no requests. A strict content security policy makes the
//! browser enforce both.

mod forms;
mod frame;
mod item;
mod page;
mod part;
mod rich;
mod safe_text;

use std::fmt;

use filrouge_types::{Channel, Item, Recorded, Turn};

pub(crate) use self::frame::Frame;
use self::item::render_entry;
pub use self::page::{STYLE, STYLE_HASH};
use self::page::{contents_list, continued_turn, head, masthead, replacement, turn_heading};
pub(crate) use self::rich::render_markdown;
pub(crate) use self::safe_text::listing;
use crate::redaction::Redactions;
use crate::turn_entries::{TurnEntries, readable_parts};

pub(crate) fn write(recorded: &Recorded, out: &mut dyn fmt::Write) -> fmt::Result {
    out.write_str("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n")?;
    out.write_str(&head(&recorded.session).into_string())?;
    out.write_str("</head>\n<body>\n")?;
    out.write_str(&masthead(&recorded.session).into_string())?;
    if recorded.turns.len() > 1 {
        contents_list(&recorded.turns, out)?;
    }
    out.write_str("<main id=\"conversation\">\n")?;
    let redactions = Redactions::from_items(&recorded.loose);
    let frame = Frame {
        redactions: &redactions,
        view: None,
    };
    for (turn, items) in &recorded.turns {
        write_turn(turn, items, frame, out)?;
    }
    if !recorded.loose.is_empty() {
        out.write_str("<section class=\"turn loose\" aria-labelledby=\"loose\">\n")?;
        out.write_str("<h2 id=\"loose\">Outside the turns</h2>\n")?;
        write_items(None, &recorded.loose, frame, out)?;
        out.write_str("</section>\n")?;
    }
    out.write_str("</main>\n</body>\n</html>\n")
}

pub(crate) fn write_turn(
    turn: &Turn,
    items: &[Item],
    frame: Frame<'_>,
    out: &mut dyn fmt::Write,
) -> fmt::Result {
    let first = items.first().map_or(turn.first_seq, |item| item.seq);
    if frame.view.is_some() && first > turn.first_seq {
        out.write_str(&continued_turn(turn, frame).into_string())?;
        write_items(Some(turn), items, frame, out)?;
        return out.write_str("</section>\n");
    }
    let id = turn.turn_id;
    let (class, open, close) = if turn.replaced_by_turn_id.is_some() {
        ("turn replaced", "<details><summary>", "</details>\n")
    } else {
        ("turn", "", "")
    };
    let data = match frame.view {
        Some(_) => format!(" data-turn=\"{id}\""),
        None => String::new(),
    };
    write!(
        out,
        "<section class=\"{class}\" id=\"turn-{id}\"{data} aria-labelledby=\"turn-{id}-name\">\n{open}"
    )?;
    out.write_str(&turn_heading(turn, items, frame).into_string())?;
    if let Some(by) = turn.replaced_by_turn_id {
        writeln!(out, "</summary>\n{}", replacement(by, frame).into_string())?;
    }
    if let Some(changes) = frame.view.and_then(|view| view.changes.get(&id)) {
        out.write_str(&forms::changes(changes, frame).into_string())?;
    }
    write_items(Some(turn), items, frame, out)?;
    writeln!(out, "{close}</section>")
}

pub(crate) fn write_items(
    turn: Option<&Turn>,
    items: &[Item],
    frame: Frame<'_>,
    out: &mut dyn fmt::Write,
) -> fmt::Result {
    let parts_json = readable_parts(items);
    let entries = TurnEntries::new(turn, items, &parts_json);
    let mut in_place = entries.entries_in_place().peekable();
    let mut is_beside = false;
    while let Some((at, entry)) = in_place.next() {
        let next = in_place.peek().map(|(_, next)| next.item);
        let opens = frame.view.is_some() && !is_beside && is_translation(entry.item, next);
        if opens {
            out.write_str("<div class=\"beside\">")?;
        }
        out.write_str(&render_entry(&entries, at, entry.item, turn, frame).into_string())?;
        out.write_char('\n')?;
        if is_beside {
            out.write_str("</div>\n")?;
        }
        is_beside = opens;
        if let Some(view) = frame.view {
            let end = next.or(items.last()).map_or(0, |item| item.seq);
            let end = if next.is_none() {
                end.saturating_add(1)
            } else {
                end
            };
            for (_, insert) in view.inserts.range(entry.item.seq..end.max(entry.item.seq)) {
                out.write_str(insert)?;
            }
        }
    }
    Ok(())
}

pub(crate) fn write_answered(
    turn: &Turn,
    items: &[Item],
    frame: Frame<'_>,
    out: &mut dyn fmt::Write,
) -> fmt::Result {
    let parts_json = readable_parts(items);
    let entries = TurnEntries::new(Some(turn), items, &parts_json);
    for (at, entry) in entries.answered_by_last() {
        out.write_str(&render_entry(&entries, at, entry.item, Some(turn), frame).into_string())?;
    }
    Ok(())
}

/// Whether `next` is the same message as `item` in the other language.
fn is_translation(item: &Item, next: Option<&Item>) -> bool {
    let is_text = matches!(item.body.channel, Channel::Question | Channel::Final);
    let is_other = |next: &Item| {
        next.body.channel == item.body.channel && next.body.variant != item.body.variant
    };
    is_text && next.is_some_and(is_other)
}
