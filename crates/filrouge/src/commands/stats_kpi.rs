//! `filrouge stats --kpi`: key figures of live calls, for a weekly export or for inspection.

use std::io::{self, Write};

use filrouge_engine::kpi::{KeyFigures, KpiQuery, KpiReport, KpiRow};
use filrouge_types::{Clock, SystemClock, Timestamp};

use crate::cli::{KpiFormat, Stats};
use crate::config::Config;
use crate::exit::Usage;
use crate::moment::Period;
use crate::open::{IfMissing, with};
use crate::output::{first_line, print, print_json, table};

pub(super) async fn run(config: &Config, args: &Stats) -> anyhow::Result<()> {
    let format = match args.format {
        None if config.json => KpiFormat::Json,
        None => KpiFormat::Table,
        Some(KpiFormat::Table | KpiFormat::Csv) if config.json => {
            return Err(Usage::new("--json means --format json").into());
        }
        Some(format) => format,
    };
    let query = query(args, SystemClock.now())?;
    let report = with(config, IfMissing::Fail, async |opened, caller| {
        Ok(opened.engine.events.key_figures(caller, query).await?)
    });
    let report = report.await?;
    match format {
        KpiFormat::Json => print_json(&report),
        KpiFormat::Csv => print(|out| out.write_all(report.csv().as_bytes())),
        KpiFormat::Table => print(|out| write(out, &report)),
    }
}

fn query(args: &Stats, now: Timestamp) -> Result<KpiQuery, Usage> {
    let period = Period::parse(args.since.as_deref(), args.until.as_deref(), now)?;
    Ok(KpiQuery {
        since: period.since,
        // Both ends of the period use the same current time, so that seven days are exactly seven days.
        until: Some(period.until.unwrap_or(now)),
        by: args.by,
    })
}

/// A column of the table: its name, and the function that formats its value.
type Column = (&'static str, fn(&KeyFigures) -> String);

const COLUMNS: &[Column] = &[
    ("CALLS", |f| f.calls.to_string()),
    ("LOCK TIMEOUTS", |f| f.call_lock_timeouts.to_string()),
    ("%", |f| {
        let alert = if f.call_lock_timeout_alert { "!" } else { "" };
        let rate = f.call_lock_timeout_rate_pct;
        rate.map_or("-".to_owned(), |pct| format!("{pct:.2}{alert}"))
    }),
    ("RESUMES", |f| f.resume_from_pg_count.to_string()),
    ("A CALL", |f| format_rate(f.resume_from_pg_rate)),
    ("RECONSTRUCTED", |f| format_rate(f.session_reconstruct_rate)),
    ("UNKNOWN STATE", |f| format_rate(f.unknown_state_rate)),
    ("TRANSFERRED", |f| format_rate(f.transfer_rate)),
    ("EVENTS", |f| f.events.to_string()),
];

fn format_rate(rate: Option<f64>) -> String {
    rate.map_or("-".to_owned(), |rate| format!("{rate:.4}"))
}

fn write(out: &mut impl Write, report: &KpiReport) -> io::Result<()> {
    let names = COLUMNS.iter().map(|(name, _)| *name);
    let rows = report.data.iter().map(|row| {
        let cells = COLUMNS.iter().map(|(_, format)| format(&row.figures));
        std::iter::once(period_text(row)).chain(cells)
    });
    let header = std::iter::once("PERIOD").chain(names);
    writeln!(out, "{}", table(header, 1..COLUMNS.len() + 1, rows))?;
    // The number of events of each kind follows a single row. With several rows, only the JSON form lists these
    // numbers.
    if let [row] = &report.data[..] {
        for kind in &row.figures.kinds {
            writeln!(out, "{:>9}  {}", kind.events, first_line(&kind.kind, 100))?;
        }
    }
    Ok(())
}

/// The period of a row: a week or a day, or else the start and the end of the period.
fn period_text(row: &KpiRow) -> String {
    let utc_time = |at: Timestamp| {
        let text = at.to_string();
        text.split('.').next().unwrap_or(&text).to_owned()
    };
    match &row.period {
        Some(period) => period.to_string(),
        None => format!("{}Z to {}Z", utc_time(row.since), utc_time(row.until)),
    }
}
