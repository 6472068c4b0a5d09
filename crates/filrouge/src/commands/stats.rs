//! `filrouge stats ID`

use std::io::{self, Write};

use comfy_table::Table;
use filrouge_engine::{SessionStatistics, Statistics};
use filrouge_types::SessionId;

use super::named_session::in_ledger;
use crate::config::Config;
use crate::exit::parse;
use crate::open::{IfMissing, with};
use crate::output::{first_line, print_findings, print_stderr, show, table};

pub(super) async fn run(config: &Config, id: &str) -> anyhow::Result<()> {
    let id: SessionId = parse(id)?;
    let statistics = with(config, IfMissing::Fail, async |opened, caller| {
        let id = in_ledger(&opened.engine, caller, id).await?;
        Ok(opened.engine.stats.of(caller, &id).await?)
    });
    let statistics = statistics.await?;
    show(config.json, &statistics, |out| write(out, &statistics))?;
    print_findings(&statistics.findings);
    if statistics.truncated {
        print_stderr("some descendants or names were left out: there are too many");
    }
    Ok(())
}

/// A row of the table: its name, and the function that formats its value.
pub(super) type Row<S> = (&'static str, fn(&S) -> String);

const ROWS: &[Row<Statistics>] = &[
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
    ("items with unreadable usage", |s| {
        s.usage_unknown.to_string()
    }),
    ("seconds", |s| {
        let millis = s.duration_ms.unwrap_or(0);
        format!("{}.{:03}", millis / 1000, millis % 1000)
    }),
];

/// Builds a table with one row for each of `rows`, and one column for each of `columns`: a name, and its sums.
/// `align_right` aligns the numbers to the right.
pub(super) fn statistics_table<S>(
    rows: &[Row<S>],
    columns: &[(String, &S)],
    align_right: bool,
) -> Table {
    let names = columns.iter().map(|(name, _)| name.clone());
    let header = std::iter::once(String::new()).chain(names);
    let numbers = if align_right {
        1..columns.len() + 1
    } else {
        0..0
    };
    let rows = rows.iter().map(|(name, format)| {
        let cells = columns.iter().map(|(_, sums)| format(sums));
        std::iter::once((*name).to_owned()).chain(cells)
    });
    table(header, numbers, rows)
}

fn write(out: &mut impl Write, statistics: &SessionStatistics) -> io::Result<()> {
    let total = &statistics.with_descendants;
    // The last column is the sums with descendants, without items that one session copied from another.
    let sums = [
        ("OWN".to_owned(), &statistics.own),
        ("WITH DESCENDANTS".to_owned(), total),
        ("WITHOUT COPIED".to_owned(), &statistics.without_copied),
    ];
    writeln!(out, "{}", statistics_table(ROWS, &sums, false))?;
    for (label, names) in [("agents", &total.agents), ("models", &total.models)] {
        let names: Vec<String> = names.iter().map(|n| first_line(n, 60)).collect();
        let line = format!("{label}: {}", names.join(", "));
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
