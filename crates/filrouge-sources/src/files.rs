//! Lists and reads files that another process may be writing, or may have prepared as a trap.
//!
//! A path is built only from names that a listing returned, never from an id inside a file, so no path leads out of the
//! opened folder. Each folder is opened relative to the folder above it, so no symbolic link below the root is
//! followed, even one that is created meanwhile.

use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, open, openat, statat};
use rustix::io::Errno;

use crate::{SkipReason, Skipped};

/// The size of the largest file that is read, in bytes. It is well above the ledger's limit of 16 MiB for an item
/// (DESIGN §8).
pub(crate) const FILE_BYTES_MAX: u64 = 64 << 20;

/// The length of the longest accepted id, in bytes. An import appends up to seven bytes (`:result`) to a part's id, and
/// the ledger accepts ids of at most 256 bytes.
const ID_BYTES_MAX: usize = 248;

const OPEN_FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

// Without NONBLOCK, opening a pipe would block until another process opens it for writing. The type of the opened file
// is checked afterwards.
const OPEN_FILE: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// Whether a text is a valid id: within filrouge's limits, and not a path.
pub(crate) fn is_id(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= ID_BYTES_MAX
        && text != "."
        && text != ".."
        && !text.contains(['/', '\\'])
        && !text.chars().any(char::is_control)
}

/// The canonical form of `path`, or its absolute form if nothing exists there.
pub(crate) fn canonical(path: &Path) -> PathBuf {
    let full = path.canonicalize();
    full.or_else(|_| std::path::absolute(path))
        .unwrap_or_else(|_| path.to_owned())
}

/// The kind of entries that a listing of a folder returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryKind {
    /// Files; their id is the name without `.json`.
    Json,
    /// Folders; their id is the name.
    Folders,
}

/// The files below one folder. The folder itself may be a symbolic link, because the user named it.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    pub(crate) root: PathBuf,
}

impl Files {
    /// Opens the root.
    ///
    /// # Errors
    /// The operating system's error.
    pub(crate) fn root(&self) -> Result<Folder, std::io::Error> {
        let fd = open(&self.root, OPEN_FOLDER, Mode::empty())?;
        Ok(Folder {
            fd,
            path: self.root.clone(),
        })
    }

    /// Opens the folder at `below`, a path of plain names under the root; `None` when it does not exist.
    pub(crate) fn folder(&self, below: &Path) -> Result<Option<Folder>, Skipped> {
        let mut folder = match self.root() {
            Ok(root) => root,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(unreadable_report(&self.root, &e)),
        };
        for component in below.components() {
            let Component::Normal(name) = component else {
                let path = self.root.join(below);
                return Err(Skipped::new(&path, SkipReason::BadName, "not a plain name"));
            };
            match folder.below(name)? {
                Some(next) => folder = next,
                None => return Ok(None),
            }
        }
        Ok(Some(folder))
    }

    /// Like [`Self::folder`], but an error is reported in `skipped`.
    pub(crate) fn open_folder(&self, below: &Path, skipped: &mut Vec<Skipped>) -> Option<Folder> {
        self.folder(below).unwrap_or_else(|why| {
            skipped.push(why);
            None
        })
    }

    /// The ids of the `.json` files in `below`, sorted; an absent folder has none.
    pub(crate) fn ids(&self, below: &Path, skipped: &mut Vec<Skipped>) -> Vec<String> {
        self.list(below, EntryKind::Json, skipped)
    }

    /// The names of the folders in `below`, sorted; an absent folder has none.
    pub(crate) fn folders(&self, below: &Path, skipped: &mut Vec<Skipped>) -> Vec<String> {
        self.list(below, EntryKind::Folders, skipped)
    }

    fn list(&self, below: &Path, entry_kind: EntryKind, skipped: &mut Vec<Skipped>) -> Vec<String> {
        let folder = self.open_folder(below, skipped);
        folder.map_or_else(Vec::new, |folder| folder.list(entry_kind, skipped))
    }

    /// The text of the file `<name>.json` in `below`; `None` when it does not exist.
    pub(crate) fn text(&self, below: &Path, name: &str) -> Result<Option<String>, Skipped> {
        match self.folder(below)? {
            Some(folder) if folder.stat(name).is_some() => folder.text(name).map(Some),
            _ => Ok(None),
        }
    }
}

/// An open folder.
pub(crate) struct Folder {
    fd: OwnedFd,
    pub(crate) path: PathBuf,
}

