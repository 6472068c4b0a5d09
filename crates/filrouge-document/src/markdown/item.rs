//! Renders one item as blocks under its own heading.

use std::fmt;

use filrouge_types::{Item, Role, Turn};

use super::inline::{code_block, escape_line, inline_code, link};
use super::quote;
use crate::data::replace_data_in_string_value;
use crate::json::{decode_string, format_arguments, pretty};
use crate::part::{Kind, Part, nested_parts};
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
        escape_line(words::channel(item))
    )?;
    if let Some(variant) = words::variant(item, entries.bilingual, turn) {
        write!(out, " · {variant}")?;
    }
    writeln!(out, "\n\n{}", facts(item))?;
    if item.redacted {
        write_redacted(item, redactions, out)?;
    }
    for (part, result) in entries.parts_of(at) {
        write_part(part, item, out)?;
        if let Some(attached) = result {
            write_attached(attached, out)?;
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

/// Writes a result below its call.
fn write_attached(attached: AttachedResult<'_, '_>, out: &mut dyn fmt::Write) -> fmt::Result {
    let item = attached.item;
    writeln!(out, "\nItem {} · {}", item.seq, facts(item))?;
    write_part(attached.part, item, out)
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
        Kind::File {
            name,
            media_type,
            url,
        } => write_file(name.as_deref(), media_type.as_deref(), url.as_deref(), out)?,
        Kind::Link { url, title } => {
            writeln!(out, "Link: {}", link(title.as_deref().unwrap_or(url), url))?;
        }
        Kind::ToolCall {
            call_id,
            name,
            args,
        } => write_call(call_id.as_deref(), name, *args, out)?,
        Kind::ToolResult { .. } => write_result(part, item, out)?,
        Kind::Error { .. } => write_error(part, out)?,
        Kind::Refusal(text) => write!(out, "**Refused:**\n\n{}", quote::block(text))?,
        Kind::Redaction { .. } => write_redaction(&part.kind, item, out)?,
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

fn write_call(
    call_id: Option<&str>,
    name: &str,
    args: Option<&str>,
    out: &mut dyn fmt::Write,
) -> fmt::Result {
    write!(out, "**Call of** {}", inline_code(name))?;
    match call_id {
        Some(id) => writeln!(out, " · call {}", inline_code(id))?,
        None => writeln!(out)?,
    }
    match args {
        Some(args) => write!(out, "\n{}", code_block("json", &format_arguments(args))),
        None => Ok(()),
    }
}

fn write_result(part: &Part<'_>, item: &Item, out: &mut dyn fmt::Write) -> fmt::Result {
    let Kind::ToolResult {
        call_id,
        ok,
        latency_ms,
        content,
    } = &part.kind
    else {
        return Ok(());
    };
    out.write_str(if *ok == Some(false) {
        "**Result: failed**"
    } else {
        "**Result**"
    })?;
    if let Some(latency) = latency_ms {
        write!(out, " · {} ms", escape_line(latency))?;
    }
    match call_id {
        Some(id) => writeln!(out, " · call {}", inline_code(id))?,
        None => writeln!(out)?,
    }
    let Some(content) = content else {
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

fn write_error(part: &Part<'_>, out: &mut dyn fmt::Write) -> fmt::Result {
    let Kind::Error {
        code,
        message,
        source,
        retryable,
    } = &part.kind
    else {
        return Ok(());
    };
    out.write_str("**Error**")?;
    let named = [("", code), ("source ", source)];
    for (name, value) in named {
        if let Some(value) = value {
            write!(out, " · {name}{}", inline_code(value))?;
        }
    }
    match retryable {
        Some(true) => out.write_str(" · may be retried")?,
        Some(false) => out.write_str(" · not to be retried")?,
        None => {}
    }
    match message {
        Some(message) => write!(out, "\n\n{}", code_block("", message)),
        None => writeln!(out),
    }
}

/// Writes the sentence about a redaction: its author, items, time and reason.
fn write_redaction(kind: &Kind<'_>, item: &Item, out: &mut dyn fmt::Write) -> fmt::Result {
    let Kind::Redaction {
        seqs,
        turn_id,
        by,
        reason,
    } = kind
    else {
        return Ok(());
    };
    match by {
        Some(by) => write!(out, "{} redacted {}", escape_line(by), words::ranges(seqs))?,
        None => write!(out, "Redacted: {}", words::ranges(seqs))?,
    }
    if let Some(id) = turn_id {
        write!(out, " (turn {})", inline_code(id))?;
    }
    write!(out, " on {}", words::moment(item.created_at))?;
    match reason {
        Some(reason) => writeln!(out, ": {}", escape_line(reason)),
        None => writeln!(out, "."),
    }
}

fn write_file(
    name: Option<&str>,
    media_type: Option<&str>,
    address: Option<&str>,
    out: &mut dyn fmt::Write,
) -> fmt::Result {
    let label = Kind::file_label(name, address);
    write!(out, "File: {}", link(&label, address.unwrap_or(&label)))?;
    match Kind::type_unless_in_url(media_type, address) {
        Some(kind) => writeln!(out, " · {}", inline_code(kind))?,
        None => writeln!(out)?,
    }
    match address.and_then(|a| url::short_text(a, media_type)) {
        Some(text) => write!(out, "\n{}", code_block("", &text)),
        None => Ok(()),
    }
}
