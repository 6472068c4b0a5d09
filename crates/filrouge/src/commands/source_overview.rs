//! `filrouge stats --source …`: whole histories

use std::io::{self, Write};

use filrouge_sources::library::list::Ask;
use filrouge_sources::library::stats::{Day, Overview, Sums, overview};
use filrouge_types::{Clock, SystemClock, Timestamp};

use super::source::{ask_named, say_notices};
use super::source_stats::{ROWS, seconds, write_names};
use super::stats::columns;
use crate::cli::Stats;
use crate::config::Config;
use crate::exit::Usage;
use crate::moment::Span;
use crate::output::{first_line, show, table};

/// Columns of the longest bar.
const BAR: u64 = 40;

pub(super) async fn run(config: &Config, asked: Stats) -> anyhow::Result<()> {
    let question = question(&asked)?;
    let found = ask_named(config, &asked.sources, move |library| {
        overview(library, &question)
    })
    .await?;
    show(config.json, &found, |out| write(out, &found))?;
    if !config.json {
        say_notices(&found.notices);
    }
    Ok(())
}

fn question(asked: &Stats) -> Result<Ask, Usage> {
    let (since, until) = (asked.since.as_deref(), asked.until.as_deref());
    let span = Span::read(since, until, SystemClock.now())?;
    Ok(Ask {
        project_id: asked.project.clone(),
        agent: asked.agent.clone(),
        since: span.since.map(Timestamp::as_millis),
        until: span.until.map(Timestamp::as_millis),
        mask: !asked.unmasked,
        ..Ask::default()
    })
}

fn write(out: &mut impl Write, found: &Overview) -> io::Result<()> {
    let mut shown = vec![
        ("ALL".to_owned(), &found.all),
        ("WITHOUT COPIED".to_owned(), &found.without_copied),
    ];
    if found.by_source.len() > 1 {
        let by_source = found.by_source.iter();
        shown.extend(by_source.map(|(name, sums)| (name.to_uppercase(), sums)));
    }
    writeln!(out, "{}", columns(ROWS, &shown, true))?;
    write_names(out, &found.all)?;
    writeln!(out)?;
    write_projects(out, &found.by_project)?;
    writeln!(out)?;
    write_days(out, &found.days)
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

/// A bar for each day on which something was said, as long as its share of the busiest day's messages.
fn write_days(out: &mut impl Write, days: &[Day]) -> io::Result<()> {
    let most = days
        .iter()
        .map(|day| day.messages)
        .max()
        .unwrap_or(0)
        .max(1);
    for day in days {
        // A day with anything has a bar that is seen.
        let length = (day.messages * BAR).div_ceil(most);
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
