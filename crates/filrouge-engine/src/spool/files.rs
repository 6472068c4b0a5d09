//! The folders that this process has locked: its own_folder, and those of processes that have exited.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use filrouge_store::command::Command;
use filrouge_store::rows::HeadLease;
use filrouge_store::{Entropy, Keyring, random_id};
use filrouge_types::{Clock, ErrorCode, Failure, Timestamp};

use super::Core;
use super::folder::{DeadLetter, Entry, Folder, FolderContents, folders};
use super::frame::Seal;
use super::known::KnownSession;
use super::state::{DeadLetterLocation, QueuedEntry, key_of, refusal};

/// The maximum number of random names that are tried for a new folder.
const NAME_ATTEMPTS: usize = 64;

/// The folders, each known by its index. The first one receives writes; the others are drained and then removed, which
/// leaves `None`.
pub(super) struct Files {
    pub(super) folders: Vec<Option<Folder>>,
}

/// The contents of the folders when they were opened, and the number of folders that could not be used.
pub(super) type Recovered = (Vec<FolderContents>, u64);

impl Files {
    pub(super) fn open(
        directory: &Path,
        keyring: Arc<Keyring>,
        store_id: &str,
        entropy: &dyn Entropy,
        clock: &dyn Clock,
    ) -> io::Result<(Self, Recovered)> {
        let seal = Seal::new(keyring, store_id);
        let directory = directory.join(store_id);
        let mut acquired = Vec::new();
        let mut unusable = 0;
        for path in folders(&directory)? {
            let opened = Folder::open(&path, &seal).and_then(|mut opened| {
                if let Some((folder, contents)) = &mut opened {
                    convert_unreadable(folder, contents, clock.now())?;
                }
                Ok(opened)
            });
            match opened {
                Ok(folder) => acquired.extend(folder),
                // The folder may hold writes, so it is left for an operator to repair.
                Err(error) => {
                    unusable += 1;
                    tracing::error!(path = %path.display(), %error, "[SPOOL] a folder of an earlier process cannot be used: its writes still wait");
                }
            }
        }
        // Folders with older entries come first. The last one, with the newest entries, becomes this process's own.
        acquired.sort_by_key(|(_, contents)| contents.entries.first().map(|e| e.info.at));
        let own_folder = match acquired.pop() {
            Some(own_folder) => own_folder,
            None => create_folder(&directory, &seal, entropy)?,
        };
        let all = std::iter::once(own_folder).chain(acquired);
        let (folders, recovered) = all
            .map(|(folder, contents)| (Some(folder), contents))
            .unzip();
        Ok((Self { folders }, (recovered, unusable)))
    }

    pub(super) fn own_folder(&mut self) -> Result<&mut Folder, Failure> {
        self.folder(0)
            .ok_or_else(|| Failure::new(ErrorCode::Internal, "the spool has no folder"))
    }

    pub(super) fn folder(&mut self, index: usize) -> Option<&mut Folder> {
        self.folders.get_mut(index)?.as_mut()
    }
}

/// Creates a folder under a random name and locks it. If another starting process locks it first, tries another name.
fn create_folder(
    directory: &Path,
    seal: &Seal,
    entropy: &dyn Entropy,
) -> io::Result<(Folder, FolderContents)> {
    for _ in 0..NAME_ATTEMPTS {
        let name = random_id(entropy).map_err(io::Error::other)?;
        if let Some(acquired) = Folder::open(&directory.join(name), seal)? {
            return Ok(acquired);
        }
    }
    Err(io::Error::other("other processes lock every new folder"))
}

/// Turns the unreadable pieces of `contents` into dead letters, and rewrites the files without them. A folder without
/// unreadable pieces stays unchanged.
pub(super) fn convert_unreadable(
    folder: &mut Folder,
    contents: &mut FolderContents,
    now: Timestamp,
) -> io::Result<()> {
    let path = folder.path().display().to_string();
    if contents.torn > 0 {
        tracing::warn!(%path, bytes = contents.torn, "[SPOOL] an incomplete last frame was cut off");
    }
    if contents.unreadable.is_empty() {
        return Ok(());
    }
    let detail = "a piece of the spool fails verification";
    let failure = Failure::new(ErrorCode::IntegrityError, detail);
    for piece in &contents.unreadable {
        tracing::error!(%path, bytes = piece.len(), "[SPOOL] {detail}");
        let dead = DeadLetter {
            info: None,
            refusal: refusal(folder.next_id(), now, &failure),
            body: piece.clone(),
        };
        contents.dead.push(dead);
    }
    folder.rewrite_dead(contents.dead.iter())?;
    folder.rewrite(contents.entries.iter())
}

impl Core {
    /// Queues the recovered entries, and restores from them the state that is needed to continue their sessions.
    pub(super) fn recover(&self, (recovered, unusable): Recovered) {
        let mut state = self.state();
        state.counts.unreadable += unusable;
        // The folder of this process, index 0, has the newest entries, so it comes last.
        let mut recovered: Vec<_> = recovered.into_iter().enumerate().collect();
        recovered.rotate_left(1);
        for (folder, contents) in recovered {
            state.counts.unreadable += contents.unreadable.len() as u64;
            let letters = contents.dead.iter();
            state
                .dead
                .extend(letters.map(|d| DeadLetterLocation::new(folder, d)));
            for entry in contents.entries {
                let info = &entry.info;
                let Some(key) = key_of(&info.tenant, &info.session) else {
                    continue;
                };
                let queued = QueuedEntry {
                    folder,
                    since: instant_of(entry.info.at, self.clock.now()),
                    attempt: None,
                    entry: Arc::new(entry),
                };
                let entry = queued.entry.clone();
                state.push(&key, queued);
                state.change(&key, |known| self.restore_known_session(&entry, known));
            }
        }
        if state.entries > 0 {
            let (entries, sessions) = (state.entries, state.queues.len());
            tracing::warn!(
                entries,
                sessions,
                "[SPOOL] writes of an earlier process wait for the ledger"
            );
        }
    }

    /// Restores a viewer of a session from an entry, and the lease from the session's first entry.
    fn restore_known_session(&self, entry: &Entry, known: &mut KnownSession) {
        let Ok(command) = Command::decode(&entry.body, self.entropy.as_ref()) else {
            return;
        };
        known.add_viewer(&command.scope);
        if known.lease.fence > 0 {
            return;
        }
        known.lease.fence = command.scope.fence.map_or(0, |token| token.fence);
        if let Some(lease) = &entry.lease {
            known.granted_here = true;
            known.lease = HeadLease {
                fence: lease.fence,
                holder: lease.holder.as_str().into(),
                expires_at: Timestamp::from_micros(lease.expires_at),
                ..HeadLease::default()
            };
        }
    }
}

/// The wall-clock time `at` as an `Instant`, or the present if `Instant` cannot reach back so far.
fn instant_of(at: i64, now: Timestamp) -> Instant {
    let age = u64::try_from(now.as_micros().saturating_sub(at)).unwrap_or(0);
    let age = std::time::Duration::from_micros(age);
    let present = Instant::now();
    present.checked_sub(age).unwrap_or(present)
}
