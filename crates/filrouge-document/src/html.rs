//! The HTML document: one file that has no scripts and makes no requests. A strict content security policy makes the
//! browser enforce both.

mod item;
mod page;
mod part;
mod rich;
mod safe_text;

use std::fmt;

use filrouge_types::{Item, Recorded, Turn};

use self::item::render_entry;
pub use self::page::STYLE;
use self::page::{contents_list, head, masthead, turn_heading};
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
    for (turn, items) in &recorded.turns {
        write_turn(turn, items, &redactions, out)?;
    }
    if !recorded.loose.is_empty() {
        out.write_str("<section class=\"turn loose\" aria-labelledby=\"loose\">\n")?;
        out.write_str("<h2 id=\"loose\">Outside the turns</h2>\n")?;
        write_items(None, &recorded.loose, &redactions, out)?;
        out.write_str("</section>\n")?;
    }
    out.write_str("</main>\n</body>\n</html>\n")
}

pub(crate) fn write_turn(
    turn: &Turn,
    items: &[Item],
    redactions: &Redactions,
    out: &mut dyn fmt::Write,
) -> fmt::Result {
    let id = turn.turn_id;
    let replaced = turn.replaced_by_turn_id.is_some();
    let (class, open, close) = if replaced {
        ("turn replaced", "<details><summary>", "</details>\n")
    } else {
        ("turn", "", "")
    };
    write!(
        out,
        "<section class=\"{class}\" id=\"turn-{id}\" aria-labelledby=\"turn-{id}-name\">\n{open}"
    )?;
    out.write_str(&turn_heading(turn, items).into_string())?;
    if replaced {
        out.write_str("</summary>\n")?;
    }
    write_items(Some(turn), items, redactions, out)?;
    writeln!(out, "{close}</section>")
}

pub(crate) fn write_items(
    turn: Option<&Turn>,
    items: &[Item],
    redactions: &Redactions,
    out: &mut dyn fmt::Write,
) -> fmt::Result {
    let parts_json = readable_parts(items);
    let entries = TurnEntries::new(turn, items, &parts_json);
    for (at, entry) in entries.entries_in_place() {
        out.write_str(&render_entry(&entries, at, entry.item, turn, redactions).into_string())?;
        out.write_char('\n')?;
    }
    Ok(())
}