impl Folder {
    /// Opens the folder `name` in this one; `None` when it does not exist.
    pub(crate) fn below(&self, name: impl AsRef<OsStr>) -> Result<Option<Self>, Skipped> {
        let name = name.as_ref();
        let path = self.path.join(name);
        match openat(
            &self.fd,
            name,
            OPEN_FOLDER | OFlags::NOFOLLOW,
            Mode::empty(),
        ) {
            Ok(fd) => Ok(Some(Self { fd, path })),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::NOTDIR | Errno::LOOP) => {
                Err(match statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) if file_type(&stat) == FileType::Symlink => symlink_report(&path),
                    _ => Skipped::new(&path, SkipReason::WrongKind, "not a folder"),
                })
            }
            Err(e) => Err(unreadable_report(&path, &e.into())),
        }
    }

    /// The ids of its `.json` files, sorted.
    pub(crate) fn ids(&self, skipped: &mut Vec<Skipped>) -> Vec<String> {
        self.list(EntryKind::Json, skipped)
    }

    fn list(&self, entry_kind: EntryKind, skipped: &mut Vec<Skipped>) -> Vec<String> {
        let mut ids = Vec::new();
        let mut reports = Vec::new();
        let read = self.for_each_entry(|name, kind| match self.entry_id(name, kind, entry_kind) {
            Ok(id) => ids.push(id),
            Err(why) => reports.push(why),
        });
        if let Err(e) = read {
            reports.push(unreadable_report(&self.path, &e.into()));
        }
        ids.sort_unstable();
        reports.sort();
        skipped.append(&mut reports);
        ids
    }

    /// Calls `each` with every entry of the folder.
    fn for_each_entry(&self, mut each: impl FnMut(&CStr, FileType)) -> Result<(), Errno> {
        for child in Dir::read_from(&self.fd)? {
            let child = child?;
            if !matches!(child.file_name().to_bytes(), b"." | b"..") {
                each(child.file_name(), child.file_type());
            }
        }
        Ok(())
    }

    /// The id of an entry of the wanted kind; an error for any other entry.
    fn entry_id(
        &self,
        name: &CStr,
        mut entry_type: FileType,
        entry_kind: EntryKind,
    ) -> Result<String, Skipped> {
        let path = || self.path.join(OsStr::from_bytes(name.to_bytes()));
        if entry_type == FileType::Unknown {
            entry_type = match statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => file_type(&stat),
                Err(e) => return Err(unreadable_report(&path(), &e.into())),
            };
        }
        let text = name.to_str().ok();
        let mismatch = |what: &str| Err(Skipped::new(&path(), SkipReason::WrongKind, what));
        let id = match (entry_type, entry_kind) {
            (FileType::Symlink, _) => return Err(symlink_report(&path())),
            (FileType::RegularFile, EntryKind::Json) => text.and_then(|n| n.strip_suffix(".json")),
            (FileType::Directory, EntryKind::Folders) => text,
            (_, EntryKind::Json) => return mismatch("not a file"),
            (_, EntryKind::Folders) => return mismatch("not a folder"),
        };
        let bad_name = || Skipped::new(&path(), SkipReason::BadName, "not a valid id");
        id.filter(|id| is_id(id))
            .map(str::to_owned)
            .ok_or_else(bad_name)
    }

    /// The metadata (`stat`) of the file `<id>.json`, without following a link; `None` if it cannot be read, for
    /// example because the file does not exist.
    pub(crate) fn stat(&self, id: &str) -> Option<Stat> {
        self.stat_entry(&[id, ".json"].concat())
    }

    /// Like [`Self::stat`], of the entry `name`.
    pub(crate) fn stat_entry(&self, name: &str) -> Option<Stat> {
        statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).ok()
    }

    /// The metadata of the folder itself.
    pub(crate) fn stat_folder(&self) -> Option<Stat> {
        fstat(&self.fd).ok()
    }

    /// The text of the file `<id>.json`.
    pub(crate) fn text(&self, id: &str) -> Result<String, Skipped> {
        String::from_utf8(self.read(id)?).map_err(|e| {
            let at = e.utf8_error().valid_up_to();
            let detail = format!("not UTF-8 at byte {at}");
            Skipped::new(&self.file(id), SkipReason::NotUtf8, detail)
        })
    }

    /// The path of the file `<id>.json`.
    pub(crate) fn file(&self, id: &str) -> PathBuf {
        self.path.join(format!("{id}.json"))
    }

    /// The bytes of the file `<id>.json`; an empty file is an error.
    fn read(&self, id: &str) -> Result<Vec<u8>, Skipped> {
        let name = format!("{id}.json");
        let skip = |reason, detail: &str| Skipped::new(&self.file(id), reason, detail);
        let failed = |e: Errno| unreadable_report(&self.file(id), &e.into());
        let fd = match openat(&self.fd, &name, OPEN_FILE, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::LOOP) => return Err(symlink_report(&self.file(id))),
            Err(e) => return Err(failed(e)),
        };
        let stat = fstat(&fd).map_err(failed)?;
        if file_type(&stat) != FileType::RegularFile {
            return Err(skip(SkipReason::WrongKind, "not a file"));
        }
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        // The limit applies to the read as well, because the file may be growing.
        let mut bytes = Vec::with_capacity(size.min(FILE_BYTES_MAX) as usize + 1);
        let mut file = File::from(fd).take(FILE_BYTES_MAX + 1);
        file.read_to_end(&mut bytes)
            .map_err(|e| unreadable_report(&self.file(id), &e))?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            let detail = format!("over {FILE_BYTES_MAX} bytes");
            return Err(skip(SkipReason::TooLarge, &detail));
        }
        match bytes.is_empty() {
            true => Err(skip(SkipReason::Empty, "0 bytes")),
            false => Ok(bytes),
        }
    }
}

