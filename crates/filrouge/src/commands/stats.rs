//! `filrouge stats ID`

use std::io::Write;
use std::process::ExitCode;

use comfy_table::{Table, presets::NOTHING};
use filrouge_engine::{SessionStatistics, Statistics};
use filrouge_types::{IdError, SessionId};

use crate::config::Config;
use crate::exit::Usage;
use crate::open::{Need, open, operator};
use crate::output::{document, first_line, say, stdout};

pub(super) async fn run(config: &Config, id: &str) -> anyhow::Result<ExitCode> {
    let id: SessionId = id.parse().map_err(|e: IdError| Usage::new(e.to_string()))?;
    let opened = open(config, Need::Existing).await?;
    let statistics = opened.engine.stats.of(&operator(config), &id).await;
    opened.close().await;
    let statistics = statistics?;
    if config.json {
        document(&statistics)?;
    } else {
        print(&statistics)?;
    }
    if statistics.truncated {
        say("there is more than was counted");
    }
    Ok(ExitCode::SUCCESS)
}

/// What a row of the table shows.
type Row = (&'static str, fn(&Statistics) -> String);

const ROWS: &[Row] = &[
    ("sessions", |s| s.sessions.to_string()),
    ("turns", |s| s.turns.to_string()),
    ("  open", |s| s.turns_by_status.open.to_string()),
    ("  interrupted", |s| {
        s.turns_by_status.interrupted.to_string()
    }),
    ("  finalized", |s| s.turns_by_status.finalized.to_string()),
    ("  failed", |s| s.turns_by_status.failed.to_string()),
    ("  cancelled", |s| s.turns_by_status.cancelled.to_string()),
    ("items", |s| s.items.to_string()),
    ("messages", |s| s.messages.to_string()),
    ("tool calls", |s| s.tool_calls.to_string()),
    ("tool errors", |s| s.tool_errors.to_string()),
    ("tokens in", |s| s.tokens.input.to_string()),
    ("tokens out", |s| s.tokens.output.to_string()),
    ("  reasoning", |s| s.tokens.reasoning.to_string()),
    ("  cache read", |s| s.tokens.cache_read.to_string()),
    ("  cache write", |s| s.tokens.cache_write.to_string()),
    ("usage unknown", |s| s.usage_unknown.to_string()),
    ("seconds", |s| {
        let millis = s.duration_ms.unwrap_or(0);
        format!("{}.{:03}", millis / 1000, millis % 1000)
    }),
];

fn print(statistics: &SessionStatistics) -> anyhow::Result<()> {
    let columns = [
        &statistics.own,
        &statistics.with_descendants,
        &statistics.without_copied,
    ];
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_header(["", "OWN", "WITH DESCENDANTS", "WITHOUT COPIED"]);
    for (name, shown) in ROWS {
        let cells = columns.iter().map(|s| shown(s));
        table.add_row(std::iter::once((*name).to_owned()).chain(cells));
    }
    let mut out = stdout();
    writeln!(out, "{table}")?;
    let whole = &statistics.with_descendants;
    for (name, names) in [("agents", &whole.agents), ("models", &whole.models)] {
        let names: Vec<String> = names.iter().map(|n| first_line(n, 60)).collect();
        writeln!(
            out,
            "{}",
            format!("{name}: {}", names.join(", ")).trim_end()
        )?;
    }
    out.flush()?;
    Ok(())
}
