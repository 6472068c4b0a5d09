//! The state of a foreign database's files, as the file system reports it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use filrouge_types::{Clock, SystemClock};

/// The longest tick of a file system's clock, in milliseconds, if the file system stores fractions of a second.
const TICK_MS: i64 = 20;
/// The longest tick, in milliseconds, if the file system stores only whole seconds, or only even ones.
const COARSE_TICK_MS: i64 = 2_000;

/// The identity and state of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Stat {
    /// The device and the inode.
    inode: (u64, u64),
    bytes: u64,
    /// The modification time, in seconds and nanoseconds.
    modified: (i64, i64),
    /// The file's `ctime`, in seconds and nanoseconds; for the log always (0, 0).
    changed: (i64, i64),
}

/// The states of the database and its write-ahead log at one time. If two of them are equal, and the first was
/// [`Self::is_settled`], nothing was written in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FileStates {
    database: Stat,
    wal: Option<Stat>,
}

impl FileStates {
    /// Reads the states. The log's state is read first, because a checkpoint moves data from the log to the database.
    pub(super) fn read(path: &Path, wal: &Path) -> io::Result<Self> {
        let wal = match fs::metadata(wal) {
            // The log's `ctime` is ignored: when root opens a log, SQLite sets the owner of the file, which updates
            // `ctime` although nothing was written.
            Ok(meta) => Some(Stat {
                changed: (0, 0),
                ..stat(&meta)
            }),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(e),
        };
        let database = stat(&fs::metadata(path)?);
        Ok(Self { database, wal })
    }

    /// Whether every later write must change a modification time, because both times are older than a tick.
    pub(super) fn is_settled(&self) -> bool {
        let now = SystemClock.now().as_millis();
        let stats = [Some(self.database), self.wal];
        stats.into_iter().flatten().all(|stat| {
            let (seconds, nanos) = stat.modified;
            let tick = if nanos == 0 { COARSE_TICK_MS } else { TICK_MS };
            now > seconds.saturating_mul(1_000) + nanos / 1_000_000 + tick
        })
    }

    /// Whether the log is empty, so that the database file contains all data.
    pub(super) fn is_log_empty(&self) -> bool {
        self.wal.is_none_or(|wal| wal.bytes == 0)
    }

    /// Whether both states are of the same two files; the contents may differ.
    pub(super) fn has_same_inodes(&self, other: &Self) -> bool {
        let wal_inode = |files: &Self| files.wal.map(|wal| wal.inode);
        self.database.inode == other.database.inode && wal_inode(self) == wal_inode(other)
    }

    /// Whether both states are of the same database file.
    pub(super) fn is_same_database(&self, other: &Self) -> bool {
        self.database.inode == other.database.inode
    }
}

fn stat(meta: &fs::Metadata) -> Stat {
    Stat {
        inode: (meta.dev(), meta.ino()),
        bytes: meta.len(),
        modified: (meta.mtime(), meta.mtime_nsec()),
        changed: (meta.ctime(), meta.ctime_nsec()),
    }
}

/// Returns the path of a database's write-ahead log.
pub(super) fn wal_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// Whether the database's header specifies WAL mode. Only in this mode does SQLite create files for reading.
pub(super) fn is_in_wal_mode(path: &Path) -> io::Result<bool> {
    let mut head = Vec::with_capacity(20);
    File::open(path)?.take(20).read_to_end(&mut head)?;
    Ok(head.starts_with(b"SQLite format 3\0") && head.get(18..20) == Some(&[2, 2]))
}

/// Returns the URI with which SQLite opens `path` as an immutable file.
pub(super) fn immutable_uri(path: &Path) -> String {
    use std::fmt::Write;
    use std::os::unix::ffi::OsStrExt;
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(*byte));
            }
            // Writing into a string cannot fail.
            _ => drop(write!(uri, "%{byte:02x}")),
        }
    }
    uri.push_str("?immutable=1");
    uri
}
