//! The operations of `filrouge doctor spool`: list the contents of the spool's folders, and retry or delete dead
//! letters.

use std::path::Path;
use std::sync::Arc;

use filrouge_store::command::{Command, Ending, Write};
use filrouge_store::{Entropy, Keyring};
use filrouge_types::{Clock, ErrorCode, Failure, SystemClock, Timestamp};
use serde::Serialize;

use super::files::convert_unreadable;
use super::folder::{DeadLetter, Entry, Folder, folders, read_contents};
use super::frame::{EntryInfo, Seal};

/// Whether a listed write still waits for the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ListedState {
    /// It waits for the ledger.
    #[default]
    Queued,
    /// The ledger has refused it.
    Dead,
}

/// A queued write or a dead letter in the list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ListedWrite {
    /// The id: the folder's name, a colon and the number in the folder. The number is `?` for an unreadable piece that
    /// has no dead letter yet.
    pub id: String,
    /// Whether it is a queued write or a dead letter.
    pub state: ListedState,
    /// The tenant. `None` for an unreadable piece, as are `session`, `what` and `queued_at`.
    pub tenant: Option<String>,
    /// The session.
    pub session: Option<String>,
    /// The kind of write: `ensure`, `append`, `finalize`, `checkpoint`, `event`, `lease`.
    pub what: Option<String>,
    /// When it was queued.
    pub queued_at: Option<Timestamp>,
    /// The error code of the refusal; `None` for a queued write, as are `detail` and `refused_at`.
    pub code: Option<String>,
    /// The reason for the refusal as text.
    pub detail: Option<String>,
    /// When it was refused.
    pub refused_at: Option<Timestamp>,
    /// The size of the encoded write in bytes; 0 if its contents were erased.
    pub bytes: u64,
    /// The contents of the write, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shown: Option<String>,
}

/// The spool of one store, as an operator sees it.
pub struct SpoolAdmin {
    directory: std::path::PathBuf,
    seal: Seal,
    entropy: Arc<dyn Entropy>,
}

fn spool_failure(e: std::io::Error) -> Failure {
    Failure::new(ErrorCode::StoreUnavailable, format!("the spool: {e}"))
}

impl SpoolAdmin {
    /// The spool of the store `store_id`, whose folders are in `directory`.
    pub fn new(
        directory: &Path,
        keyring: Arc<Keyring>,
        store_id: &str,
        entropy: Arc<dyn Entropy>,
    ) -> Self {
        Self {
            directory: directory.join(store_id),
            seal: Seal::new(keyring, store_id),
            entropy,
        }
    }

    /// Lists queued writes and dead letters of all folders, with their contents if `show`; changes nothing.
    ///
    /// # Errors
    /// `store_unavailable` when the folders cannot be read.
    pub fn list(&self, show: bool) -> Result<Vec<ListedWrite>, Failure> {
        let mut lines = Vec::new();
        for path in folders(&self.directory).map_err(spool_failure)? {
            let name = folder_name(&path);
            let contents = read_contents(&path, &self.seal).map_err(spool_failure)?;
            for entry in &contents.entries {
                lines.push(self.listed_entry(&name, entry, show));
            }
            for dead in &contents.dead {
                lines.push(self.listed_dead_letter(&name, dead, show));
            }
            for piece in &contents.unreadable {
                let bytes = piece.len() as u64;
                let detail = "a piece of the spool fails verification".to_owned();
                lines.push(ListedWrite {
                    code: Some(ErrorCode::IntegrityError.as_str().to_owned()),
                    detail: Some(detail),
                    bytes,
                    ..listed_write(format!("{name}:?"), ListedState::Dead, None)
                });
            }
        }
        Ok(lines)
    }

    fn listed_entry(&self, folder: &str, entry: &Entry, show: bool) -> ListedWrite {
        let id = format!("{folder}:{}", entry.info.id);
        ListedWrite {
            bytes: entry.body.len() as u64,
            shown: show.then(|| self.readable(&entry.body)),
            ..listed_write(id, ListedState::Queued, Some(&entry.info))
        }
    }

    fn listed_dead_letter(&self, folder: &str, dead: &DeadLetter, show: bool) -> ListedWrite {
        let refusal = &dead.refusal;
        let id = format!("{folder}:{}", refusal.letter);
        ListedWrite {
            code: Some(refusal.code.clone()),
            detail: Some(refusal.detail.clone()),
            refused_at: Some(Timestamp::from_micros(refusal.refused_at)),
            bytes: dead.body.len() as u64,
            shown: show.then(|| self.readable(&dead.body)),
            ..listed_write(id, ListedState::Dead, dead.info.as_ref())
        }
    }

