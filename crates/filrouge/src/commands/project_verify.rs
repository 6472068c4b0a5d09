//! `filrouge project verify NAME`: exit 0 equal, 1 different.

use std::io::Write;
use std::process::ExitCode;

use filrouge_projections::{Difference, verify};
use serde_json::json;

use crate::config::Config;
use crate::exit::code;
use crate::open::{IfMissing, refuse_unverified, with};
use crate::output::{printable, show};
use crate::projections::open_named;

pub(super) async fn run(config: &Config, name: &str) -> anyhow::Result<ExitCode> {
    refuse_unverified(config)?;
    let projection = open_named(config, name)?;
    let mut differences = Vec::new();
    let report = |difference: &Difference| differences.push(difference.clone());
    let verified = with(config, IfMissing::Fail, async |opened, _| {
        Ok(verify(&opened.engine, &projection, report).await?)
    });
    let verified = verified.await?;
    let output = json!({
        "name": name, "sessions": verified.sessions, "rows": verified.rows,
        "lag_commits": verified.lag_commits, "differences": differences,
    });
    show(config.json, &output, |out| {
        for difference in &differences {
            writeln!(out, "{}", printable(&line(difference)))?;
        }
        let verdict = match verified.differences {
            0 => "equal".to_owned(),
            count => format!("{count} differences"),
        };
        let (sessions, rows) = (verified.sessions, verified.rows);
        writeln!(out, "{name}: {verdict}: {sessions} sessions, {rows} rows")?;
        if verified.lag_commits > 0 {
            let lag = verified.lag_commits;
            writeln!(
                out,
                "the projection is {lag} commits behind; differences may be changes that it lacks"
            )?;
        }
        Ok(())
    })?;
    Ok(code(verified.differences == 0))
}

fn line(difference: &Difference) -> String {
    let Difference {
        tenant,
        session_id,
        kind,
        table,
        id,
        columns,
    } = difference;
    let columns = match columns.is_empty() {
        true => String::new(),
        false => format!(": {}", columns.join(", ")),
    };
    format!("{kind}: tenant {tenant}, session {session_id}, {table} {id}{columns}")
}
