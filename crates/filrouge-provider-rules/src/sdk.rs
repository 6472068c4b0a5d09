//! The second check of histories: with the request types of the providers' official Python SDKs.
//!
//! [`check`] creates a Python virtual environment with pinned versions of the SDKs, in a directory that the caller
//! names, and runs `sdk/check.py` in it. The script refuses members that an SDK's request types do not have, wrong JSON
//! types, and missing members. [`crate::check_history`] also checks the order of messages, pairs of calls and results,
//! and formats.
//!
//! [`streams`] uses the SDKs for another purpose: it returns the data that they read from a provider's answer.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use serde_json::{Value, json};

use crate::Provider;

pub mod streams;

const SCRIPT: &str = include_str!("../sdk/check.py");
const REQUIREMENTS: &str = include_str!("../sdk/requirements.txt");

/// A history that an SDK's request types refuse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SdkViolation {
    /// The index of the history in the slice given to [`check`].
    pub history: usize,
    /// The history's provider.
    pub provider: Provider,
    /// The path in the history, and the SDK's error message.
    pub description: String,
}

/// The reason why the SDKs could not be used.
#[derive(Debug, thiserror::Error)]
pub enum SdkError {
    /// Python 3 cannot be run.
    #[error(
        "cannot run python3: {0}; install Python 3.10 or newer with its venv module (Debian: python3, python3-venv)"
    )]
    Python(#[source] io::Error),
    /// `python3 -m venv` failed.
    #[error(
        "python3 -m venv failed; install Python's venv module (Debian: python3-venv): {output}"
    )]
    Venv {
        /// The command's output.
        output: String,
    },
    /// `pip install` failed.
    #[error(
        "pip could not install the packages of sdk/requirements.txt; it needs pip and a package index: {output}"
    )]
    Install {
        /// The command's output.
        output: String,
    },
    /// The script failed. Status 3: the script's own test of the SDK types failed.
    #[error("sdk/{script} ended with {status:?}: {output}")]
    Script {
        /// The script's name.
        script: &'static str,
        /// The script's exit status; `None` if a signal ended it.
        status: Option<i32>,
        /// The script's output on standard error.
        output: String,
    },
    /// The script's output does not have the expected form, or does not cover all histories or answers.
    #[error("the script printed unexpected output: {0}")]
    Answer(String),
    /// The directory cannot be used.
    #[error("{path}: {source}")]
    Directory {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// Validates `histories` against the SDKs' request types, in one run of the script.
///
/// The virtual environment is in `directory`, which is created if missing. There is one environment for each content of
/// `sdk/requirements.txt`; it is complete once its stamp file exists. Processes that run at the same time may share the
/// directory: a file lock makes them take turns. The first call downloads the packages, about 30 MB.
///
/// # Errors
///
/// Any [`SdkError`]. A refused history is not an error.
pub fn check(
    directory: &Path,
    histories: &[(Provider, Value)],
) -> Result<Vec<SdkViolation>, SdkError> {
    let lines = histories
        .iter()
        .map(|(provider, messages)| json!({"provider": provider.as_str(), "messages": messages}));
    let stdout = run_script(directory, "check", &[("check.py", SCRIPT)], lines)?;
    parse_violations(&stdout, histories)
}

/// Runs the first of `files` with the JSON lines `lines` as input, and returns the script's output. The files are
/// stored in a folder of `directory` whose name begins with `name`.
fn run_script(
    directory: &Path,
    name: &str,
    files: &[(&'static str, &str)],
    lines: impl Iterator<Item = Value>,
) -> Result<Vec<u8>, SdkError> {
    let Environment { python, folder } = prepare_environment(directory, name, files)?;
    let script = files.first().map_or("", |(file, _)| *file);
    let path = folder.join(script);
    let mut child = Command::new(python)
        .arg(&path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(SdkError::Python)?;
    let output = write_input(&mut child, lines)
        .and_then(|()| child.wait_with_output())
        .map_err(directory_error(&path))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(SdkError::Script {
        script,
        status: output.status.code(),
        output: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// Starts a thread that writes the lines to the script, so that this process can read the script's output at the same
/// time. The thread ends when the script has read all lines or has exited; errors are ignored, because the script's
/// exit status shows a failure.
fn write_input(child: &mut Child, lines: impl Iterator<Item = Value>) -> io::Result<()> {
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    if let Some(mut stdin) = child.stdin.take() {
        thread::Builder::new().spawn(move || stdin.write_all(text.as_bytes()))?;
    }
    Ok(())
}

/// Parses the output of `check.py`.
fn parse_violations(
    stdout: &[u8],
    histories: &[(Provider, Value)],
) -> Result<Vec<SdkViolation>, SdkError> {
    let mut violations = Vec::new();
    let mut checked = None;
    for line in String::from_utf8_lossy(stdout).lines() {
        let unexpected = || SdkError::Answer(line.to_owned());
        let value: Value = serde_json::from_str(line).map_err(|_| unexpected())?;
        if let Some(count) = value.get("checked").and_then(Value::as_u64) {
            checked = Some(count);
            continue;
        }
        let number = value.get("line").and_then(Value::as_u64);
        let history = number
            .and_then(|number| usize::try_from(number).ok()?.checked_sub(1))
            .ok_or_else(unexpected)?;
        let (provider, _) = histories.get(history).ok_or_else(unexpected)?;
        let description = value.get("what").and_then(Value::as_str);
        violations.push(SdkViolation {
            history,
            provider: *provider,
            description: description.ok_or_else(unexpected)?.to_owned(),
        });
    }
    if checked != u64::try_from(histories.len()).ok() {
        let description = format!("{checked:?} of {} histories checked", histories.len());
        return Err(SdkError::Answer(description));
    }
    Ok(violations)
}

/// The interpreter and the files of a script.
struct Environment {
    /// The Python interpreter of the virtual environment.
    python: PathBuf,
    /// The folder of the script's files.
    folder: PathBuf,
}

/// Returns the virtual environment and the folder of a script's files. Creates them if they are missing; only one
/// process at a time does this.
fn prepare_environment(
    directory: &Path,
    name: &str,
    files: &[(&'static str, &str)],
) -> Result<Environment, SdkError> {
    fs::create_dir_all(directory).map_err(directory_error(directory))?;
    let lock_path = directory.join("lock");
    let lock = File::create(&lock_path).map_err(directory_error(&lock_path))?;
    lock.lock().map_err(directory_error(&lock_path))?;

    let requirements_hash = hash_hex(REQUIREMENTS);
    let venv = directory.join(format!("venv-{requirements_hash}"));
    let python = if cfg!(windows) {
        venv.join("Scripts").join("python.exe")
    } else {
        venv.join("bin").join("python")
    };
    let stamp = directory.join(format!("{requirements_hash}.stamp"));
    if !(stamp.exists() && python.exists()) {
        create_environment(directory, &venv, &python)?;
        fs::write(&stamp, REQUIREMENTS).map_err(directory_error(&stamp))?;
    }
    let texts: String = files.iter().map(|(_, text)| *text).collect();
    let folder = directory.join(format!("{name}-{}", hash_hex(&texts)));
    fs::create_dir_all(&folder).map_err(directory_error(&folder))?;
    for (file, text) in files {
        let path = folder.join(file);
        if !path.exists() {
            write_atomically(&path, text)?;
        }
    }
    Ok(Environment { python, folder })
}

fn create_environment(directory: &Path, venv: &Path, python: &Path) -> Result<(), SdkError> {
    let created = run_command(
        Command::new("python3")
            .args(["-m", "venv", "--clear"])
            .arg(venv),
    )?;
    if !created.status.success() {
        return Err(SdkError::Venv {
            output: output_text(&created),
        });
    }
    let requirements = directory.join("requirements.txt");
    write_atomically(&requirements, REQUIREMENTS)?;
    let installed = run_command(
        Command::new(python)
            .args(["-m", "pip", "install", "--quiet", "--requirement"])
            .arg(&requirements),
    )?;
    if !installed.status.success() {
        return Err(SdkError::Install {
            output: output_text(&installed),
        });
    }
    Ok(())
}

fn run_command(command: &mut Command) -> Result<Output, SdkError> {
    command
        .stdin(Stdio::null())
        .output()
        .map_err(SdkError::Python)
}

/// The text that a command printed.
fn output_text(output: &Output) -> String {
    let parts = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    parts.join("\n").trim().to_owned()
}

/// Writes the file atomically, so that a reader never sees an incomplete file.
fn write_atomically(path: &Path, text: &str) -> Result<(), SdkError> {
    let partial = path.with_extension("partial");
    fs::write(&partial, text)
        .and_then(|()| fs::rename(&partial, path))
        .map_err(directory_error(path))
}

/// Converts an I/O error at a path.
fn directory_error(path: &Path) -> impl FnOnce(io::Error) -> SdkError {
    let path = path.to_owned();
    move |source| SdkError::Directory { path, source }
}

/// The 64-bit FNV-1a hash of a text, in hexadecimal digits. It is the same on every platform and in every build.
fn hash_hex(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histories(count: usize) -> Vec<(Provider, Value)> {
        vec![(Provider::Gemini, json!([])); count]
    }

    #[test]
    fn the_output_must_count_every_history() {
        let violations = parse_violations(b"{\"checked\": 2}\n", &histories(2));
        assert_eq!(violations.unwrap(), []);
        for output in [&b"{\"checked\": 1}\n"[..], b""] {
            let error = parse_violations(output, &histories(2)).unwrap_err();
            assert!(matches!(error, SdkError::Answer(_)), "{error}");
        }
    }

    #[test]
    fn the_output_must_refer_to_the_given_histories() {
        for line in [
            "{\"line\": 2, \"what\": \"x\"}",
            "{\"line\": 0, \"what\": \"x\"}",
            "{\"line\": 1}",
            "{\"what\": \"x\"}",
            "Traceback",
        ] {
            let error = parse_violations(line.as_bytes(), &histories(1)).unwrap_err();
            assert!(matches!(error, SdkError::Answer(_)), "{line}: {error}");
        }
    }

    /// Creates a directory that looks like a complete virtual environment, whose interpreter is `program`.
    #[cfg(unix)]
    fn fake_environment(name: &str, program: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        let bin = directory
            .join(format!("venv-{}", hash_hex(REQUIREMENTS)))
            .join("bin");
        fs::create_dir_all(&bin).unwrap();
        std::os::unix::fs::symlink(program, bin.join("python")).unwrap();
        fs::write(
            directory.join(format!("{}.stamp", hash_hex(REQUIREMENTS))),
            "",
        )
        .unwrap();
        directory
    }

    #[cfg(unix)]
    #[test]
    fn a_failing_script_is_an_error_and_not_a_clean_result() {
        let directory = fake_environment("filrouge-failing-python", "/bin/false");
        let error = check(&directory, &histories(1)).unwrap_err();
        fs::remove_dir_all(&directory).unwrap();
        assert!(
            matches!(
                error,
                SdkError::Script {
                    status: Some(1),
                    ..
                }
            ),
            "{error}"
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_silent_script_is_an_error_and_not_a_clean_result() {
        let directory = fake_environment("filrouge-silent-python", "/bin/true");
        let error = check(&directory, &histories(1)).unwrap_err();
        fs::remove_dir_all(&directory).unwrap();
        assert!(matches!(error, SdkError::Answer(_)), "{error}");
    }
}
