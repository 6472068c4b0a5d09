//! Compares snapshot files with the ledger, and exports to files (DESIGN §11).

use std::path::PathBuf;

use filrouge_engine::{Caller, Engine};
use filrouge_types::{ErrorCode, Failure, SessionId, Timestamp};

use super::{SnapshotFile, SnapshotWarning, Snapshots};
use crate::ledger::alternative_id;
use crate::ledger::open::{created_at, read_session_and_conversation};
use crate::sessions::summarize;

/// The reason why a file is offered for import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfferReason {
    /// The ledger does not have the file's session.
    NotInLedger,
    /// The file has newer messages than the ledger.
    Newer,
}

/// A file that is offered for import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The file.
    pub file: SnapshotFile,
    /// The reason.
    pub reason: OfferReason,
}

/// The files of a team that could be imported, and those that cannot: erased or unreadable. Files with nothing new are
/// left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Importable {
    /// Files with content that the ledger lacks, newest first.
    pub offers: Vec<Offer>,
    /// Files of sessions that were erased from the ledger: they are not offered.
    pub erased: Vec<PathBuf>,
    /// Files that cannot be read.
    pub unreadable: Vec<SnapshotWarning>,
}

/// Writes a session's file from the ledger, whether or not the session is open elsewhere.
///
/// # Errors
/// `session_not_found`, `session_erased`, `invalid` if the session belongs to another team; the inner result reports a
/// problem with the file.
pub async fn export(
    engine: &Engine,
    caller: &Caller,
    team_id: &str,
    id: &str,
    snapshots: &Snapshots,
) -> Result<Result<PathBuf, SnapshotWarning>, Failure> {
    let (session, conversation) =
        read_session_and_conversation(engine, caller, team_id, id).await?;
    let created_at = created_at(&session);
    let snapshot = conversation.into_snapshot(team_id, &session.session_id, created_at);
    Ok(snapshots.save(snapshot).await)
}

/// The ledger's state of a file's session.
enum LedgerState {
    /// The ledger does not have the session.
    Absent,
    /// The ledger has it; its newest message was said at this time.
    Present(Option<Timestamp>),
    /// The session was erased.
    Erased,
}

/// Finds the files of a team with content that the ledger lacks.
///
/// # Errors
/// The ledger's. A folder that cannot be read is reported among the unreadable files.
pub async fn importable(
    engine: &Engine,
    caller: &Caller,
    team_id: &str,
    snapshots: &Snapshots,
) -> Result<Importable, Failure> {
    let team = team_id.to_owned();
    let listed = snapshots.on_blocking_thread(move |snapshots| snapshots.list(&team));
    let mut importable_files = Importable::default();
    let files = match listed.await {
        Ok((files, unreadable)) => {
            importable_files.unreadable = unreadable;
            files
        }
        Err(folder_warning) => {
            importable_files.unreadable.push(folder_warning);
            return Ok(importable_files);
        }
    };
    for file in files.into_iter().filter(|file| !file.is_outdated) {
        let reason = match ledger_state(engine, caller, team_id, &file.session_id).await? {
            LedgerState::Absent => OfferReason::NotInLedger,
            LedgerState::Present(newest) if newest < file.newest_at => OfferReason::Newer,
            LedgerState::Present(_) => continue,
            LedgerState::Erased => {
                importable_files.erased.push(file.path);
                continue;
            }
        };
        importable_files.offers.push(Offer { file, reason });
    }
    Ok(importable_files)
}

/// The ledger's state of a session, found under its own id or under the id with which it was imported.
async fn ledger_state(
    engine: &Engine,
    caller: &Caller,
    team_id: &str,
    id: &str,
) -> Result<LedgerState, Failure> {
    let Ok(own_id) = SessionId::new(id) else {
        return Ok(LedgerState::Absent);
    };
    for id in [own_id, alternative_id(caller, team_id, id)?] {
        let session = match engine.sessions.get(caller, &id).await {
            Ok(session) => session,
            Err(failure) if failure.code == ErrorCode::SessionNotFound => continue,
            Err(failure) if failure.code == ErrorCode::SessionErased => {
                return Ok(LedgerState::Erased);
            }
            Err(failure) => return Err(failure),
        };
        if session.team_id.as_deref() == Some(team_id) {
            let summary = summarize(engine, caller, &session).await?;
            return Ok(LedgerState::Present(summary.newest_at));
        }
    }
    Ok(LedgerState::Absent)
}
