//! `filrouge sessions show ID --source …`

use std::io::{self, Write};

use filrouge_sources::ToolStatus;
use filrouge_sources::library::history::{
    History, HistoryRequest, ShownMessage, ShownPart, history,
};

use super::named_session::in_library;
use super::source::{print_notices, query_named, role_name, show_history, utc_time};
use crate::cli::ShowSession;
use crate::config::Config;
use crate::output::print_stderr;

pub(super) async fn run(config: &Config, args: ShowSession) -> anyhow::Result<()> {
    let mut request = HistoryRequest {
        // Without `--max-chars`, everything is shown.
        max_chars: args.max_chars.unwrap_or(usize::MAX),
        cursor: args.cursor,
        mask: !args.unmasked,
        ..HistoryRequest::new(args.id)
    };
    let page = query_named(config, &args.sources, move |library| {
        request.session_id = in_library(library, request.session_id)?;
        history(library, &request)
    })
    .await?;
    show_history(config.json, &page, |out| {
        write_head(out, &page)?;
        (page.messages.iter()).try_for_each(|message| write_message(out, message))
    })?;
    if config.json {
        return Ok(());
    }
    print_notices(&page.notices);
    if let Some(cursor) = &page.next_cursor {
        print_stderr(format_args!("there is more: --cursor {cursor}"));
    }
    Ok(())
}

fn write_head(out: &mut impl Write, page: &History) -> io::Result<()> {
    let session = &page.session;
    let title = session.title.as_deref().unwrap_or("");
    let head = format!("{}  {}", session.id, title);
    writeln!(out, "{}", head.trim_end())?;
    let version = session
        .version
        .as_deref()
        .map_or_else(String::new, |v| format!(" {v}"));
    let program = format!("{}{version} ({})", session.source, session.generation);
    match &session.directory {
        Some(directory) => writeln!(out, "{program} in {directory}")?,
        None => writeln!(out, "{program}")?,
    }
    if let Some(parent) = &session.parent_id {
        writeln!(out, "parent {parent}")?;
    }
    for child in &page.children {
        writeln!(out, "child {child}")?;
    }
    for todo in &page.extras.todos {
        let status = todo.status.as_deref().unwrap_or("");
        writeln!(out, "todo [{status}] {}", todo.content)?;
    }
    for changed in &page.extras.changed_files {
        let (file, additions, deletions) = (&changed.file, changed.additions, changed.deletions);
        writeln!(out, "changed {file} +{additions} -{deletions}")?;
    }
    if let Some(url) = &page.extras.share_url {
        writeln!(out, "shared at {url}")?;
    }
    let (created, updated) = (utc_time(session.created), utc_time(session.updated));
    writeln!(
        out,
        "{} messages, {created} to {updated}",
        page.total_messages
    )
}

fn write_message(out: &mut impl Write, message: &ShownMessage) -> io::Result<()> {
    writeln!(out)?;
    if message.boundary {
        writeln!(
            out,
            "~~~ compacted: the model no longer sees what is above ~~~\n"
        )?;
    }
    let mut head = vec![role_name(message.role).to_owned()];
    head.extend(message.agent.clone());
    head.extend(message.model.clone());
    head.push(utc_time(message.created));
    head.push(message.id.clone());
    let marks = [
        (message.summary, "summary"),
        (message.compacted, "compacted"),
        (message.reverted, "reverted"),
    ];
    head.extend(
        marks
            .iter()
            .filter(|(applies, _)| *applies)
            .map(|(_, mark)| (*mark).to_owned()),
    );
    writeln!(out, "## {}", head.join(" · "))?;
    for part in &message.parts {
        write_part(out, part)?;
    }
    let error = message.error.as_ref();
    error.map_or(Ok(()), |error| writeln!(out, "[error] {error}"))
}

fn write_part(out: &mut impl Write, part: &ShownPart) -> io::Result<()> {
    match (part.kind.as_str(), &part.tool) {
        (_, Some(tool)) => write_tool(out, tool, part)?,
        ("text", _) => {
            let mark = if part.synthetic { "[synthetic] " } else { "" };
            write_text(out, mark, part.text.as_deref())?;
        }
        (kind, _) => {
            let files = part.files.join(", ");
            writeln!(out, "{}", format!("[{kind}] {files}").trim_end())?;
            if part.text.is_some() {
                write_text(out, "", part.text.as_deref())?;
            }
        }
    }
    match &part.cut {
        Some(cut) => writeln!(
            out,
            "[{} characters more: --cursor {}]",
            cut.chars, cut.cursor
        ),
        None => Ok(()),
    }
}

fn write_text(out: &mut impl Write, mark: &str, text: Option<&str>) -> io::Result<()> {
    writeln!(out, "{mark}{}", text.unwrap_or("").trim_end())
}

fn write_tool(out: &mut impl Write, tool: &str, part: &ShownPart) -> io::Result<()> {
    let status = match part.status {
        Some(ToolStatus::Pending) => " pending",
        Some(ToolStatus::Running) => " unfinished",
        Some(ToolStatus::Error) => " failed",
        Some(ToolStatus::Completed) | None => "",
    };
    let pruned = part.pruned.map_or("", |_| ", pruned");
    let title = part.title.as_deref().unwrap_or("");
    let head = format!("[tool {tool}{status}{pruned}] {title}");
    writeln!(out, "{}", head.trim_end())?;
    let input = part.input.as_deref().map(compact_json);
    for (mark, text) in [
        ("  > ", input.as_deref()),
        ("  < ", part.output.as_deref()),
        ("  ! ", part.error.as_deref()),
    ] {
        let Some(text) = text else { continue };
        for line in text.trim_end().lines() {
            writeln!(out, "{}", format!("{mark}{line}").trim_end())?;
        }
    }
    let child = part.child_session_id.as_ref();
    child.map_or(Ok(()), |child| writeln!(out, "  session {child}"))
}

/// Removes the white space between the tokens of JSON; the JSON may be cut off.
fn compact_json(json: &str) -> String {
    let (mut in_string, mut escaped) = (false, false);
    let kept = json.chars().filter(|c| {
        let keep = in_string || !c.is_ascii_whitespace();
        in_string ^= *c == '"' && !escaped;
        escaped = in_string && *c == '\\' && !escaped;
        keep
    });
    kept.collect()
}

#[cfg(test)]
mod tests {
    use super::compact_json;

    #[test]
    fn white_space_between_tokens_is_removed() {
        let json = "{\n  \"a b\": [1, 2],\n  \"c\": \"x \\\" y \\\\\", \"d\": \" z\"\n}";
        let line = "{\"a b\":[1,2],\"c\":\"x \\\" y \\\\\",\"d\":\" z\"}";
        assert_eq!(compact_json(json), line);
        assert_eq!(compact_json("{\n  \"a\": \"cut he"), "{\"a\":\"cut he");
    }
}
