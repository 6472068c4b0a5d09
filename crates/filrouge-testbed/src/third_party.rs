//! Third-party programs that tests install into the build folder, and notes for the gate when one is unavailable.
//!
//! Tests install them once, from npm, PyPI, Maven Central or the Go module proxy. If these are unreachable, a test
//! checks nothing and passes. The output of a passing test is not shown, so it writes a note to `not-tested`, which
//! `.ci/run` prints at its end. `all` is the folder `CARGO_TARGET_TMPDIR` of the test.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The reason why a program is unavailable.
#[derive(Debug)]
pub struct Unavailable(pub String);

/// Returns the folder `all/name/here`, which `install` filled with these versions.
///
/// One process at a time installs. An interrupted installation is repeated.
///
/// # Errors
/// Those of `install`.
pub fn installed(
    all: &Path,
    name: &str,
    versions: &str,
    install: impl FnOnce(&Path) -> Result<(), Unavailable>,
) -> Result<PathBuf, Unavailable> {
    let parent = all.join(name);
    fs::create_dir_all(&parent).unwrap();
    let lock = File::create(parent.join("lock")).unwrap();
    lock.lock().unwrap();
    let folder = parent.join("here");
    // The stamp is written last, so an incomplete folder has none.
    let stamp = folder.join("stamp");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == versions) {
        return Ok(folder);
    }
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    fs::create_dir_all(&folder).unwrap();
    install(&folder)?;
    fs::write(stamp, versions).unwrap();
    Ok(folder)
}

/// Runs a command without stdin.
///
/// # Errors
/// With the command's stderr, if it fails.
pub fn run(command: &mut Command) -> Result<(), Unavailable> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|e| Unavailable(format!("{:?}: {e}", command.get_program())))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let program = command.get_program();
    Err(Unavailable(format!("{program:?}: {}", stderr.trim())))
}

/// Returns the program; if it is unavailable, writes the note `name`: `what` was not tested.
pub fn or_report_untested<T>(
    all: &Path,
    name: &str,
    what: &str,
    program: Result<T, Unavailable>,
) -> Option<T> {
    let notes = all.join("not-tested");
    let note = notes.join(name);
    match program {
        Ok(program) => {
            fs::remove_file(note).ok();
            Some(program)
        }
        Err(Unavailable(why)) => {
            fs::create_dir_all(&notes).unwrap();
            fs::write(note, format!("{what}: {why}\n")).unwrap();
            None
        }
    }
}
