//! Third-party programs in the build folder, and a note for the gate when one is unavailable.
//!
//! Tests install them once from npm and PyPI. If these are unreachable, a test checks nothing and passes. The output of
//! a passing test is not shown, so it writes a note to `not-tested`, which `.ci/run` prints at its end.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The reason why a program is unavailable.
pub(crate) struct Unavailable(pub(crate) String);

/// Returns a folder within the build folder that `install` filled with these versions.
///
/// One process at a time installs. An interrupted installation is repeated.
pub(crate) fn installed(
    name: &str,
    versions: &str,
    install: impl FnOnce(&Path) -> Result<(), Unavailable>,
) -> Result<PathBuf, Unavailable> {
    installed_in(
        Path::new(env!("CARGO_TARGET_TMPDIR")),
        name,
        versions,
        install,
    )
}

fn installed_in(
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

/// Runs `npm install` in a folder, without the packages' own scripts.
pub(crate) fn npm_install(
    npm: &mut Command,
    folder: &Path,
    packages: &[&str],
) -> Result<(), Unavailable> {
    npm.args(["install", "--no-audit", "--no-fund", "--no-save"])
        .args(["--ignore-scripts", "--prefix"])
        .arg(folder)
        .args(packages);
    run(npm)
}

/// Runs a command without stdin; an error contains its stderr.
pub(crate) fn run(command: &mut Command) -> Result<(), Unavailable> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|e| Unavailable(format!("{command:?}: {e}")))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(Unavailable(format!("{command:?}: {}", stderr.trim())))
}

/// Returns the program; if it is unavailable, writes the note `name`: `what` was not tested.
pub(crate) fn or_report_untested<T>(
    name: &str,
    what: &str,
    program: Result<T, Unavailable>,
) -> Option<T> {
    let notes = Path::new(env!("CARGO_TARGET_TMPDIR")).join("not-tested");
    or_report_untested_in(&notes, name, what, program)
}

fn or_report_untested_in<T>(
    notes: &Path,
    name: &str,
    what: &str,
    program: Result<T, Unavailable>,
) -> Option<T> {
    let note = notes.join(name);
    match program {
        Ok(program) => {
            fs::remove_file(note).ok();
            Some(program)
        }
        Err(Unavailable(why)) => {
            fs::create_dir_all(notes).unwrap();
            fs::write(note, format!("{what}: {why}\n")).unwrap();
            None
        }
    }
}

#[test]
fn an_unavailable_program_leaves_a_note_until_it_is_available() {
    let folder = tempfile::tempdir().unwrap();
    let absent = run(&mut Command::new("filrouge-has-no-such-program"));
    assert_eq!(
        or_report_untested_in(folder.path(), "one", "a client", absent),
        None
    );
    let note = fs::read_to_string(folder.path().join("one")).unwrap();
    assert!(note.starts_with("a client: "), "{note}");
    assert!(note.contains("filrouge-has-no-such-program"), "{note}");
    assert_eq!(
        or_report_untested_in(folder.path(), "one", "a client", Ok(())),
        Some(())
    );
    assert!(!folder.path().join("one").exists());
}

#[test]
fn an_interrupted_installation_is_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let interrupted = |target: &Path| {
        fs::write(target.join("partial"), "").unwrap();
        Err(Unavailable("interrupted".to_owned()))
    };
    assert!(installed_in(folder.path(), "one", "1", interrupted).is_err());
    let complete = |target: &Path| {
        assert!(!target.join("partial").exists(), "files are left over");
        Ok(())
    };
    assert!(installed_in(folder.path(), "one", "1", complete).is_ok());
    let not_called = |_: &Path| panic!("the program is installed already");
    assert!(installed_in(folder.path(), "one", "1", not_called).is_ok());
    assert!(installed_in(folder.path(), "one", "2", |_| Ok(())).is_ok());
}
