//! Which processes that record streams are still there: each holds a lock on a file of its own beside the store, which
//! the system lets go when the process ends, however it ends.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use filrouge_store::Entropy;

/// The name of a process that cannot show that it is there.
const UNSHOWN: &str = "~";

/// This process among those that record into one store.
pub(crate) struct Presence {
    folder: PathBuf,
    entropy: Arc<dyn Entropy>,
    own: Mutex<Option<Own>>,
}

/// This process's name, and the lock on its file when it could be had.
struct Own {
    name: String,
    _lock: Option<File>,
}

impl Presence {
    /// Takes no name and no lock yet.
    pub(crate) fn new(store: &Path, entropy: Arc<dyn Entropy>) -> Self {
        // Whatever the store is called: who comes by a link must find the same folder.
        let store = fs::canonicalize(store).unwrap_or_else(|_| store.to_owned());
        let mut folder = store.into_os_string();
        folder.push("-writers");
        Self {
            folder: folder.into(),
            entropy,
            own: Mutex::new(None),
        }
    }

    fn own(&self) -> MutexGuard<'_, Option<Own>> {
        // It is put whole.
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This process's name, which no other has; its lock is held from the first call on. Without a lock the name is
    /// one that nobody takes for gone: then its signs of life are what tells.
    pub(crate) fn name(&self) -> String {
        let mut own = self.own();
        if let Some(own) = &*own {
            return own.name.clone();
        }
        let taken = self.take().unwrap_or_else(|error| {
            tracing::warn!(error, folder = %self.folder.display(), "this process cannot show that it is there");
            Own {
                name: UNSHOWN.to_owned(),
                _lock: None,
            }
        });
        own.insert(taken).name.clone()
    }

    fn take(&self) -> Result<Own, String> {
        let mut bytes = [0; 8];
        self.entropy.fill(&mut bytes).map_err(|e| e.detail)?;
        let name = format!("{:016x}", u64::from_be_bytes(bytes));
        let lock = self.lock(&name).map_err(|e| e.to_string())?;
        Ok(Own {
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

    /// Whether the process with this name is certain not to be there any more.
    pub(crate) fn is_gone(&self, name: &str) -> bool {
        if !is_name(name) || self.own().as_ref().is_some_and(|own| own.name == name) {
            return false;
        }
        let path = self.folder.join(name);
        match OpenOptions::new().write(true).open(&path) {
            Ok(file) => match file.try_lock() {
                Ok(()) => {
                    // Nobody takes the name of somebody who is gone; a file that stays is asked again.
                    let _ = fs::remove_file(&path);
                    true
                }
                Err(TryLockError::WouldBlock) => false,
                Err(TryLockError::Error(error)) => {
                    tracing::debug!(%error, "a lock cannot be asked for");
                    false
                }
            },
            // It has taken its file with it.
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }

    /// Lets the lock go.
    pub(crate) fn leave(&self) {
        if let Some(own) = self.own().take() {
            // What stays is an empty file, which the next process removes.
            let _ = fs::remove_file(self.folder.join(&own.name));
            let _ = fs::remove_dir(&self.folder);
        }
    }
}

/// Names are of the kind that is given; anything else is no file here.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_there_is_not_gone() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("f.db");
        let presence = || Presence::new(&store, Arc::new(filrouge_store::OsEntropy));
        let (a, b) = (presence(), presence());
        let name = a.name();
        assert_eq!(a.name(), name);
        assert!(!b.is_gone(&name));
        assert!(!a.is_gone(&name));
        for foreign in ["", "..", "../x", UNSHOWN, "a/b"] {
            assert!(!b.is_gone(foreign), "{foreign}");
        }
        // As when the process is killed: the file stays, the lock goes.
        drop(a);
        assert!(b.is_gone(&name));
        assert!(b.is_gone(&name), "its file is gone as well");
        let name = b.name();
        b.leave();
        assert!(!folder.path().join("f.db-writers").exists());
        assert!(presence().is_gone(&name));
    }

    #[test]
    fn a_store_has_one_folder_whatever_it_is_called() {
        let folder = tempfile::tempdir().unwrap();
        let (store, link) = (folder.path().join("f.db"), folder.path().join("l.db"));
        fs::write(&store, b"").unwrap();
        std::os::unix::fs::symlink(&store, &link).unwrap();
        let presence = |path: &Path| Presence::new(path, Arc::new(filrouge_store::OsEntropy));
        let there = presence(&store);
        let name = there.name();
        assert!(!presence(&link).is_gone(&name));
    }

    #[test]
    fn who_cannot_lock_is_not_taken_for_gone() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("f.db");
        fs::write(folder.path().join("f.db-writers"), b"no folder").unwrap();
        let presence = || Presence::new(&store, Arc::new(filrouge_store::OsEntropy));
        let name = presence().name();
        assert!(!presence().is_gone(&name));
    }
}
