//! `filrouge sessions list --source …`

use std::io::Write;

use filrouge_sources::library::list::{ListRequest, Row, list};
use filrouge_store::command::SessionSort;

use super::sessions_list::sort;
use super::source::{print_notices, query_named, show_history, utc_time};
use crate::cli::ListSessions;
use crate::config::Config;
use crate::exit::Usage;
use crate::output::{first_line, print_stderr, table};

pub(super) async fn run(config: &Config, args: ListSessions) -> anyhow::Result<()> {
    if args.limit == 0 {
        return Err(Usage::new("--limit must be at least 1").into());
    }
    let ledger_only = [("--identity", &args.identity), ("--status", &args.status)];
    if let Some((name, _)) = ledger_only.iter().find(|(_, value)| value.is_some()) {
        let detail = format!("{name} is for the ledger's sessions");
        return Err(Usage::new(detail)
            .with_hint("leave it out, or leave --source out")
            .into());
    }
    let request = ListRequest {
        by_creation: sort(&args)? == SessionSort::Created,
        session_name: args.q,
        project_id: args.project,
        agent: args.agent,
        limit: args.limit,
        cursor: args.cursor,
        mask: !args.unmasked,
        ..ListRequest::default()
    };
    let page = query_named(config, &args.sources, move |library| {
        list(library, &request)
    })
    .await?;
    show_history(config.json, &page, |out| {
        let rows = page.sessions.iter().map(|row| {
            let untitled = if row.damaged { "(damaged)" } else { "" };
            [
                first_line(&row.id, 256),
                format!("{} ({})", row.source, row.generation),
                first_line(&agents(row), 24),
                first_line(row.project_name.as_deref().unwrap_or(""), 24),
                utc_time(row.updated),
                first_line(row.title.as_deref().unwrap_or(untitled), 60),
            ]
        });
        let header = ["SESSION", "SOURCE", "AGENT", "PROJECT", "UPDATED", "TITLE"];
        writeln!(out, "{}", table(header, 0..0, rows))
    })?;
    if config.json {
        return Ok(());
    }
    print_notices(&page.notices);
    if let Some(cursor) = &page.next_cursor {
        let total = page.total;
        print_stderr(format_args!(
            "{total} in all, there are more: --cursor {cursor}"
        ));
    }
    Ok(())
}

/// The agents that took part; without messages of any, the agent that the session names.
fn agents(row: &Row) -> String {
    match &row.agents[..] {
        [] => row.agent.clone().unwrap_or_default(),
        agents => agents.join(", "),
    }
}
