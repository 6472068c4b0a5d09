//! `filrouge sessions list`

use std::io::Write;
use std::process::ExitCode;

use comfy_table::{Table, presets::NOTHING};
use filrouge_store::command::SessionFilter;
use filrouge_types::{ProjectId, Session};
use serde::Serialize;

use crate::config::Config;
use crate::exit::Usage;
use crate::open::{Need, open, operator};
use crate::output::{document, first_line, stdout};

#[derive(Serialize)]
struct Page<'a> {
    data: &'a [Session],
    next_cursor: Option<&'a str>,
}

pub(super) async fn run(
    config: &Config,
    project: Option<String>,
    limit: usize,
    cursor: Option<String>,
) -> anyhow::Result<ExitCode> {
    if limit == 0 {
        return Err(Usage::new("--limit must be at least 1").into());
    }
    let project_id = project
        .map(|p| {
            p.parse::<ProjectId>()
                .map_err(|e| Usage::new(e.to_string()))
        })
        .transpose()?;
    let opened = open(config, Need::Existing).await?;
    let filter = SessionFilter {
        project_id,
        ..SessionFilter::default()
    };
    let (sessions, next) = opened
        .ledger
        .sessions(&operator(config), filter, cursor, limit)
        .await?;
    if config.json {
        document(&Page {
            data: &sessions,
            next_cursor: next.as_deref(),
        })?;
    } else {
        let mut table = Table::new();
        table
            .load_style(NOTHING)
            .set_header(["SESSION", "TURNS", "ITEMS", "UPDATED", "TITLE"]);
        for s in &sessions {
            let updated = s.updated_at.to_string();
            table.add_row([
                first_line(s.session_id.as_str(), 256),
                s.turn_count.to_string(),
                s.last_seq.to_string(),
                updated.split('.').next().unwrap_or("").replace('T', " "),
                first_line(s.title.as_deref().unwrap_or(""), 60),
            ]);
        }
        let mut out = stdout();
        writeln!(out, "{table}")?;
        out.flush()?;
        if let Some(cursor) = next {
            tracing::warn!("there are more: --cursor {cursor}");
        }
    }
    opened.close().await;
    Ok(ExitCode::SUCCESS)
}
