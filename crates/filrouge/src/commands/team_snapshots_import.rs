//! `filrouge team snapshots import SNAPSHOT --team FILE`

use std::path::Path;
use std::process::ExitCode;

use filrouge_team::snapshot::import;
use serde_json::json;

use super::team_snapshots_show::read;
use crate::config::Config;
use crate::exit::report;
use crate::open::{Need, open};
use crate::output::{document, printable, say};
use crate::team::{Desk, exit_code, read_team};

pub(super) async fn run(config: &Config, path: &Path, team: &Path) -> anyhow::Result<ExitCode> {
    let team = read_team(team)?;
    let snapshot = read(config, path)?;
    let opened = open(config, Need::Any).await?;
    let brought = match Desk::new(config, &opened) {
        Ok(desk) => {
            let (engine, caller) = (opened.engine.clone(), desk.caller.clone());
            import(engine, caller, &team, &snapshot, desk.options())
                .await
                .map_err(anyhow::Error::from)
        }
        Err(error) => Err(error),
    };
    opened.close().await;
    let brought = match brought {
        Ok(brought) => brought,
        Err(error) => {
            return match exit_code(&error) {
                Some(code) => {
                    report(&error, config.json);
                    Ok(ExitCode::from(code))
                }
                None => Err(error),
            };
        }
    };
    if config.json {
        document(&json!({
            "session_id": brought.session_id,
            "added": brought.added,
            "known": brought.known,
            "differing": brought.differing,
            "redacted": brought.redacted,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    say(format_args!(
        "session {}: {} messages added, {} known, {} differing, {} redacted",
        printable(&brought.session_id),
        brought.added,
        brought.known,
        brought.differing.len(),
        brought.redacted
    ));
    Ok(ExitCode::SUCCESS)
}
