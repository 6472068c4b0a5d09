//! Why an export failed.

use std::io;
use std::path::{Path, PathBuf};

use filrouge_types::Failure;

/// Why an export failed. Files that are already complete stay.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The folder has files already.
    #[error("{}: the folder is not empty", .0.display())]
    NotEmpty(PathBuf),
    /// A file or folder cannot be written.
    #[error("{}: {source}", .path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Rows cannot be written as Parquet.
    #[error("{}: {detail}", .path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// The cause.
        detail: String,
    },
    /// A session cannot be read.
    #[error(transparent)]
    Session(#[from] Failure),
}

impl ExportError {
    pub(super) fn file(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        Self::File { path, source }
    }
}
