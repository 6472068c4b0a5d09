//! `filrouge team snapshots export ID [--to FOLDER]`

use std::path::PathBuf;

use filrouge_team::snapshot::export;
use filrouge_types::{ErrorCode, Failure, SessionId};
use serde_json::json;

use super::team_snapshots_list::no_folder_error;
use crate::config::Config;
use crate::exit::parse;
use crate::open::{IfMissing, with};
use crate::output::{print_json, print_stderr};
use crate::team::{snapshots, snapshots_in};

pub(super) async fn run(config: &Config, id: &str, to: Option<PathBuf>) -> anyhow::Result<()> {
    let snapshots = match to {
        Some(folder) => snapshots_in(config, folder)?,
        None => snapshots(config)?.ok_or_else(no_folder_error)?,
    };
    let session: SessionId = parse(id)?;
    let written = with(config, IfMissing::Fail, async |opened, caller| {
        let session_record = opened.engine.sessions.get(caller, &session).await?;
        let Some(team) = session_record.team_id else {
            let detail = format!("session {id:?} belongs to no team");
            return Err(Failure::new(ErrorCode::Invalid, detail).into());
        };
        let written = export(&opened.engine, caller, &team, id, &snapshots).await?;
        written.map_err(|warning| anyhow::anyhow!("{warning} [{}]", warning.problem.code()))
    });
    let path = written.await?;
    if config.json {
        print_json(&json!({ "path": path.display().to_string() }))?;
    } else {
        print_stderr(path.display());
    }
    Ok(())
}
