//! `filrouge team snapshots import SNAPSHOT --team FILE`

use std::path::Path;

use filrouge_team::snapshot::import;

use super::team_deploy::report_with_code;
use super::team_snapshots_show::read;
use crate::config::Config;
use crate::exit::ExitCode;
use crate::open::{IfMissing, with};
use crate::output::{print_json, print_stderr};
use crate::team::{Deployment, read_team};

pub(super) async fn run(config: &Config, path: &Path, team: &Path) -> anyhow::Result<ExitCode> {
    let team = read_team(team)?;
    let snapshot = read(config, path)?;
    let imported = with(config, IfMissing::Create, async |opened, caller| {
        let deployment = Deployment::new(config, opened)?;
        let (engine, caller) = (opened.engine.clone(), caller.clone());
        Ok(import(engine, caller, &team, &snapshot, deployment.options()).await?)
    });
    let imported = match imported.await {
        Ok(imported) => imported,
        Err(error) => return report_with_code(config, error),
    };
    if config.json {
        print_json(&imported)?;
        return Ok(ExitCode::SUCCESS);
    }
    print_stderr(format_args!(
        "session {}: {} messages added, {} known, {} differing, {} redacted",
        imported.session_id,
        imported.added,
        imported.known,
        imported.differing.len(),
        imported.redacted
    ));
    Ok(ExitCode::SUCCESS)
}
