//! Listing and reading files that somebody else may be writing, or may have prepared as a trap.
//!
//! Names come from listings only, so no id can lead out of the folder that was opened, and no
//! symbolic link below it is followed.

use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::{SkipReason, Skipped};

/// Largest file that is read; the ledger takes items of at most 16 MiB (DESIGN §8).
pub(crate) const FILE_BYTES_MAX: u64 = 64 << 20;

/// Longest id: a tool's items append up to seven bytes to a part's id, and 256 is the ledger's limit.
const ID_BYTES_MAX: usize = 248;

/// A file or folder with the id its name gives.
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) path: PathBuf,
}

/// Whether a text can be an id of OpenCode: what filrouge takes, and no path.
pub(crate) fn is_id(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= ID_BYTES_MAX
        && text != "."
        && text != ".."
        && !text.contains(['/', '\\'])
        && !text.chars().any(char::is_control)
}

/// The files below one folder. The folder itself may be a symbolic link; the user named it.
pub(crate) struct Files {
    pub(crate) root: PathBuf,
}

impl Files {
    /// The `.json` files of a folder, sorted by id; an absent folder has none.
    pub(crate) fn files(&self, dir: &Path, skipped: &mut Vec<Skipped>) -> Vec<Entry> {
        self.list(dir, false, skipped)
    }

    /// The folders of a folder, sorted by name; an absent folder has none.
    pub(crate) fn folders(&self, dir: &Path, skipped: &mut Vec<Skipped>) -> Vec<Entry> {
        self.list(dir, true, skipped)
    }

    fn list(&self, dir: &Path, want_folders: bool, skipped: &mut Vec<Skipped>) -> Vec<Entry> {
        let mut found = Vec::new();
        let mut left_out = Vec::new();
        match self.children(dir) {
            Ok(paths) => {
                for path in paths {
                    match entry(path, want_folders) {
                        Ok(entry) => found.push(entry),
                        Err(why) => left_out.push(why),
                    }
                }
            }
            Err(why) => left_out.push(why),
        }
        found.sort_by(|a, b| a.id.cmp(&b.id));
        left_out.sort();
        skipped.append(&mut left_out);
        found
    }

    /// Everything in a folder, nothing when there is no folder.
    fn children(&self, dir: &Path) -> Result<Vec<PathBuf>, Skipped> {
        self.check_links(dir)?;
        match fs::metadata(dir) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(unreadable(dir, &e)),
            Ok(meta) if !meta.is_dir() => {
                return Err(Skipped::new(dir, SkipReason::WrongKind, "not a folder"));
            }
            Ok(_) => {}
        }
        let listing = fs::read_dir(dir).map_err(|e| unreadable(dir, &e))?;
        listing
            .map(|child| child.map(|c| c.path()).map_err(|e| unreadable(dir, &e)))
            .collect()
    }

    /// Refuses `path` when it or a folder between it and the root is a symbolic link.
    fn check_links(&self, path: &Path) -> Result<(), Skipped> {
        let below = path.ancestors().take_while(|step| *step != self.root);
        let is_link = |step: &&Path| fs::symlink_metadata(step).is_ok_and(|m| m.is_symlink());
        match below.filter(is_link).last() {
            Some(link) => Err(symlink(link)),
            None => Ok(()),
        }
    }

    /// Whether there is something at `path`.
    pub(crate) fn exists(&self, path: &Path) -> bool {
        fs::symlink_metadata(path).is_ok()
    }

    /// The size of a regular file; `None` when there is none.
    pub(crate) fn size(&self, path: &Path) -> Option<u64> {
        fs::symlink_metadata(path)
            .ok()
            .filter(fs::Metadata::is_file)
            .map(|meta| meta.len())
    }

    /// The text of a file.
    pub(crate) fn read(&self, path: &Path) -> Result<String, Skipped> {
        let skip = |reason, detail: String| Skipped::new(path, reason, detail);
        self.check_links(path)?;
        // Opening a pipe would wait for its writer.
        if !fs::metadata(path)
            .map_err(|e| unreadable(path, &e))?
            .is_file()
        {
            return Err(skip(SkipReason::WrongKind, "not a file".to_owned()));
        }
        let mut bytes = Vec::new();
        let file = fs::File::open(path).map_err(|e| unreadable(path, &e))?;
        // The limit is on the read, because the file may be growing.
        let limited = &mut file.take(FILE_BYTES_MAX + 1);
        limited
            .read_to_end(&mut bytes)
            .map_err(|e| unreadable(path, &e))?;
        if bytes.is_empty() {
            return Err(skip(SkipReason::Empty, "0 bytes".to_owned()));
        }
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(skip(
                SkipReason::TooLarge,
                format!("over {FILE_BYTES_MAX} bytes"),
            ));
        }
        String::from_utf8(bytes).map_err(|e| {
            let at = e.utf8_error().valid_up_to();
            skip(SkipReason::NotUtf8, format!("not UTF-8 at byte {at}"))
        })
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Skipped {
    Skipped::new(path, SkipReason::Unreadable, error.to_string())
}

fn symlink(path: &Path) -> Skipped {
    Skipped::new(path, SkipReason::Symlink, "symbolic links are not followed")
}

fn entry(path: PathBuf, want_folder: bool) -> Result<Entry, Skipped> {
    let meta = fs::symlink_metadata(&path).map_err(|e| unreadable(&path, &e))?;
    if meta.is_symlink() {
        return Err(symlink(&path));
    }
    if want_folder != meta.is_dir() || !(meta.is_dir() || meta.is_file()) {
        let wanted = if want_folder {
            "not a folder"
        } else {
            "not a file"
        };
        return Err(Skipped::new(&path, SkipReason::WrongKind, wanted));
    }
    let name = path.file_name().and_then(|name| name.to_str());
    let id = if want_folder {
        name
    } else {
        name.and_then(|n| n.strip_suffix(".json"))
    };
    match id.filter(|id| is_id(id)).map(str::to_owned) {
        Some(id) => Ok(Entry { id, path }),
        None => Err(Skipped::new(
            &path,
            SkipReason::BadName,
            "the name gives no id",
        )),
    }
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
}
