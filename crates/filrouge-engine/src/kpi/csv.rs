//! Reports as CSV (RFC 4180).

use std::fmt::Write;

use super::{KpiReport, KpiRow};

/// The columns: the members of a row in JSON, but for the kinds.
const COLUMNS: &str = "period,since,until,calls,call_lock_timeouts,call_lock_timeout_rate_pct,call_lock_timeout_alert,\
resume_from_pg_count,resume_from_pg_rate,sessions_reconstructed,session_reconstruct_rate,sessions_with_unknown_state,\
unknown_state_rate,sessions_transferred,transfer_rate,events";

impl KpiReport {
    /// The report as CSV: a line of names, and a line for each row; what is absent is empty. How many events there are
    /// of each kind is told in JSON alone. No cell holds what somebody else wrote, so that none needs quotes.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut text = format!("{COLUMNS}\r\n");
        for row in &self.data {
            line(&mut text, row);
        }
        text
    }
}

fn line(text: &mut String, row: &KpiRow) {
    let f = &row.figures;
    let rate = |rate: Option<f64>| rate.map_or(String::new(), |rate| rate.to_string());
    let cells = [
        row.period.clone().unwrap_or_default().into_string(),
        row.since.to_string(),
        row.until.to_string(),
        f.calls.to_string(),
        f.call_lock_timeouts.to_string(),
        rate(f.call_lock_timeout_rate_pct),
        f.call_lock_timeout_alert.to_string(),
        f.resume_from_pg_count.to_string(),
        rate(f.resume_from_pg_rate),
        f.sessions_reconstructed.to_string(),
        rate(f.session_reconstruct_rate),
        f.sessions_with_unknown_state.to_string(),
        rate(f.unknown_state_rate),
        f.sessions_transferred.to_string(),
        rate(f.transfer_rate),
        f.events.to_string(),
    ];
    // A text takes all that is written to it.
    let _ = write!(text, "{}\r\n", cells.join(","));
}
