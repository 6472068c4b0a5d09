//! Renders one item as blocks under its own heading.

use std::fmt;

use filrouge_types::{Item, Role, Turn};

use super::inline::{code_block, escape_line, inline_code, link};
use super::quote;
use crate::data::replace_data_in_string_value;
use crate::json::{decode_string, format_arguments, pretty};
use crate::part::{
    ErrorPart, FilePart, Kind, Part, RedactionPart, ToolCall, ToolResult, nested_parts,
};
use crate::redaction::Redactions;
use crate::turn_entries::{AttachedResult, TurnEntries};
use crate::{url, words};

/// Writes `item`, the entry at index `at` of `entries`. `turn` is `None` for an item outside the turns.
pub(super) fn write_entry(
    entries: &TurnEntries<'_>,
    at: usize,
    item: &Item,
    turn: Option<&Turn>,
    redactions: &Redactions,
    out: &mut dyn fmt::Write,
) -> fmt::Result {
    write!(
        out,
        "\n### {} · {} · {}",
        item.seq,
        words::role(item.body.role),
        escape_line(words::channel(&item.body.channel))
    )?;
    if let Some(variant) = words::variant(item, entries.bilingual, turn) {
        write!(out, " · {variant}")?;
    }
    writeln!(out, "\n\n{}", facts(item))?;
    if item.redacted {
        write_redacted(item, redactions, out)?;
    }
    // A result is written below its call.
    for (part, result) in entries.parts_of(at) {
        write_part(part, item, out)?;
        if let Some(AttachedResult { item, part, .. }) = result {
            writeln!(out, "\nItem {} · {}", item.seq, facts(item))?;
            write_part(part, item, out)?;
        }
    }
    Ok(())
}

/// The line with the time, agent, model and usage.
fn facts(item: &Item) -> String {
    let mut line = words::moment(item.when());
    let named = [("agent", &item.body.agent), ("model", &item.body.model)];
    for (name, value) in named {
        if let Some(value) = value {
            line.push_str(&format!(" · {name} {}", inline_code(value)));
        }
    }
    if let Some(usage) = words::usage(item) {
        line.push_str(&format!(" · {}", escape_line(&usage)));
    }
    line
}

fn write_redacted(item: &Item, redactions: &Redactions, out: &mut dyn fmt::Write) -> fmt::Result {
    let Some(redaction) = redactions.covering(item.seq) else {
        return writeln!(out, "\n**Redacted.**");
    };
    write!(
        out,
        "\n**Redacted** on {} (item {})",
        words::moment(redaction.at),
        redaction.seq
    )?;
    match &redaction.reason {
        Some(reason) => writeln!(out, ": {}", escape_line(reason)),
        None => writeln!(out, "."),
    }
}

fn write_part(part: &Part<'_>, item: &Item, out: &mut dyn fmt::Write) -> fmt::Result {
    out.write_char('\n')?;
    match &part.kind {
        // Tools seldom write Markdown.
        Kind::Text(text) if item.body.role == Role::Tool => out.write_str(&code_block("", text))?,
        Kind::Text(text) | Kind::Reasoning(text) => out.write_str(&quote::block(text))?,
        Kind::Code { language, text } => {
            out.write_str(&code_block(language.as_deref().unwrap_or(""), text))?;
        }
        Kind::Image { url } => writeln!(out, "Image: {}", link(&url::label(url), url))?,
        Kind::File(file) => write_file(file, out)?,
        Kind::Link { url, title } => {
            writeln!(out, "Link: {}", link(title.as_deref().unwrap_or(url), url))?;
        }
        Kind::ToolCall(call) => write_call(call, out)?,
        Kind::ToolResult(result) => write_result(result, item, out)?,
        Kind::Error(error) => write_error(error, out)?,
        Kind::Refusal(text) => write!(out, "**Refused:**\n\n{}", quote::block(text))?,
        Kind::Redaction(redaction) => write_redaction(redaction, item, out)?,
        Kind::Status(status) => writeln!(out, "The turn is now: {}", escape_line(status))?,
        Kind::Other(json) => out.write_str(&code_block("json", &pretty(json)))?,
    }
    match &part.other_members {
        Some(members) => write!(
            out,
            "\nFurther fields:\n\n{}",
            code_block("json", &pretty(members))
        ),
        None => Ok(()),
    }
}

fn write_call(call: &ToolCall<'_>, out: &mut dyn fmt::Write) -> fmt::Result {
    write!(out, "**Call of** {}", inline_code(&call.name))?;
    match &call.call_id {
        Some(id) => writeln!(out, " · call {}", inline_code(id))?,
        None => writeln!(out)?,
    }
    match call.args {
        Some(args) => write!(out, "\n{}", code_block("json", &format_arguments(args))),
        None => Ok(()),
    }
}

fn write_result(result: &ToolResult<'_>, item: &Item, out: &mut dyn fmt::Write) -> fmt::Result {
    out.write_str(if result.ok == Some(false) {
        "**Result: failed**"
    } else {
        "**Result**"
    })?;
    if let Some(latency) = result.latency_ms {
        write!(out, " · {} ms", escape_line(latency))?;
    }
    match &result.call_id {
        Some(id) => writeln!(out, " · call {}", inline_code(id))?,
        None => writeln!(out)?,
    }
    let Some(content) = result.content else {
        return Ok(());
    };
    if let Some(parts) = nested_parts(content) {
        return parts.iter().try_for_each(|p| write_part(p, item, out));
    }
    out.write_char('\n')?;
    match decode_string(content) {
        Some(text) => out.write_str(&code_block("", &replace_data_in_string_value(&text))),
        None => out.write_str(&code_block("json", &pretty(content))),
    }
}

fn write_error(error: &ErrorPart, out: &mut dyn fmt::Write) -> fmt::Result {
    out.write_str("**Error**")?;
    let named = [("", &error.code), ("source ", &error.source)];
    for (name, value) in named {
        if let Some(value) = value {
            write!(out, " · {name}{}", inline_code(value))?;
        }
    }
    match error.retryable {
        Some(true) => out.write_str(" · may be retried")?,
        Some(false) => out.write_str(" · not to be retried")?,
        None => {}
    }
    match &error.message {
        Some(message) => write!(out, "\n\n{}", code_block("", message)),
        None => writeln!(out),
    }
}

/// Writes the sentence about a redaction: its author, items, time and reason.
fn write_redaction(
    redaction: &RedactionPart,
    item: &Item,
    out: &mut dyn fmt::Write,
) -> fmt::Result {
    let ranges = words::ranges(&redaction.seqs);
    match &redaction.by {
        Some(by) => write!(out, "{} redacted {ranges}", escape_line(by))?,
        None => write!(out, "Redacted: {ranges}")?,
    }
    if let Some(id) = &redaction.turn_id {
        write!(out, " (turn {})", inline_code(id))?;
    }
    write!(out, " on {}", words::moment(item.created_at))?;
    match &redaction.reason {
        Some(reason) => writeln!(out, ": {}", escape_line(reason)),
        None => writeln!(out, "."),
    }
}

fn write_file(file: &FilePart, out: &mut dyn fmt::Write) -> fmt::Result {
    let (label, address) = (file.label(), file.url.as_deref());
    write!(out, "File: {}", link(&label, address.unwrap_or(&label)))?;
    match file.type_unless_in_url() {
        Some(kind) => writeln!(out, " · {}", inline_code(kind))?,
        None => writeln!(out)?,
    }
    match address.and_then(|a| url::short_text(a, file.media_type.as_deref())) {
        Some(text) => write!(out, "\n{}", code_block("", &text)),
        None => Ok(()),
    }
}
