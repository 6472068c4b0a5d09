//! The file lock that admits one feeder of an index at a time, among all processes. A feeder is a thread that changes
//! the index.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The acquired lock. It is released when this value is dropped, or by the system when the process ends in any way.
#[derive(Debug, Default)]
pub(crate) struct FeederLock {
    /// `None` for an index that no other process can open.
    _file: Option<File>,
}

impl FeederLock {
    /// Acquires the lock in the file at `path`, which is created if missing; does not wait. Returns `None` while
    /// another feeder has the lock.
    pub(crate) fn try_acquire(path: &Path) -> io::Result<Option<Self>> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { _file: Some(file) })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(why)) => Err(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_feeder_holds_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.lock");
        let first = FeederLock::try_acquire(&path).unwrap();
        assert!(first.is_some());
        assert!(FeederLock::try_acquire(&path).unwrap().is_none());
        drop(first);
        assert!(FeederLock::try_acquire(&path).unwrap().is_some());
        assert!(FeederLock::try_acquire(&dir.path().join("no/a.lock")).is_err());
    }
}
