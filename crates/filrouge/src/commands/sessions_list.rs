//! `filrouge sessions list`

use std::io::Write;
use std::process::ExitCode;

use comfy_table::{Table, presets::NOTHING};
use filrouge_store::command::SessionFilter;
use filrouge_types::{IdError, IdentityId, Session, SessionStatus, UnknownName};
use serde::Serialize;

use crate::cli::ListSessions;
use crate::config::Config;
use crate::exit::Usage;
use crate::open::{Need, open, operator};
use crate::output::{document, first_line, say, second, stdout};

#[derive(Serialize)]
struct Page<'a> {
    data: &'a [Session],
    next_cursor: Option<&'a str>,
}

fn filter(asked: &ListSessions) -> Result<SessionFilter, Usage> {
    let id = |e: IdError| Usage::new(e.to_string());
    let word = |e: UnknownName| Usage::new(format!("--status: {e}"));
    let status = asked.status.as_ref().map(|s| s.parse::<SessionStatus>());
    Ok(SessionFilter {
        project_id: asked
            .project
            .as_ref()
            .map(|p| p.parse())
            .transpose()
            .map_err(id)?,
        identity_id: asked
            .identity
            .as_ref()
            .map(|i| i.parse())
            .transpose()
            .map_err(id)?,
        status: status.transpose().map_err(word)?,
        agent: asked.agent.as_deref().map(Into::into),
        title: asked.q.as_deref().map(Into::into),
        ..SessionFilter::default()
    })
}

pub(super) async fn run(config: &Config, asked: ListSessions) -> anyhow::Result<ExitCode> {
    if asked.limit == 0 {
        return Err(Usage::new("--limit must be at least 1").into());
    }
    let filter = filter(&asked)?;
    let opened = open(config, Need::Existing).await?;
    let (sessions, next) = opened
        .engine
        .sessions
        .list(&operator(config), filter, asked.cursor, asked.limit)
        .await?;
    if config.json {
        document(&Page {
            data: &sessions,
            next_cursor: next.as_deref(),
        })?;
    } else {
        let mut table = Table::new();
        table.load_style(NOTHING).set_header([
            "SESSION", "STATUS", "OWNER", "TURNS", "ITEMS", "UPDATED", "TITLE",
        ]);
        for s in &sessions {
            table.add_row([
                first_line(s.session_id.as_str(), 256),
                s.status.to_string(),
                first_line(s.identity_id.as_ref().map_or("", IdentityId::as_str), 60),
                s.turn_count.to_string(),
                s.last_seq.to_string(),
                second(s.updated_at),
                first_line(s.title.as_deref().unwrap_or(""), 60),
            ]);
        }
        let mut out = stdout();
        writeln!(out, "{table}")?;
        out.flush()?;
        if let Some(cursor) = next {
            say(format_args!("there are more: --cursor {cursor}"));
        }
    }
    opened.close().await;
    Ok(ExitCode::SUCCESS)
}
