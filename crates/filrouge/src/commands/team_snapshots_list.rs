//! `filrouge team snapshots list [--team FILE]`

use std::io::{self, Write};
use std::path::Path;

use anyhow::Context as _;
use filrouge_team::snapshot::{SnapshotFile, SnapshotWarning};
use serde_json::{Value, json};

use crate::config::Config;
use crate::exit::Usage;
use crate::output::{first_line, print_stderr, show, utc_time};
use crate::team::{read_team, snapshots, team_ids};

pub(super) fn run(config: &Config, team: Option<&Path>) -> anyhow::Result<()> {
    let snapshots = snapshots(config)?.ok_or_else(no_folder_error)?;
    let team_ids = match team {
        Some(file) => vec![read_team(file)?.id.into()],
        None => team_ids(&snapshots).with_context(|| snapshots.folder().display().to_string())?,
    };
    let (mut files, mut unreadable) = (Vec::new(), Vec::new());
    for team in team_ids {
        match snapshots.list(&team) {
            Ok((team_files, warnings)) => {
                files.extend(team_files);
                unreadable.extend(warnings);
            }
            Err(folder) => unreadable.push(folder),
        }
    }
    show(config.json, &json_output(&files, &unreadable), |out| {
        write(out, &files)
    })?;
    for warning in unreadable.iter().filter(|_| !config.json) {
        print_stderr(format_args!(
            "warning[{}]: {}",
            warning.problem.code(),
            warning
        ));
    }
    Ok(())
}

/// The error when no folder of snapshot files is configured.
pub(super) fn no_folder_error() -> Usage {
    Usage::new("there is no folder of snapshot files")
        .with_hint("set team.snapshots_dir, or FILROUGE_TEAM_SNAPSHOTS_DIR")
}

fn json_output(files: &[SnapshotFile], unreadable: &[SnapshotWarning]) -> Value {
    let unreadable = unreadable.iter().map(|warning| {
        json!({
            "path": warning.path.display().to_string(),
            "code": warning.problem.code(),
            "detail": warning.problem.to_string(),
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
            file.team_id,
            first_line(&file.session_id, 256),
            utc_time(file.updated_at),
            file.message_count,
            first_line(file.first_words.as_deref().unwrap_or(""), 80),
            file.path.display(),
        )?;
    }
    Ok(())
}
