//! What a source notes for other processes, in a file beside its index ([`filrouge_sources::Source::notes`]).

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use filrouge_sources::Source;

use super::source_index::SourceIndex;

/// More than any history has to note: a larger file is none of ours.
const BYTES_MAX: u64 = 64 << 20;

/// The file beside an index, or beside its lock.
pub(super) fn beside(index: &Path) -> PathBuf {
    index.with_extension("listing")
}

/// Gives a source what was noted beside its index; without notes it reads more.
pub(super) fn recall(source: &dyn Source, index: &Path) {
    let path = beside(index);
    let read = fs::metadata(&path).and_then(|meta| match meta.len() <= BYTES_MAX {
        true => fs::read(&path),
        false => Err(io::ErrorKind::FileTooLarge.into()),
    });
    match read {
        Ok(notes) => source.recall(&notes),
        Err(why) if why.kind() == io::ErrorKind::NotFound => {}
        Err(why) => tracing::debug!(file = %path.display(), %why, "notes are not read"),
    }
}

/// Replaces the file, as a whole; nobody else may read it.
fn write(path: &Path, notes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("listing.new");
    // One that a process left behind may have other rights.
    match fs::remove_file(&new) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(&new)?;
    file.write_all(notes)?;
    fs::rename(&new, path)
}

impl SourceIndex {
    /// Writes what the source notes, if there is something new. For who feeds the index: nobody else writes then.
    pub(super) fn write_notes(&self, notes: Option<Vec<u8>>) {
        let (Some(notes), Some(lock)) = (notes, &self.lock) else {
            return;
        };
        let path = beside(lock);
        if let Err(why) = write(&path, &notes) {
            tracing::debug!(file = %path.display(), %why, "notes are not written");
        }
    }
}
