//! `filrouge sessions list --source …`

use std::io::Write;

use filrouge_sources::library::list::{Ask, list};

use super::source::{ask_named, cell, say_notices, second};
use crate::cli::ListSessions;
use crate::config::Config;
use crate::exit::Usage;
use crate::output::{first_line, printable, say, show, table};

pub(super) async fn run(config: &Config, asked: ListSessions) -> anyhow::Result<()> {
    if asked.limit == 0 {
        return Err(Usage::new("--limit must be at least 1").into());
    }
    let ledgers_own = [("--identity", &asked.identity), ("--status", &asked.status)];
    if let Some((name, _)) = ledgers_own.iter().find(|(_, value)| value.is_some()) {
        let what = format!("{name} is for the ledger's sessions");
        return Err(Usage::new(what)
            .with_hint("leave it out, or leave --source out")
            .into());
    }
    let question = Ask {
        session_name: asked.q,
        project_id: asked.project,
        agent: asked.agent,
        limit: asked.limit,
        cursor: asked.cursor,
        mask: !asked.unmasked,
        ..Ask::default()
    };
    let page = ask_named(config, &asked.sources, move |library| {
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
