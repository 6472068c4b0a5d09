//! `filrouge project status`: exit 1 if a projection needs an operator.

use std::io::Write;

use filrouge_engine::Engine;
use filrouge_projections::{ProjectionStatus, projection_status};
use filrouge_types::{Clock, SystemClock};
use serde_json::json;

use crate::config::Config;
use crate::exit::{ExitCode, code};
use crate::open::{IfMissing, with};
use crate::output::{printable, show};
use crate::projections::{enabled, history_of};

/// The status of each enabled projection.
pub(super) async fn statuses(
    config: &Config,
    engine: &Engine,
) -> anyhow::Result<Vec<ProjectionStatus>> {
    let mut statuses = Vec::new();
    for projection in enabled(config) {
        let (history, now) = (history_of(projection), SystemClock.now());
        let status = projection_status(engine, &projection.name, history.as_ref(), None, now);
        statuses.push(status.await?);
    }
    Ok(statuses)
}

pub(super) async fn run(config: &Config) -> anyhow::Result<ExitCode> {
    let statuses = with(config, IfMissing::Fail, async |opened, _| {
        statuses(config, &opened.engine).await
    });
    let statuses = statuses.await?;
    show(config.json, &json!({ "projections": statuses }), |out| {
        if statuses.is_empty() {
            writeln!(out, "no projections are enabled")?;
        }
        for status in &statuses {
            writeln!(out, "{}: {}", status.name, printable(&detail(status)))?;
            for letter in &status.dead_letters {
                let text = format!(
                    "  dead: tenant {}, session {}, {} attempts, {}, {}",
                    letter.tenant, letter.session_id, letter.attempts, letter.reason, letter.at
                );
                writeln!(out, "{}", printable(&text))?;
            }
        }
        Ok(())
    })?;
    Ok(code(statuses.iter().all(is_well)))
}

/// Whether no operator is needed.
pub(super) fn is_well(status: &ProjectionStatus) -> bool {
    status.failures == 0 && status.uncleaned == 0 && status.dead_letters.is_empty()
}

/// The status on one line.
pub(super) fn detail(status: &ProjectionStatus) -> String {
    let mut parts = Vec::new();
    parts.push(match (status.generation, status.lag_commits) {
        (None, _) => "nothing is published".to_owned(),
        (Some(generation), None) if status.failures > 0 => format!("generation {generation}"),
        (Some(generation), Some(lag)) => format!("generation {generation}, {lag} commits behind"),
        (Some(generation), None) => {
            format!("generation {generation} is not kept up to date: its settings have changed")
        }
    });
    if let Some(building) = status.building {
        let lag = status.building_lag_commits;
        let lag = lag.map_or_else(String::new, |lag| format!(", {lag} commits behind"));
        parts.push(format!("generation {building} is being filled{lag}"));
    }
    if let Some(holder) = &status.holder {
        parts.push(format!("fed by {holder}"));
    }
    if status.failures > 0 {
        let error = status.last_error.as_deref().unwrap_or("unknown");
        parts.push(format!(
            "{} failures in a row, the last: {error}",
            status.failures
        ));
    }
    if let Some(at) = status.retry_at {
        parts.push(format!("next attempt at {at}"));
    }
    if status.older_states > 0 {
        parts.push(format!(
            "filled anew {} times, because the target had an older state",
            status.older_states
        ));
    }
    if status.uncleaned > 0 {
        parts.push(format!(
            "{} sessions must still be cleaned",
            status.uncleaned
        ));
    }
    if !status.dead_letters.is_empty() {
        parts.push(format!("{} dead letters", status.dead_letters.len()));
    }
    parts.join("; ")
}
