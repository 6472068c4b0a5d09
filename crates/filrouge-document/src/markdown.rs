//! The Markdown document. Only the title, the turns and the items have headings. Recorded texts are in block quotes,
//! code blocks or escaped lines, so that no text can add a heading of the document.

mod inline;
mod item;
mod quote;

use std::fmt;

use filrouge_types::{Item, Recorded, Turn};

use self::inline::{escape_line, inline_code};
use self::item::write_entry;
use crate::redaction::Redactions;
use crate::turn_entries::{TurnEntries, readable_parts};
use crate::words;

pub(crate) fn write(recorded: &Recorded, out: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(out, "# {}\n", escape_line(words::title(&recorded.session)))?;
    for (name, value) in words::facts(&recorded.session) {
        writeln!(out, "- {name}: {}", inline_code(&value))?;
    }
    let redactions = Redactions::from_items(&recorded.loose);
    for (turn, items) in &recorded.turns {
        write_turn(turn, items, &redactions, out)?;
    }
    if !recorded.loose.is_empty() {
        writeln!(out, "\n## Outside the turns")?;
        write_items(None, &recorded.loose, &redactions, out)?;
    }
    Ok(())
}

fn write_turn(
    turn: &Turn,
    items: &[Item],
    redactions: &Redactions,
    out: &mut dyn fmt::Write,
) -> fmt::Result {
    write!(out, "\n## Turn {} · {}", turn.ordinal, turn.status)?;
    for mark in words::status_labels(turn) {
        write!(out, " · {mark}")?;
    }
    write!(out, "\n\n{}", words::moment(words::began(turn, items)))?;
    if let Some(duration) = words::duration(turn) {
        write!(out, " · {duration}")?;
    }
    for (name, value) in words::turn_facts(turn) {
        write!(out, " · {name} {}", inline_code(value))?;
    }
    writeln!(out)?;
    // `deleted_at` is the time of the turn's redaction.
    if let Some(at) = turn.deleted_at {
        writeln!(out, "\nRedacted on {}.", words::moment(at))?;
    }
    if turn.replaced_by_turn_id.is_some() {
        writeln!(
            out,
            "\nReplaced by the turn of the same number that follows."
        )?;
    }
    write_items(Some(turn), items, redactions, out)
}

fn write_items(
    turn: Option<&Turn>,
    items: &[Item],
    redactions: &Redactions,
    out: &mut dyn fmt::Write,
) -> fmt::Result {
    let parts_json = readable_parts(items);
    let entries = TurnEntries::new(turn, items, &parts_json);
    for (at, entry) in entries.entries_in_place() {
        write_entry(&entries, at, entry.item, turn, redactions, out)?;
    }
    Ok(())
}