/// The type of a file.
pub(crate) fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// The inode, size, modification time and change time of a file. Every write changes at least one of them, except a
/// write in the same tick of the file system's clock (see [`is_hot`]). The device is excluded, because its number may
/// change after a restart.
pub(crate) type FileState = (u64, i64, (i64, i64), (i64, i64));

#[allow(clippy::unnecessary_cast, reason = "the fields differ between systems")]
pub(crate) fn file_state(stat: &Stat) -> FileState {
    let modified = (stat.st_mtime as i64, stat.st_mtime_nsec as i64);
    let changed = (stat.st_ctime as i64, stat.st_ctime_nsec as i64);
    (stat.st_ino as u64, stat.st_size as i64, modified, changed)
}

/// The longest tick of a file system's clock, in milliseconds, if the file system stores fractions of a second. Two
/// writes within one tick leave the same file times.
const FINE_TICK_MS: i64 = 20;
/// The longest tick, in milliseconds, if the file system stores only whole seconds, or only even ones.
const COARSE_TICK_MS: i64 = 2_000;

/// Whether the file changed so recently that a further write could leave its change time the same. `now` is the current
/// time in milliseconds since 1970.
pub(crate) fn is_hot((.., (seconds, nanos)): &FileState, now: i64) -> bool {
    let tick = match nanos {
        0 => COARSE_TICK_MS,
        _ => FINE_TICK_MS,
    };
    seconds.saturating_mul(1_000) + nanos / 1_000_000 + tick >= now
}

pub(crate) fn unreadable_report(path: &Path, error: &std::io::Error) -> Skipped {
    Skipped::new(path, SkipReason::Unreadable, error.to_string())
}

pub(crate) fn symlink_report(path: &Path) -> Skipped {
    Skipped::new(path, SkipReason::Symlink, "symbolic links are not followed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_never_paths() {
        for good in ["ses_44e9", "global", "tmp-demo", "é"] {
            assert!(is_id(good), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            "a/b",
            "..\\x",
            "a\0",
            "a\n",
            &"x".repeat(249),
        ] {
            assert!(!is_id(bad), "{bad:?}");
        }
    }

    #[test]
    fn a_file_is_hot_until_its_tick_is_over() {
        let hot = |changed, now| is_hot(&(1, 1, (0, 0), changed), now);
        assert_eq!([5_020, 5_021].map(|now| hot((5, 1), now)), [true, false]);
        assert_eq!([7_000, 7_001].map(|now| hot((5, 0), now)), [true, false]);
    }

    #[test]
    fn a_pipe_is_rejected_without_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.json");
        let status = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(status.unwrap().success());
        let files = Files {
            root: dir.path().to_owned(),
        };
        let why = files.root().unwrap().text("p").unwrap_err();
        assert_eq!(why.reason, SkipReason::WrongKind);
        assert!(files.folder(Path::new("../x")).is_err());
    }
}
