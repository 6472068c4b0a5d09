//! Detects which processes that record streams or grant leases are alive. Each of them locks a file of its own in a
//! folder next to the store. The system releases the lock when the process ends, whether it exits, crashes or is killed.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use filrouge_store::{Entropy, OsEntropy};
use filrouge_types::lock;

/// The name of a process that could not lock a file.
const UNLOCKED: &str = "~";

/// This process as one of those that record into a store.
pub(crate) struct Presence {
    folder: PathBuf,
    registration: Mutex<Option<Registration>>,
}

/// This process's name, and the lock on its file if it was acquired.
struct Registration {
    name: String,
    _lock: Option<File>,
}

impl Presence {
    /// Creates the value; the first call of [`Self::name`] chooses the name and locks its file.
    pub(crate) fn new(store: &Path) -> Self {
        // A process that opens the store through a link must find the same folder.
        let store = fs::canonicalize(store).unwrap_or_else(|_| store.to_owned());
        let mut folder = store.into_os_string();
        folder.push("-writers");
        Self {
            folder: folder.into(),
            registration: Mutex::new(None),
        }
    }

    /// This process's unique name. The first call chooses it and locks its file. If that fails, the name is
    /// [`UNLOCKED`], for which [`Self::has_exited`] is always false: other processes then learn only from missing
    /// heartbeats, and from the end of leases, that this process has ended.
    pub(crate) fn name(&self) -> String {
        let mut current = lock(&self.registration);
        if let Some(registration) = &*current {
            return registration.name.clone();
        }
        let registration = self.register().unwrap_or_else(|error| {
            tracing::warn!(
                error,
                folder = %self.folder.display(),
                "this process cannot lock the file that shows other processes that it runs"
            );
            Registration {
                name: UNLOCKED.to_owned(),
                _lock: None,
            }
        });
        current.insert(registration).name.clone()
    }

    fn register(&self) -> Result<Registration, String> {
        let mut bytes = [0; 8];
        OsEntropy.fill(&mut bytes).map_err(|e| e.detail)?;
        let name = format!("{:016x}", u64::from_be_bytes(bytes));
        let lock = self.lock(&name).map_err(|e| e.to_string())?;
        Ok(Registration {
            name,
            _lock: Some(lock),
        })
    }

    fn lock(&self, name: &str) -> io::Result<File> {
        fs::create_dir_all(&self.folder)?;
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.folder.join(name))?;
        file.try_lock().map_err(io::Error::from)?;
        Ok(file)
    }

    /// Whether the process with this name has certainly exited.
    pub(crate) fn has_exited(&self, name: &str) -> bool {
        let is_own = |own: &Registration| own.name == name;
        if !has_name_form(name) || lock(&self.registration).as_ref().is_some_and(is_own) {
            return false;
        }
        let path = self.folder.join(name);
        match OpenOptions::new().write(true).open(&path) {
            Ok(file) => match file.try_lock() {
                Ok(()) => {
                    // The file can be removed, because the name of an exited process is never reused. If the removal
                    // fails, the next check repeats it.
                    let _ = fs::remove_file(&path);
                    true
                }
                Err(TryLockError::WouldBlock) => false,
                Err(TryLockError::Error(error)) => {
                    tracing::debug!(%error, "whether a process still runs cannot be checked");
                    false
                }
            },
            // A process removes its file when it exits normally.
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }

    /// Releases the lock and removes the file, when the ledger is closed.
    pub(crate) fn release(&self) {
        if let Some(registration) = lock(&self.registration).take() {
            // If this fails, an empty file remains, which another process removes.
            let _ = fs::remove_file(self.folder.join(&registration.name));
            let _ = fs::remove_dir(&self.folder);
        }
    }
}

/// Whether `name` has the form of a generated name; only such a name is used as a file name.
fn has_name_form(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_live_process_has_not_exited() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("f.db");
        let presence = || Presence::new(&store);
        let (a, b) = (presence(), presence());
        let name = a.name();
        assert_eq!(a.name(), name);
        assert!(!b.has_exited(&name));
        assert!(!a.has_exited(&name));
        for foreign in ["", "..", "../x", UNLOCKED, "a/b"] {
            assert!(!b.has_exited(foreign), "{foreign}");
        }
        // Dropping has the effect of a kill: the file is left, and the lock is released.
        drop(a);
        assert!(b.has_exited(&name));
        assert!(b.has_exited(&name), "its file was removed");
        let name = b.name();
        b.release();
        assert!(!folder.path().join("f.db-writers").exists());
        assert!(presence().has_exited(&name));
    }

    #[test]
    fn a_link_to_a_store_leads_to_the_same_folder() {
        let folder = tempfile::tempdir().unwrap();
        let (store, link) = (folder.path().join("f.db"), folder.path().join("l.db"));
        fs::write(&store, b"").unwrap();
        std::os::unix::fs::symlink(&store, &link).unwrap();
        let presence = |path: &Path| Presence::new(path);
        let by_store = presence(&store);
        let name = by_store.name();
        assert!(!presence(&link).has_exited(&name));
    }

    #[test]
    fn a_process_that_cannot_lock_has_not_exited() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("f.db");
        fs::write(folder.path().join("f.db-writers"), b"no folder").unwrap();
        let presence = || Presence::new(&store);
        let name = presence().name();
        assert!(!presence().has_exited(&name));
    }
}
