//! Removes erased contents from teams' snapshot files, after they were erased in the ledger.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;

use anyhow::Context as _;
use filrouge_team::snapshot::{Snapshots, export};
use filrouge_types::{Failure, SessionId, Timestamp};

use super::deployment::snapshots;
use crate::config::Config;
use crate::open::{OpenStore, operator};

/// The ids of the teams that have a folder of snapshot files; each folder has its team's id as its name.
///
/// # Errors
/// When the folder cannot be read. A missing folder is no error.
pub(crate) fn team_ids(snapshots: &Snapshots) -> io::Result<Vec<String>> {
    let mut teams = Vec::new();
    let entries = match std::fs::read_dir(snapshots.folder()) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(teams),
        Err(e) => return Err(e),
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir()
            && let Ok(name) = entry.file_name().into_string()
        {
            teams.push(name);
        }
    }
    teams.sort();
    Ok(teams)
}

/// Removes the snapshot files of erased sessions.
///
/// # Errors
/// A folder or file that cannot be read or removed. The remaining files still contain the erased texts.
pub(crate) fn remove_snapshot_files(config: &Config, sessions: &[SessionId]) -> anyhow::Result<()> {
    let Some(folder) = config.team.snapshots_dir.clone() else {
        return Ok(());
    };
    if sessions.is_empty() {
        return Ok(());
    }
    for path in snapshot_files(&Snapshots::new(folder), sessions)? {
        remove_file(&path)?;
    }
    Ok(())
}

/// Rewrites the snapshot files of a session, if it has any, without the redacted contents.
///
/// # Errors
/// As [`remove_snapshot_files`]; errors of the ledger.
pub(crate) async fn rewrite_snapshot_files(
    config: &Config,
    opened: &OpenStore,
    session: &SessionId,
) -> anyhow::Result<()> {
    let Some(folder) = config.team.snapshots_dir.clone() else {
        return Ok(());
    };
    let files = snapshot_files(&Snapshots::new(folder), std::slice::from_ref(session))?;
    let caller = operator(config);
    let team = opened.engine.sessions.get(&caller, session).await?.team_id;
    let (Some(team), false) = (team, files.is_empty()) else {
        return Ok(());
    };
    let Some(snapshots) = snapshots(config)? else {
        return Ok(());
    };
    let written = export(&opened.engine, &caller, &team, session.as_str(), &snapshots).await??;
    files
        .iter()
        .filter(|path| **path != written && path.exists())
        .try_for_each(remove_file)
}

fn remove_file(path: &PathBuf) -> anyhow::Result<()> {
    std::fs::remove_file(path)
        .with_context(|| format!("{} still contains the erased texts", path.display()))
}

/// The snapshot files of these sessions, found by their names: `<createdAt>-<session>.json`, or `.json.age` if
/// encrypted.
fn snapshot_files(snapshots: &Snapshots, sessions: &[SessionId]) -> io::Result<Vec<PathBuf>> {
    let stem = |id: &SessionId| {
        let path = snapshots.file_path("", Timestamp::from_micros(0), id.as_str());
        let name = path.file_name()?.to_str()?;
        // `0-` is the time of creation given above; the files of the session have other times.
        let stem = name.strip_prefix("0-")?;
        Some(stem.strip_suffix(".json").unwrap_or(stem).to_owned())
    };
    let stems: HashSet<String> = sessions.iter().filter_map(stem).collect();
    let mut files = Vec::new();
    for team in team_ids(snapshots)? {
        for entry in std::fs::read_dir(snapshots.folder().join(team))? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let plain = name.strip_suffix(".age").unwrap_or(&name);
            let parts = plain.strip_suffix(".json").and_then(|n| n.split_once('-'));
            let parts = parts.filter(|(time, _)| time.bytes().all(|b| b.is_ascii_digit()));
            if parts.is_some_and(|(_, session)| stems.contains(session)) {
                files.push(entry.path());
            }
        }
    }
    Ok(files)
}

/// Adds `ledger_outcome`, such as "erased from the ledger", to an error about a snapshot file. Returns a `Failure` of
/// the ledger unchanged.
pub(crate) fn snapshot_file_error(ledger_outcome: &str, error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<Failure>() {
        Ok(failure) => failure.into(),
        Err(error) => error.context(format!("{ledger_outcome}, but a snapshot file was not")),
    }
}
