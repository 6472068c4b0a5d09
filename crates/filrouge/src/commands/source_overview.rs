//! `filrouge stats --source …`: entire histories

use std::io::{self, Write};

use filrouge_sources::library::list::Ask;
use filrouge_sources::library::stats::{Day, Overview, Sums, overview};
use filrouge_types::{Clock, SystemClock, Timestamp};

use super::source::{query_named, say_notices};
use super::source_stats::{ROWS, seconds, write_names};
use super::stats::columns;
use crate::cli::Stats;
use crate::config::Config;
use crate::exit::Usage;
use crate::moment::Span;
use crate::output::{first_line, show, table};

/// Width of the longest bar in columns.
const BAR: u64 = 40;

pub(super) async fn run(config: &Config, args: Stats) -> anyhow::Result<()> {
    let question = question(&args)?;
    let totals = query_named(config, &args.sources, move |library| {
        overview(library, &question)
    })
    .await?;
    show(config.json, &totals, |out| write(out, &totals))?;
    if !config.json {
        say_notices(&totals.notices);
    }
    Ok(())
}

fn question(args: &Stats) -> Result<Ask, Usage> {
    let (since, until) = (args.since.as_deref(), args.until.as_deref());
    let span = Span::read(since, until, SystemClock.now())?;
    Ok(Ask {
        project_id: args.project.clone(),
        agent: args.agent.clone(),
        since: span.since.map(Timestamp::as_millis),
        until: span.until.map(Timestamp::as_millis),
        mask: !args.unmasked,
        ..Ask::default()
    })
}

fn write(out: &mut impl Write, totals: &Overview) -> io::Result<()> {
    let mut shown = vec![
        ("ALL".to_owned(), &totals.all),
        ("WITHOUT COPIED".to_owned(), &totals.without_copied),
    ];
    if totals.by_source.len() > 1 {
        let by_source = totals.by_source.iter();
        shown.extend(by_source.map(|(name, sums)| (name.to_uppercase(), sums)));
    }
    writeln!(out, "{}", columns(ROWS, &shown, true))?;
    write_names(out, &totals.all)?;
    writeln!(out)?;
    write_projects(out, &totals.by_project)?;
    writeln!(out)?;
    write_days(out, &totals.days)
}

fn write_projects(out: &mut impl Write, projects: &[(String, Sums)]) -> io::Result<()> {
    let rows = projects.iter().map(|(name, sums)| {
        [
            first_line(name, 60),
            sums.sessions.to_string(),
            sums.message_count.to_string(),
            sums.tokens.total().to_string(),
            format!("{:.4}", sums.cost),
            seconds(sums.active),
        ]
    });
    let header = [
        "PROJECT", "SESSIONS", "MESSAGES", "TOKENS", "COST", "ACTIVE",
    ];
    writeln!(out, "{}", table(header, 1..6, rows))
}

/// Draws a bar for each day with messages, in proportion to the busiest day's messages.
fn write_days(out: &mut impl Write, days: &[Day]) -> io::Result<()> {
    let busiest = days
        .iter()
        .map(|day| day.messages)
        .max()
        .unwrap_or(0)
        .max(1);
    for day in days {
        // A day with any message has a visible bar.
        let length = (day.messages * BAR).div_ceil(busiest);
        let bar = "█".repeat(usize::try_from(length).unwrap_or(0));
        let width = usize::try_from(BAR).unwrap_or(0);
        let (date, messages, tokens) =
            (first_line(&day.date, 10), day.messages, day.tokens.total());
        writeln!(
            out,
            "{date}  {bar:<width$}  {messages} messages, {tokens} tokens, {:.4} USD",
            day.cost
        )?;
    }
    Ok(())
}