    /// The contents of a write as readable text.
    fn readable(&self, body: &[u8]) -> String {
        if body.is_empty() {
            return "(erased)".to_owned();
        }
        let Ok(command) = Command::decode(body, self.entropy.as_ref()) else {
            return format!("({} bytes that are no write)", body.len());
        };
        let readable_items = |entries: &[filrouge_store::record::Entry]| {
            let items = entries.iter().map(|e| {
                let item = &e.item;
                format!("{} {} {}", item.role, item.channel, item.parts.as_str())
            });
            items.collect::<Vec<_>>().join("\n")
        };
        match &command.write {
            Write::Start(start) => readable_items(start.batch.entries()),
            Write::Append(append) => readable_items(append.batch.entries()),
            Write::Close(close) => match &close.ending {
                Ending::Finalize { neutral, .. } => {
                    let answer = neutral.as_ref().map(|t| t.as_token().to_owned());
                    answer.unwrap_or_else(|| "(the answer it has)".to_owned())
                }
                ending => readable_items(ending.entries()),
            },
            Write::PutCheckpoint(put) => {
                let label = put.label.as_deref().unwrap_or("-");
                format!("{label} {}", put.state.as_str())
            }
            Write::RecordEvent(event) => {
                let detail = event.detail.as_ref().map_or("{}", |d| d.as_str());
                format!("{} {detail}", event.kind)
            }
            Write::Lease(take) => take.holder.to_string(),
            _ => String::new(),
        }
    }

    /// Queues the dead letter with this id again, or with `None` all dead letters that contain a write. The next server
    /// that opens the folder drains them. Returns the number of queued writes.
    ///
    /// # Errors
    /// `overloaded` while a server uses the folder; `invalid` if there is no dead letter with this id or it contains no
    /// write; `store_unavailable` if the folders cannot be read or written.
    pub fn retry(&self, id: Option<&str>) -> Result<u64, Failure> {
        self.change(id, |folder, dead, now| {
            let Some(info) = dead.info.as_ref().filter(|_| !dead.body.is_empty()) else {
                return Ok(false);
            };
            let entry = Entry {
                info: EntryInfo {
                    id: folder.next_id(),
                    at: now,
                    ..info.clone()
                },
                lease: None,
                body: dead.body.clone(),
            };
            folder.append(&entry).map_err(spool_failure)?;
            Ok(true)
        })
    }

    /// Deletes the dead letter with this id, or with `None` all dead letters. Returns their number.
    ///
    /// # Errors
    /// Like [`Self::retry`].
    pub fn drop(&self, id: Option<&str>) -> Result<u64, Failure> {
        self.change(id, |_, _, _| Ok(true))
    }

    /// Calls `change` with each requested dead letter, its folder and the time at which its write was queued (0 if
    /// unknown). Removes those letters for which `change` returns true, and returns their number.
    fn change(
        &self,
        id: Option<&str>,
        mut change: impl FnMut(&mut Folder, &DeadLetter, i64) -> Result<bool, Failure>,
    ) -> Result<u64, Failure> {
        let mut removed = 0;
        for path in folders(&self.directory).map_err(spool_failure)? {
            let name = folder_name(&path);
            let is_requested = |dead: &DeadLetter| {
                id.is_none_or(|id| id == format!("{name}:{}", dead.refusal.letter))
            };
            if !read_contents(&path, &self.seal)
                .map_err(spool_failure)?
                .dead
                .iter()
                .any(is_requested)
            {
                continue;
            }
            let Some((mut folder, mut contents)) =
                Folder::open(&path, &self.seal).map_err(spool_failure)?
            else {
                let detail = format!("a server uses the folder {name} of the spool");
                return Err(Failure::new(ErrorCode::Overloaded, detail)
                    .with_hint("stop that server first, and start it again afterwards"));
            };
            // Unreadable pieces become dead letters only now. The operator cannot have requested these, so they stay.
            let letters_before = contents.dead.len();
            convert_unreadable(&mut folder, &mut contents, SystemClock.now())
                .map_err(spool_failure)?;
            // An entry that became a dead letter may still be in the queue file, and only the letter shows that it is
            // done. So the queue file is rewritten before letters are removed.
            folder
                .rewrite(contents.entries.iter())
                .map_err(spool_failure)?;
            let mut kept = Vec::new();
            for (nth, dead) in contents.dead.into_iter().enumerate() {
                let at = dead.info.as_ref().map_or(0, |info| info.at);
                if nth < letters_before && is_requested(&dead) && change(&mut folder, &dead, at)? {
                    removed += 1;
                } else {
                    kept.push(dead);
                }
            }
            folder.rewrite_dead(kept.iter()).map_err(spool_failure)?;
        }
        match (id, removed) {
            (Some(id), 0) => Err(ErrorCode::Invalid.failure(format!(
                "there is no dead letter {id} that contains a write"
            ))),
            _ => Ok(removed),
        }
    }
}

fn folder_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn listed_write(id: String, state: ListedState, info: Option<&EntryInfo>) -> ListedWrite {
    ListedWrite {
        id,
        state,
        tenant: info.map(|p| p.tenant.clone()),
        session: info.map(|p| p.session.clone()),
        what: info.map(|p| p.what.clone()),
        queued_at: info.map(|p| Timestamp::from_micros(p.at)),
        ..ListedWrite::default()
    }
}
