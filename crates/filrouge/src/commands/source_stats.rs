//! `filrouge stats ID --source …`

use std::io::{self, Write};

use anyhow::Result;
use filrouge_sources::library::stats::{SessionStats, Sums, ToolUse, session_with_mask};

use super::named_session::in_library;
use super::source::{print_notices, query_named, show_history};
use super::stats::{Row, statistics_table};
use crate::cli::Sources;
use crate::config::Config;
use crate::output::first_line;

pub(super) async fn run(config: &Config, id: String, sources: &Sources, mask: bool) -> Result<()> {
    let stats = query_named(config, sources, move |library| {
        session_with_mask(library, &in_library(library, id)?, mask)
    })
    .await?;
    show_history(config.json, &stats, |out| write(out, &stats))?;
    if !config.json {
        print_notices(&stats.notices);
    }
    Ok(())
}

pub(super) const ROWS: &[Row<Sums>] = &[
    ("sessions", |s| s.sessions.to_string()),
    ("messages", |s| s.message_count.to_string()),
    ("  of the user", |s| s.user_messages.to_string()),
    ("parts", |s| s.part_count.to_string()),
    ("tool calls", |s| sum_tools(s, |tool| tool.calls)),
    ("tool errors", |s| sum_tools(s, |tool| tool.errors)),
    ("errors", |s| s.errors.to_string()),
    ("tokens in", |s| s.tokens.input.to_string()),
    ("tokens out", |s| s.tokens.output.to_string()),
    ("  reasoning", |s| s.tokens.reasoning.to_string()),
    ("  cache read", |s| s.tokens.cache_read.to_string()),
    ("  cache write", |s| s.tokens.cache_write.to_string()),
    ("cost, USD", |s| format!("{:.4}", s.cost)),
    ("lines added", |s| s.changes.additions.to_string()),
    ("lines deleted", |s| s.changes.deletions.to_string()),
    ("files changed", |s| s.changes.files.to_string()),
    ("active", |s| seconds(s.active)),
];

/// Formats the sum of a count over all tools.
fn sum_tools(sums: &Sums, count: fn(&ToolUse) -> u64) -> String {
    sums.tools.values().map(count).sum::<u64>().to_string()
}

/// Formats milliseconds as seconds.
pub(super) fn seconds(millis: i64) -> String {
    format!("{}.{:03} s", millis / 1000, millis.rem_euclid(1000))
}

fn write(out: &mut impl Write, stats: &SessionStats) -> io::Result<()> {
    let row = &stats.session;
    let title = row.title.as_deref().unwrap_or("");
    writeln!(
        out,
        "{}",
        first_line(format!("{}  {title}", row.id).trim_end(), 200)
    )?;
    let sums = [
        ("OWN".to_owned(), &stats.own),
        ("WITH DESCENDANTS".to_owned(), &stats.with_descendants),
        ("WITHOUT COPIED".to_owned(), &stats.without_copied),
    ];
    writeln!(out, "{}", statistics_table(ROWS, &sums, true))?;
    writeln!(
        out,
        "from creation to the last change: {}",
        seconds(stats.duration)
    )?;
    write_names(out, &stats.with_descendants)
}

/// Lists agents, models, tools and parts, one line each, the most used first.
pub(super) fn write_names(out: &mut impl Write, sums: &Sums) -> std::io::Result<()> {
    let agents = sums.agents.iter().map(|(name, count)| (name, *count, 0));
    let models = sums.models.iter();
    let models = models.map(|(name, usage)| (name, usage.messages, 0));
    let tools = sums.tools.iter();
    let tools = tools.map(|(name, usage)| (name, usage.calls, usage.errors));
    let parts = sums.parts_by_type.iter();
    let parts = parts.map(|(name, count)| (name, *count, 0));
    write_counts(out, "agents", agents.collect())?;
    write_counts(out, "models", models.collect())?;
    write_counts(out, "tools", tools.collect())?;
    write_counts(out, "parts", parts.collect())
}

/// Lists names with the number of uses and of failures.
fn write_counts(
    out: &mut impl Write,
    label: &str,
    mut names: Vec<(&String, u64, u64)>,
) -> std::io::Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    names.sort_by_key(|(_, count, _)| std::cmp::Reverse(*count));
    let names = names.into_iter().map(|(name, count, errors)| {
        let name = first_line(name, 60);
        match errors {
            0 => format!("{name} {count}"),
            errors => format!("{name} {count} ({errors} failed)"),
        }
    });
    writeln!(out, "{label}: {}", names.collect::<Vec<_>>().join(", "))
}
