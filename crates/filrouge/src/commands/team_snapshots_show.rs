//! `filrouge team snapshots show SNAPSHOT`

use std::io::Write;
use std::path::Path;

use filrouge_team::snapshot::{Problem, SessionSnapshot, Snapshots};
use serde_json::json;

use crate::config::Config;
use crate::exit::Usage;
use crate::output::{show, utc_time};
use crate::team::{message_json, snapshots_in};

pub(super) fn run(config: &Config, path: &Path) -> anyhow::Result<()> {
    let snapshot = read(config, path)?;
    let messages: Vec<_> = snapshot.messages.iter().map(message_json).collect();
    let output = json!({
        "team_id": snapshot.team_id,
        "session_id": snapshot.session_id,
        "created_at": snapshot.created_at,
        "updated_at": snapshot.updated_at,
        "task": snapshot.team_task,
        "messages": messages,
    });
    show(config.json, &output, |out| {
        let (id, team) = (&snapshot.session_id, &snapshot.team_id);
        writeln!(out, "{id}  team {team}  {}", utc_time(snapshot.created_at))?;
        if let Some(task) = &snapshot.team_task {
            writeln!(out, "task: {task}")?;
        }
        for message in &snapshot.messages {
            let cut = message.cut.map_or("", |_| "  (cut)");
            writeln!(
                out,
                "\n{}  {}  {}{cut}\n{}",
                message.id,
                message.speaker.name,
                utc_time(message.at),
                message.content.trim_end()
            )?;
        }
        Ok(())
    })
}

/// Reads a snapshot file in any folder.
///
/// # Errors
/// [`Usage`] for a missing file; for any other, the reason why it cannot be read.
pub(super) fn read(config: &Config, path: &Path) -> anyhow::Result<SessionSnapshot> {
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let snapshots: Snapshots = snapshots_in(config, folder)?;
    snapshots.read(path).map_err(|problem| match problem {
        Problem::Io(std::io::ErrorKind::NotFound, _) => {
            Usage::new(format!("{}: {problem}", path.display()))
                .with_hint("`filrouge team snapshots list` lists the files")
                .into()
        }
        problem => anyhow::anyhow!("{}: {problem} [{}]", path.display(), problem.code()),
    })
}
