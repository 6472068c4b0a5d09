//! Snapshot files and the ledger: what one has and the other has not (DESIGN §11).

use std::path::PathBuf;

use filrouge_engine::Caller;
use filrouge_engine::Engine;
use filrouge_types::{ErrorCode, Failure, SessionId, Timestamp};

use super::{SnapshotFile, SnapshotWarning, Snapshots};
use crate::ledger::open::{created_at, read_with};
use crate::ledger::other_id;
use crate::sessions::look;

/// Why a file is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The ledger does not know its session.
    Unknown,
    /// It has newer messages than the ledger.
    Newer,
}

/// A file that is offered for import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The file.
    pub file: SnapshotFile,
    /// Why.
    pub why: Why,
}

/// What there is to import.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Importable {
    /// Files with what the ledger has not, newest first.
    pub offers: Vec<Offer>,
    /// Files of sessions that were erased from the ledger: they are not offered.
    pub erased: Vec<PathBuf>,
    /// Files that cannot be read.
    pub unreadable: Vec<SnapshotWarning>,
}

/// Writes a session's file from the ledger; who has it open is not asked.
///
/// # Errors
/// `session_not_found`, `session_erased`, `invalid` when the session is another team's; within, what is wrong with the file.
pub async fn export(
    engine: &Engine,
    caller: &Caller,
    team_id: &str,
    id: &str,
    snapshots: &Snapshots,
) -> Result<Result<PathBuf, SnapshotWarning>, Failure> {
    let (session, conversation) = read_with(engine, caller, team_id, id).await?;
    let created_at = created_at(&session);
    let snapshot = conversation.into_snapshot(team_id, &session.session_id, created_at);
    Ok(snapshots.save(snapshot).await)
}

/// What the ledger has of a file's session.
enum There {
    Nothing,
    Until(Option<Timestamp>),
    Erased,
}

/// The files of a team that hold what the ledger has not.
///
/// # Errors
/// The ledger's. A folder that cannot be read stands among what cannot be read.
pub async fn importable(
    engine: &Engine,
    caller: &Caller,
    team_id: &str,
    snapshots: &Snapshots,
) -> Result<Importable, Failure> {
    let team = team_id.to_owned();
    let listed = snapshots.apart(move |snapshots| snapshots.list(&team));
    let mut found = Importable::default();
    let files = match listed.await {
        Ok((files, unreadable)) => {
            found.unreadable = unreadable;
            files
        }
        Err(folder) => {
            found.unreadable.push(folder);
            return Ok(found);
        }
    };
    for file in files.into_iter().filter(|file| !file.is_outdated) {
        let why = match there(engine, caller, team_id, &file.session_id).await? {
            There::Nothing => Why::Unknown,
            There::Until(newest) if newest < file.newest_at => Why::Newer,
            There::Until(_) => continue,
            There::Erased => {
                found.erased.push(file.path);
                continue;
            }
        };
        found.offers.push(Offer { file, why });
    }
    Ok(found)
}

/// What the ledger has of a session, under its id or the one that it was brought under.
async fn there(
    engine: &Engine,
    caller: &Caller,
    team_id: &str,
    id: &str,
) -> Result<There, Failure> {
    let Ok(own) = SessionId::new(id) else {
        return Ok(There::Nothing);
    };
    for id in [own, other_id(caller, team_id, id)?] {
        let session = match engine.sessions.get(caller, &id).await {
            Ok(session) => session,
            Err(failure) if failure.code == ErrorCode::SessionNotFound => continue,
            Err(failure) if failure.code == ErrorCode::SessionErased => return Ok(There::Erased),
            Err(failure) => return Err(failure),
        };
        if session.team_id.as_deref() == Some(team_id) {
            let seen = look(engine, caller, &session).await?;
            return Ok(There::Until(seen.newest_at));
        }
    }
    Ok(There::Nothing)
}
