//! The state of a foreign database's files, as the file system tells it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use filrouge_types::{Clock, SystemClock};

/// Time in a file system goes by in ticks. The longest of systems that count less than a second, and of those that count
/// whole or even seconds; milliseconds.
const TICK_MS: i64 = 20;
const COARSE_TICK_MS: i64 = 2_000;

/// Which file, and in which state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Stat {
    place: (u64, u64),
    bytes: u64,
    modified: (i64, i64),
    /// Of the database alone.
    changed: (i64, i64),
}

/// The database and its write-ahead log at one moment. Two that are equal: nobody has written between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Files {
    database: Stat,
    wal: Option<Stat>,
}

impl Files {
    /// Looks at them. The log is looked at first: what leaves it goes into the database.
    pub(super) fn now(path: &Path, wal: &Path) -> io::Result<Self> {
        let wal = match fs::metadata(wal) {
            // When root opens a log, SQLite gives it to the database's owner, whose it is already: that is a change, too.
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

    /// Whether whatever is written from now on leaves another time of change.
    pub(super) fn settled(&self) -> bool {
        let now = SystemClock.now().as_millis();
        let written = [Some(self.database), self.wal];
        written.into_iter().flatten().all(|stat| {
            let (seconds, nanos) = stat.modified;
            let tick = if nanos == 0 { COARSE_TICK_MS } else { TICK_MS };
            now > seconds.saturating_mul(1_000) + nanos / 1_000_000 + tick
        })
    }

    /// Whether everything is in the database itself.
    pub(super) fn folded(&self) -> bool {
        self.wal.is_none_or(|wal| wal.bytes == 0)
    }

    /// Whether the same two files are there; what is in them may differ.
    pub(super) fn same_places(&self, other: &Self) -> bool {
        let wal = |files: &Self| files.wal.map(|wal| wal.place);
        self.database.place == other.database.place && wal(self) == wal(other)
    }

    /// Whether the same database is there.
    pub(super) fn same_database(&self, other: &Self) -> bool {
        self.database.place == other.database.place
    }
}

fn stat(meta: &fs::Metadata) -> Stat {
    Stat {
        place: (meta.dev(), meta.ino()),
        bytes: meta.len(),
        modified: (meta.mtime(), meta.mtime_nsec()),
        changed: (meta.ctime(), meta.ctime_nsec()),
    }
}

/// The place of the write-ahead log beside a database.
pub(super) fn wal_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// Whether the database's head says that it is written through a log; without one, SQLite makes no file to read it.
pub(super) fn in_wal_mode(path: &Path) -> io::Result<bool> {
    let mut head = Vec::with_capacity(20);
    File::open(path)?.take(20).read_to_end(&mut head)?;
    Ok(head.starts_with(b"SQLite format 3\0") && head.get(18..20) == Some(&[2, 2]))
}

/// The address under which SQLite takes `path` for a file that nobody writes to.
pub(super) fn immutable_address(path: &Path) -> String {
    use std::fmt::Write;
    use std::os::unix::ffi::OsStrExt;
    let mut address = String::from("file:");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                address.push(char::from(*byte));
            }
            // Writing into a string cannot fail.
            _ => drop(write!(address, "%{byte:02x}")),
        }
    }
    address.push_str("?immutable=1");
    address
}
