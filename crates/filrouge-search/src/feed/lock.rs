//! One feeder at a time, among all processes.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Held while an index is fed; ends with the process, whatever happens to it.
#[derive(Debug)]
pub(crate) struct Feeding {
    _file: Option<File>,
}

impl Feeding {
    /// Of an index that nobody else can reach.
    pub(crate) const fn alone() -> Self {
        Self { _file: None }
    }

    /// `None` while somebody else feeds it.
    pub(crate) fn begin(path: &Path) -> io::Result<Option<Self>> {
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
    fn one_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.lock");
        let first = Feeding::begin(&path).unwrap();
        assert!(first.is_some());
        assert!(Feeding::begin(&path).unwrap().is_none());
        drop(first);
        assert!(Feeding::begin(&path).unwrap().is_some());
        assert!(Feeding::begin(&dir.path().join("no/a.lock")).is_err());
    }
}
