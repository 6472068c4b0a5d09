//! Snapshot files of sessions whose contents were erased: they must not outlive them.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;

use anyhow::Context as _;
use filrouge_team::snapshot::{Snapshots, export};
use filrouge_types::{Failure, SessionId, Timestamp};

use super::desk::snapshots;
use crate::config::Config;
use crate::open::{Opened, operator};

/// The folders of teams, which are called as their ids.
///
/// # Errors
/// The folder cannot be read; one that is not there has none.
pub(crate) fn teams(snapshots: &Snapshots) -> io::Result<Vec<String>> {
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

/// Removes the snapshot files of sessions that were erased.
///
/// # Errors
/// What cannot be read or removed; the files that are left still hold what was said.
pub(crate) fn forget(config: &Config, sessions: &[SessionId]) -> anyhow::Result<()> {
    let Some(folder) = config.team.snapshots_dir.clone() else {
        return Ok(());
    };
    if sessions.is_empty() {
        return Ok(());
    }
    for path in files_of(&Snapshots::new(folder), sessions)? {
        remove(&path)?;
    }
    Ok(())
}

/// Writes the snapshot files of a session again, if it has any: what was redacted is in them no longer.
///
/// # Errors
/// As [`forget`]; the ledger's.
pub(crate) async fn rewrite(
    config: &Config,
    opened: &Opened,
    session: &SessionId,
) -> anyhow::Result<()> {
    let Some(folder) = config.team.snapshots_dir.clone() else {
        return Ok(());
    };
    let found = files_of(&Snapshots::new(folder), std::slice::from_ref(session))?;
    let caller = operator(config);
    let team = opened.engine.sessions.get(&caller, session).await?.team_id;
    let (Some(team), false) = (team, found.is_empty()) else {
        return Ok(());
    };
    let Some(snapshots) = snapshots(config)? else {
        return Ok(());
    };
    let written = export(&opened.engine, &caller, &team, session.as_str(), &snapshots).await??;
    found
        .iter()
        .filter(|path| **path != written && path.exists())
        .try_for_each(remove)
}

fn remove(path: &PathBuf) -> anyhow::Result<()> {
    std::fs::remove_file(path).with_context(|| format!("{} still holds it", path.display()))
}

/// The files of these sessions, by their names: `<createdAt>-<session>.json`, or `.json.age`.
fn files_of(snapshots: &Snapshots, sessions: &[SessionId]) -> io::Result<Vec<PathBuf>> {
    let stem = |id: &SessionId| {
        let path = snapshots.path_of("", Timestamp::from_micros(0), id.as_str());
        let name = path.file_name()?.to_str()?;
        let stem = name.strip_prefix("0-")?;
        Some(stem.strip_suffix(".json").unwrap_or(stem).to_owned())
    };
    let stems: HashSet<String> = sessions.iter().filter_map(stem).collect();
    let mut found = Vec::new();
    for team in teams(snapshots)? {
        for entry in std::fs::read_dir(snapshots.folder().join(team))? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let plain = name.strip_suffix(".age").unwrap_or(&name);
            let parts = plain.strip_suffix(".json").and_then(|n| n.split_once('-'));
            let of = parts.filter(|(time, _)| time.bytes().all(|b| b.is_ascii_digit()));
            if of.is_some_and(|(_, session)| stems.contains(session)) {
                found.push(entry.path());
            }
        }
    }
    Ok(found)
}

/// Says of a failure that the contents themselves are gone.
pub(crate) fn but_files(done: &str, error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<Failure>() {
        Ok(failure) => failure.into(),
        Err(error) => error.context(format!("{done}, but a snapshot file was not")),
    }
}
