//! `filrouge team snapshots list [--team FILE]`

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use filrouge_team::snapshot::{SnapshotFile, SnapshotWarning};
use serde_json::{Value, json};

use crate::config::Config;
use crate::exit::Usage;
use crate::output::{first_line, printable, say, second, show};
use crate::team::{read_team, snapshots, teams};

pub(super) fn run(config: &Config, team: Option<&Path>) -> anyhow::Result<ExitCode> {
    let snapshots = snapshots(config)?.ok_or_else(no_folder)?;
    let teams = match team {
        Some(file) => vec![read_team(file)?.id.into()],
        None => teams(&snapshots).with_context(|| snapshots.folder().display().to_string())?,
    };
    let (mut files, mut unreadable) = (Vec::new(), Vec::new());
    for team in teams {
        match snapshots.list(&team) {
            Ok((team_files, warnings)) => {
                files.extend(team_files);
                unreadable.extend(warnings);
            }
            Err(folder) => unreadable.push(folder),
        }
    }
    show(config.json, &shown(&files, &unreadable), |out| {
        write(out, &files)
    })?;
    for warning in unreadable.iter().filter(|_| !config.json) {
        say(format_args!(
            "warning[{}]: {}",
            warning.what.code(),
            printable(&warning.to_string())
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// The error when no folder of snapshot files is configured.
pub(super) fn no_folder() -> Usage {
    Usage::new("there is no folder of snapshot files")
        .with_hint("set team.snapshots_dir, or FILROUGE_TEAM_SNAPSHOTS_DIR")
}

fn shown(files: &[SnapshotFile], unreadable: &[SnapshotWarning]) -> Value {
    let unreadable = unreadable.iter().map(|warning| {
        json!({
            "path": warning.path.display().to_string(),
            "code": warning.what.code(),
            "detail": warning.what.to_string(),
        })
    });
    json!({ "snapshots": files, "unreadable": unreadable.collect::<Vec<_>>() })
}

fn write(out: &mut impl Write, files: &[SnapshotFile]) -> io::Result<()> {
    for file in files {
        let old = if file.is_outdated { "  (outdated)" } else { "" };
        writeln!(
            out,
            "{}  {}  {}  {} messages  {}{old}\n  {}",
            printable(&file.team_id),
            first_line(&file.session_id, 256),
            second(file.updated_at),
            file.message_count,
            first_line(file.first_words.as_deref().unwrap_or(""), 80),
            printable(&file.path.display().to_string()),
        )?;
    }
    Ok(())
}
