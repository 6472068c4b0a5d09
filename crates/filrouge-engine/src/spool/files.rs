//! The folders of this process: its own, and those that others have left behind.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use filrouge_store::command::Command;
use filrouge_store::rows::HeadLease;
use filrouge_store::{Entropy, Keyring, random_id};
use filrouge_types::{Clock, ErrorCode, Failure, Timestamp};

use super::Core;
use super::folder::{Contents, Dead, Entry, Folder, folders};
use super::frame::Seal;
use super::known::Known;
use super::state::{Letter, Waits, key_of, refusal};

/// How many names are tried for a folder of its own.
const NAMES: usize = 64;

/// The folders; the first one is written to, the others are drained and go.
pub(super) struct Files {
    pub(super) folders: Vec<Option<Folder>>,
}

/// What the folders held when they were taken.
pub(super) struct Recovered {
    folders: Vec<Contents>,
    /// Folders that could not be used.
    unusable: u64,
}

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
        let mut taken = Vec::new();
        let mut unusable = 0;
        for path in folders(&directory)? {
            match opened(&path, &seal, clock.now()) {
                Ok(folder) => taken.extend(folder),
                // What others have left there waits until somebody has looked after it.
                Err(error) => {
                    unusable += 1;
                    tracing::error!(path = %path.display(), %error, "[SPOOL] a folder that was left behind cannot be used: what is in it still waits");
                }
            }
        }
        // What was queued first is drained first.
        taken.sort_by_key(|(_, contents)| contents.entries.first().map(|e| e.place.at));
        let own = match taken.pop() {
            Some(own) => own,
            None => fresh(&directory, &seal, entropy)?,
        };
        let mut files = Self {
            folders: Vec::new(),
        };
        let mut recovered = Vec::new();
        for (folder, contents) in std::iter::once(own).chain(taken) {
            files.folders.push(Some(folder));
            recovered.push(contents);
        }
        let recovered = Recovered {
            folders: recovered,
            unusable,
        };
        Ok((files, recovered))
    }

    pub(super) fn own(&mut self) -> Result<&mut Folder, Failure> {
        self.at(0)
            .ok_or_else(|| Failure::new(ErrorCode::Internal, "the spool has no folder"))
    }

    pub(super) fn at(&mut self, folder: usize) -> Option<&mut Folder> {
        self.folders.get_mut(folder)?.as_mut()
    }
}

/// A folder of a new name; another process that starts may take it before it is locked, and keeps it then.
fn fresh(directory: &Path, seal: &Seal, entropy: &dyn Entropy) -> io::Result<(Folder, Contents)> {
    for _ in 0..NAMES {
        let name = random_id(entropy).map_err(io::Error::other)?;
        if let Some(taken) = Folder::open(&directory.join(name), seal)? {
            return Ok(taken);
        }
    }
    Err(io::Error::other("others take every folder that is made"))
}

/// Takes a folder that is there, sorted out; `None` when another process has it.
fn opened(path: &Path, seal: &Seal, now: Timestamp) -> io::Result<Option<(Folder, Contents)>> {
    let Some((mut folder, mut contents)) = Folder::open(path, seal)? else {
        return Ok(None);
    };
    sorted_out(&mut folder, &mut contents, now)?;
    Ok(Some((folder, contents)))
}

/// What cannot be read becomes dead letters, and the file holds what can.
pub(super) fn sorted_out(
    folder: &mut Folder,
    contents: &mut Contents,
    now: Timestamp,
) -> io::Result<()> {
    let path = folder.path().display().to_string();
    if contents.torn > 0 {
        tracing::warn!(%path, bytes = contents.torn, "[SPOOL] the end of a file was not written as it should be, and was cut off");
    }
    if contents.unreadable.is_empty() {
        return Ok(());
    }
    let what = "a piece of the spool is not what was written";
    let failure = Failure::new(ErrorCode::IntegrityError, what);
    for piece in &contents.unreadable {
        tracing::error!(%path, bytes = piece.len(), "[SPOOL] {what}");
        let dead = Dead {
            place: None,
            refusal: refusal(folder.next_id(), now, &failure),
            body: piece.clone(),
        };
        contents.dead.push(dead);
    }
    folder.rebury(contents.dead.iter())?;
    folder.rewrite(contents.entries.iter())
}

impl Core {
    /// Queues what the folders held, in which there is what a process must know to go on.
    pub(super) fn recover(&self, recovered: Recovered) {
        let mut state = self.state();
        state.counts.unreadable += recovered.unusable;
        let recovered = recovered.folders;
        // The own folder was written to last.
        let order = (1..recovered.len()).chain(std::iter::once(0));
        let mut recovered: Vec<_> = recovered.into_iter().map(Some).collect();
        for folder in order {
            let Some(contents) = recovered.get_mut(folder).and_then(Option::take) else {
                continue;
            };
            state.counts.unreadable += contents.unreadable.len() as u64;
            let dead = contents.dead.iter();
            state.dead.extend(dead.map(|d| Letter::of(folder, d)));
            for entry in contents.entries {
                let place = &entry.place;
                let Some(key) = key_of(&place.tenant, &place.session) else {
                    continue;
                };
                let waits = Waits {
                    folder,
                    since: since(entry.place.at, self.clock.now()),
                    attempt: None,
                    entry: Arc::new(entry),
                };
                let entry = waits.entry.clone();
                state.push(&key, waits);
                state.change(&key, |known| self.remember(&entry, known));
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

    /// What the first entry of a session shows of the lease, and each of who may see it.
    fn remember(&self, entry: &Entry, known: &mut Known) {
        let Ok(command) = Command::decode(&entry.body, self.entropy.as_ref()) else {
            return;
        };
        known.saw(&command.scope);
        if known.lease.fence > 0 {
            return;
        }
        known.lease.fence = command.scope.hold.map_or(0, |hold| hold.fence);
        if let Some(lease) = &entry.lease {
            known.owned = true;
            known.lease = HeadLease {
                fence: lease.fence,
                holder: lease.holder.as_str().into(),
                expires_at: Timestamp::from_micros(lease.expires_at),
                ..HeadLease::default()
            };
        }
    }
}

/// The moment, as far as the clock of this process reaches back.
fn since(at: i64, now: Timestamp) -> Instant {
    let ago = u64::try_from(now.as_micros().saturating_sub(at)).unwrap_or(0);
    let ago = std::time::Duration::from_micros(ago);
    let here = Instant::now();
    here.checked_sub(ago).unwrap_or(here)
}
