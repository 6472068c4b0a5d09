//! Creates a Python virtual environment with the pinned packages of `requirements.txt`, once per version of that file.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const REQUIREMENTS: &str = include_str!("requirements.txt");

/// Why the environment is unavailable.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PythonError {
    #[error(
        "cannot run python3: {0}; install Python 3.10 or newer with its venv module (Debian: python3, python3-venv)"
    )]
    Python(#[source] io::Error),
    #[error("python3 -m venv failed; install Python's venv module (Debian: python3-venv): {0}")]
    Venv(String),
    #[error(
        "pip could not install tests/schemathesis/requirements.txt; it needs a package index: {0}"
    )]
    Install(String),
    #[error("{path}: {source}")]
    Directory { path: PathBuf, source: io::Error },
}

/// Returns the interpreter of the environment in `directory`; creates a missing environment. A file lock lets parallel
/// processes share it.
pub(crate) fn environment(directory: &Path) -> Result<PathBuf, PythonError> {
    fs::create_dir_all(directory).map_err(error_at(directory))?;
    let lock_path = directory.join("lock");
    let lock = File::create(&lock_path).map_err(error_at(&lock_path))?;
    lock.lock().map_err(error_at(&lock_path))?;

    let name = digest(REQUIREMENTS);
    let venv = directory.join(format!("venv-{name}"));
    let python = venv.join("bin").join("python");
    let stamp = directory.join(format!("{name}.stamp"));
    if !(stamp.exists() && python.exists()) {
        install(directory, &venv, &python)?;
        fs::write(&stamp, REQUIREMENTS).map_err(error_at(&stamp))?;
    }
    Ok(python)
}

fn install(directory: &Path, venv: &Path, python: &Path) -> Result<(), PythonError> {
    let created = run(Command::new("python3")
        .args(["-m", "venv", "--clear"])
        .arg(venv))?;
    if !created.status.success() {
        return Err(PythonError::Venv(output_text(&created)));
    }
    let requirements = directory.join("requirements.txt");
    fs::write(&requirements, REQUIREMENTS).map_err(error_at(&requirements))?;
    let installed = run(Command::new(python)
        .args(["-m", "pip", "install", "--quiet", "--requirement"])
        .arg(&requirements))?;
    if !installed.status.success() {
        return Err(PythonError::Install(output_text(&installed)));
    }
    Ok(())
}

fn run(command: &mut Command) -> Result<Output, PythonError> {
    command
        .stdin(Stdio::null())
        .output()
        .map_err(PythonError::Python)
}

fn output_text(output: &Output) -> String {
    let parts = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    parts.join("\n").trim().to_owned()
}

fn error_at(path: &Path) -> impl FnOnce(io::Error) -> PythonError {
    let path = path.to_owned();
    move |source| PythonError::Directory { path, source }
}

/// Returns the 64-bit FNV-1a hash of a text in hexadecimal, which is the same in every build.
fn digest(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}
