//! `filrouge team snapshots export ID [--to FOLDER]`

use std::path::PathBuf;
use std::process::ExitCode;

use filrouge_team::snapshot::export;
use filrouge_types::{ErrorCode, Failure, SessionId};
use serde_json::json;

use super::team_snapshots_list::no_folder;
use crate::config::Config;
use crate::exit::parsed;
use crate::open::{Need, with};
use crate::output::{document, say};
use crate::team::{snapshots, snapshots_in};

pub(super) async fn run(
    config: &Config,
    id: &str,
    to: Option<PathBuf>,
) -> anyhow::Result<ExitCode> {
    let snapshots = match to {
        Some(folder) => snapshots_in(config, folder)?,
        None => snapshots(config)?.ok_or_else(no_folder)?,
    };
    let session: SessionId = parsed(id)?;
    let written = with(config, Need::Existing, async |opened, caller| {
        let found = opened.engine.sessions.get(caller, &session).await?;
        let Some(team) = found.team_id else {
            let what = format!("session {id:?} belongs to no team");
            return Err(Failure::new(ErrorCode::Invalid, what).into());
        };
        let written = export(&opened.engine, caller, &team, id, &snapshots).await?;
        written.map_err(|warning| anyhow::anyhow!("{warning} [{}]", warning.what.code()))
    });
    let path = written.await?;
    if config.json {
        document(&json!({ "path": path.display().to_string() }))?;
    } else {
        say(path.display());
    }
    Ok(ExitCode::SUCCESS)
}
