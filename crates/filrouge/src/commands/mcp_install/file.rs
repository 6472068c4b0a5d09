//! Reads and replaces a configuration file. The old version is kept as a backup, and readers never see a partial new
//! version.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::exit::Usage;

/// The maximum number of bytes of a configuration file.
const SIZE_MAX: u64 = 64 << 20;
/// The maximum number of backups of one file.
const BACKUPS_MAX: u32 = 10_000;

fn file_error(path: &Path, error: &io::Error) -> Usage {
    Usage::new(format!("{}: {error}", path.display()))
}

/// Reads the text of a file; `None` when the file is missing.
pub(super) fn read(path: &Path) -> Result<Option<String>, Usage> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            // A dangling link is refused: writing would replace the link by a file.
            return match fs::symlink_metadata(path) {
                Ok(_) => Err(Usage::new(format!(
                    "{} is a link to nothing",
                    path.display()
                ))),
                Err(_) => Ok(None),
            };
        }
        Err(e) => return Err(file_error(path, &e)),
    };
    if !metadata.is_file() || metadata.len() > SIZE_MAX {
        return Err(Usage::new(format!(
            "{} is no configuration file",
            path.display()
        )));
    }
    let text = fs::read_to_string(path).map_err(|e| file_error(path, &e))?;
    Ok(Some(text))
}

/// Replaces the file's content by `new`. Fails if the content is no longer `old`; `None` means a missing file.
/// Returns the path of the backup of `old`. If `path` is a link, its target is replaced. The file's mode is kept.
pub(super) fn replace(
    path: &Path,
    old: Option<&str>,
    new: &str,
) -> anyhow::Result<Option<PathBuf>> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|e| file_error(folder, &e))?;
    }
    let (target, mode, backup) = match old {
        Some(old) => {
            let target = fs::canonicalize(path).map_err(|e| file_error(path, &e))?;
            let mode = fs::metadata(&target)?.permissions().mode() & 0o7777;
            let backup = back_up(&target, old, mode)?;
            (target, mode, Some(backup))
        }
        None => (path.to_owned(), 0o600, None),
    };
    let temporary = target.with_added_extension(format!("filrouge-{}", std::process::id()));
    let written = write(&temporary, new, mode).and_then(|()| {
        if !read(&target).is_ok_and(|current| current.as_deref() == old) {
            return Err(io::Error::other(
                "it has changed meanwhile; nothing was changed",
            ));
        }
        fs::rename(&temporary, &target)
    });
    if let Err(e) = written {
        // The temporary file is no longer needed; if it cannot be removed, the first error matters.
        let _ = fs::remove_file(&temporary);
        return Err(file_error(&target, &e).into());
    }
    if let Some(folder) = target.parent() {
        File::open(folder)?.sync_all()?;
    }
    Ok(backup)
}

/// Writes the old content to `NAME.bak.N`, where N is the first free number.
fn back_up(target: &Path, old: &str, mode: u32) -> Result<PathBuf, Usage> {
    for number in 1..=BACKUPS_MAX {
        let backup = target.with_added_extension(format!("bak.{number}"));
        match write(&backup, old, mode) {
            Ok(()) => return Ok(backup),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(file_error(&backup, &e)),
        }
    }
    Err(Usage::new(format!(
        "{} has {BACKUPS_MAX} backups",
        target.display()
    )))
}

/// Creates a file with this text, and flushes it. Fails if the file exists.
fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.sync_all()
}
