//! Files, and the metadata that shows whether they have changed.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::files::{symlink_report, unreadable_report};
use crate::{SkipReason, Skipped};

/// A file's metadata, read without opening it. Excludes the device, whose number may change after a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct State {
    inode: u64,
    /// The time of the last write, in nanoseconds since 1970.
    modified: u128,
    /// The size in bytes.
    pub(crate) size: u64,
}

/// A file of JSON lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogFile {
    pub(crate) path: PathBuf,
    pub(crate) state: State,
}

impl State {
    /// Reads the state of a regular file; `None` for anything else, including a symbolic link.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        let meta = fs::symlink_metadata(path).ok()?;
        meta.is_file().then(|| Self::from(&meta))
    }

    fn from(meta: &fs::Metadata) -> Self {
        let modified = meta.modified().ok();
        let modified = modified.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        Self {
            inode: meta.ino(),
            modified: modified.map_or(0, |since| since.as_nanos()),
            size: meta.len(),
        }
    }

    /// The time of the last write, in milliseconds since 1970.
    pub(crate) fn millis(&self) -> i64 {
        i64::try_from(self.modified / 1_000_000).unwrap_or(i64::MAX)
    }
}

/// Returns all folders in `dir`, and those regular files whose name `is_wanted` accepts; both sorted by name. Symbolic
/// links and special files whose name it accepts are reported in `skipped`. An absent folder counts as empty.
pub(crate) fn list_folder(
    dir: &Path,
    is_wanted: impl Fn(&OsStr) -> bool,
    skipped: &mut Vec<Skipped>,
) -> (Vec<PathBuf>, Vec<LogFile>) {
    let mut unreadable = |path: &Path, e: &std::io::Error| {
        if e.kind() != ErrorKind::NotFound {
            skipped.push(unreadable_report(path, e));
        }
    };
    let (mut folders, mut files, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) => {
            unreadable(dir, &e);
            return (folders, files);
        }
    };
    for child in entries {
        let child = match child {
            Ok(child) => child,
            Err(e) => {
                unreadable(dir, &e);
                continue;
            }
        };
        let (path, name) = (child.path(), child.file_name());
        match child.file_type() {
            Ok(kind) if kind.is_dir() => folders.push(path),
            Ok(_) if !is_wanted(&name) => {}
            Ok(kind) if kind.is_file() => match child.metadata() {
                Ok(meta) => files.push(LogFile {
                    path,
                    state: State::from(&meta),
                }),
                Err(e) => unreadable(&path, &e),
            },
            Ok(kind) if kind.is_symlink() => left_out.push(symlink_report(&path)),
            Ok(_) => left_out.push(Skipped::new(&path, SkipReason::WrongKind, "not a file")),
            Err(e) => unreadable(&path, &e),
        }
    }
    skipped.append(&mut left_out);
    folders.sort();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    (folders, files)
}

/// A file's name without `.jsonl`; `None` if it has another extension.
pub(crate) fn stem(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()?.strip_suffix(".jsonl")
}
