//! `filrouge stats --kpi`: key figures of live calls, for an export a week or to look at.

use std::io::{self, Write};

use filrouge_engine::kpi::{KpiQuery, KpiReport, KpiRow};
use filrouge_types::{Clock, SystemClock, Timestamp};

use crate::cli::{KpiFormat, Stats};
use crate::config::Config;
use crate::exit::Usage;
use crate::moment::Span;
use crate::open::{Need, with};
use crate::output::{document, first_line, print, table};

pub(super) async fn run(config: &Config, asked: &Stats) -> anyhow::Result<()> {
    let format = match asked.format {
        None if config.json => KpiFormat::Json,
        None => KpiFormat::Table,
        Some(KpiFormat::Table | KpiFormat::Csv) if config.json => {
            return Err(Usage::new("--json is another word for --format json").into());
        }
        Some(format) => format,
    };
    let query = query(asked, SystemClock.now())?;
    let report = with(config, Need::Existing, async |opened, caller| {
        Ok(opened.engine.events.key_figures(caller, query).await?)
    });
    let report = report.await?;
    match format {
        KpiFormat::Json => document(&report),
        KpiFormat::Csv => print(|out| out.write_all(report.csv().as_bytes())),
        KpiFormat::Table => print(|out| write(out, &report)),
    }
}

fn query(asked: &Stats, now: Timestamp) -> Result<KpiQuery, Usage> {
    let span = Span::read(asked.since.as_deref(), asked.until.as_deref(), now)?;
    Ok(KpiQuery {
        since: span.since,
        // One now for both: seven days are seven days.
        until: Some(span.until.unwrap_or(now)),
        by: asked.by,
    })
}

/// What a column of the table shows.
type Column = (&'static str, fn(&KpiRow) -> String);

const COLUMNS: &[Column] = &[
    ("CALLS", |row| row.figures.calls.to_string()),
    ("LOCK TIMEOUTS", |row| {
        row.figures.call_lock_timeouts.to_string()
    }),
    ("%", |row| {
        let alert = if row.figures.call_lock_timeout_alert {
            "!"
        } else {
            ""
        };
        let rate = row.figures.call_lock_timeout_rate_pct;
        rate.map_or("-".to_owned(), |pct| format!("{pct:.2}{alert}"))
    }),
    ("RESUMES", |row| {
        row.figures.resume_from_pg_count.to_string()
    }),
    ("A CALL", |row| shown(row.figures.resume_from_pg_rate)),
    ("RECONSTRUCTED", |row| {
        shown(row.figures.session_reconstruct_rate)
    }),
    ("UNKNOWN STATE", |row| shown(row.figures.unknown_state_rate)),
    ("TRANSFERRED", |row| shown(row.figures.transfer_rate)),
    ("EVENTS", |row| row.figures.events.to_string()),
];

fn shown(rate: Option<f64>) -> String {
    rate.map_or("-".to_owned(), |rate| format!("{rate:.4}"))
}

fn write(out: &mut impl Write, report: &KpiReport) -> io::Result<()> {
    let names = COLUMNS.iter().map(|(name, _)| *name);
    let rows = report.data.iter().map(|row| {
        let cells = COLUMNS.iter().map(|(_, shown)| shown(row));
        std::iter::once(period(row)).chain(cells)
    });
    let header = std::iter::once("PERIOD").chain(names);
    writeln!(out, "{}", table(header, 1..COLUMNS.len() + 1, rows))?;
    // Rows tell how many events of each kind there are in JSON; one row has room for it here.
    if let [row] = &report.data[..] {
        for kind in &row.figures.kinds {
            writeln!(out, "{:>9}  {}", kind.events, first_line(&kind.kind, 100))?;
        }
    }
    Ok(())
}

/// A week or day, or from when to when.
fn period(row: &KpiRow) -> String {
    let second = |at: Timestamp| {
        let text = at.to_string();
        text.split('.').next().unwrap_or(&text).to_owned()
    };
    match &row.period {
        Some(period) => period.to_string(),
        None => format!("{}Z to {}Z", second(row.since), second(row.until)),
    }
}
