//! Writes messages and their parts as readable text.

use std::fmt::Write as _;

use filrouge_sources::library::history::{ShownMessage, ShownPart};

use super::{format_time, json_name, quoted, quoted_if_needed, write_quoted};

/// Writes messages in the given order.
pub(crate) fn write_messages(out: &mut String, messages: &[ShownMessage]) {
    for message in messages {
        if message.boundary {
            out.push_str("--- compaction: the model no longer sees what is above ---\n");
        }
        write_header(out, message);
        for part in &message.parts {
            write_part(out, part);
        }
        if let Some(error) = &message.error {
            out.push_str("ended in an error:\n");
            write_quoted(out, error);
        }
    }
}

fn write_header(out: &mut String, message: &ShownMessage) {
    let _ = write!(
        out,
        "\n[{} {} · {}",
        json_name(&message.role),
        quoted_if_needed(&message.id),
        format_time(message.created)
    );
    for name in [&message.agent, &message.model].into_iter().flatten() {
        let _ = write!(out, " · {}", quoted_if_needed(name));
    }
    let marks = [
        (message.summary, "summary of a compaction"),
        (message.compacted, "compacted"),
        (message.reverted, "reverted"),
    ];
    for (is_set, mark) in marks {
        if is_set {
            let _ = write!(out, " · {mark}");
        }
    }
    out.push_str("]\n");
}

fn write_part(out: &mut String, part: &ShownPart) {
    if part.kind == "tool" {
        write_tool(out, part);
    } else {
        let kind = quoted_if_needed(&part.kind);
        if part.synthetic {
            let _ = writeln!(out, "{kind} (inserted by the program):");
        } else if part.kind != "text" {
            let _ = writeln!(out, "{kind}:");
        }
        if let Some(text) = &part.text {
            write_quoted(out, text);
        }
    }
    for file in &part.files {
        let _ = writeln!(out, "file {}", quoted(file));
    }
    if let Some(cut) = &part.cut {
        let cursor = quoted(&cut.cursor);
        let _ = writeln!(
            out,
            "… {} characters more: call again with cursor {cursor}",
            cut.chars
        );
    }
}

fn write_tool(out: &mut String, part: &ShownPart) {
    let name = part.tool.as_deref().map(quoted_if_needed);
    let _ = write!(out, "tool {}", name.unwrap_or_default());
    if let Some(status) = &part.status {
        let _ = write!(out, " {}", json_name(status));
    }
    if let Some(title) = part.title.as_deref().filter(|title| !title.is_empty()) {
        let _ = write!(out, " {}", quoted(title));
    }
    if let Some(child) = &part.child_session_id {
        let _ = write!(out, " · started session {}", quoted_if_needed(child));
    }
    if part.pruned.is_some() {
        out.push_str(" · output pruned from the model's view");
    }
    out.push('\n');
    let texts = [
        ("input", &part.input),
        ("output", &part.output),
        ("error", &part.error),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            let _ = writeln!(out, "{name}:");
            write_quoted(out, text);
        }
    }
    if let Some(text) = &part.text {
        write_quoted(out, text);
    }
}
