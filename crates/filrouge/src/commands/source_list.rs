//! `filrouge sessions list --source …`

use std::io::Write;

use filrouge_sources::library::list::{Ask, list};

use super::source::{cell, query_named, say_notices, second};
use crate::cli::ListSessions;
use crate::config::Config;
use crate::exit::Usage;
use crate::output::{first_line, printable, say, show, table};

pub(super) async fn run(config: &Config, args: ListSessions) -> anyhow::Result<()> {
    if args.limit == 0 {
        return Err(Usage::new("--limit must be at least 1").into());
    }
    let ledger_only = [("--identity", &args.identity), ("--status", &args.status)];
    if let Some((name, _)) = ledger_only.iter().find(|(_, value)| value.is_some()) {
        let what = format!("{name} is for the ledger's sessions");
        return Err(Usage::new(what)
            .with_hint("leave it out, or leave --source out")
            .into());
    }
    let question = Ask {
        session_name: args.q,
        project_id: args.project,
        agent: args.agent,
        limit: args.limit,
        cursor: args.cursor,
        mask: !args.unmasked,
        ..Ask::default()
    };
    let page = query_named(config, &args.sources, move |library| {
        list(library, &question)
    })
    .await?;
    show(config.json, &page, |out| {
        let rows = page.sessions.iter().map(|row| {
            [
                first_line(&row.id, 256),
                format!("{} ({})", row.source, row.generation),
                cell(row.agent.as_deref(), 24),
                cell(row.project_name.as_deref(), 24),
                second(row.updated),
                cell(row.title.as_deref(), 60),
            ]
        });
        let header = ["SESSION", "SOURCE", "AGENT", "PROJECT", "UPDATED", "TITLE"];
        writeln!(out, "{}", table(header, 0..0, rows))
    })?;
    if config.json {
        return Ok(());
    }
    say_notices(&page.notices);
    if let Some(cursor) = &page.next_cursor {
        let (total, cursor) = (page.total, printable(cursor));
        say(format_args!(
            "{total} in all, there are more: --cursor {cursor}"
        ));
    }
    Ok(())
}
