//! `filrouge stats --source …`: entire histories

use std::io::{self, Write};

use filrouge_sources::library::list::ListRequest;
use filrouge_sources::library::stats::{Day, Overview, Sums, overview};
use filrouge_types::{Clock, SystemClock, Timestamp};

use super::source::{print_notices, query_named, show_history};
use super::source_stats::{ROWS, seconds, write_names};
use super::stats::statistics_table;
use crate::cli::Stats;
use crate::config::Config;
use crate::exit::Usage;
use crate::moment::Period;
use crate::output::{first_line, table};

/// The width of the longest bar in columns.
const BAR_WIDTH: u64 = 40;

pub(super) async fn run(config: &Config, args: Stats) -> anyhow::Result<()> {
    let request = request(&args)?;
    let totals = query_named(config, &args.sources, move |library| {
        overview(library, &request)
    })
    .await?;
    show_history(config.json, &totals, |out| write(out, &totals))?;
    if !config.json {
        print_notices(&totals.notices);
    }
    Ok(())
}

fn request(args: &Stats) -> Result<ListRequest, Usage> {
    let (since, until) = (args.since.as_deref(), args.until.as_deref());
    let period = Period::parse(since, until, SystemClock.now())?;
    Ok(ListRequest {
        project_id: args.project.clone(),
        agent: args.agent.clone(),
        since: period.since.map(Timestamp::as_millis),
        until: period.until.map(Timestamp::as_millis),
        mask: !args.unmasked,
        ..ListRequest::default()
    })
}

fn write(out: &mut impl Write, totals: &Overview) -> io::Result<()> {
    let mut sums_by_column = vec![
        ("ALL".to_owned(), &totals.all),
        ("WITHOUT COPIED".to_owned(), &totals.without_copied),
    ];
    if totals.by_source.len() > 1 {
        let by_source = totals.by_source.iter();
        sums_by_column.extend(by_source.map(|(name, sums)| (name.to_uppercase(), sums)));
    }
    writeln!(out, "{}", statistics_table(ROWS, &sums_by_column, true))?;
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
    let messages = days.iter().map(|day| day.messages);
    let busiest = messages.max().unwrap_or(0).max(1);
    for day in days {
        // A day with any message has a visible bar.
        let length = (day.messages * BAR_WIDTH).div_ceil(busiest);
        let bar = "█".repeat(usize::try_from(length).unwrap_or(0));
        let width = usize::try_from(BAR_WIDTH).unwrap_or(0);
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
