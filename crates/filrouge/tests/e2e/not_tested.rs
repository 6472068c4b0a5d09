//! Other people's programs in the build folder, and what is left where somebody looks when they cannot be had.
//!
//! They come from npm and PyPI, once. Where these cannot be reached a test looks at nothing and says so by name:
//! nobody sees what a passing test prints, so that it leaves a note in `not-tested`, which `.ci/run` shows at its end.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Why a program is not here.
pub(crate) struct NotHere(pub(crate) String);

/// A folder of the build folder, made by `install` for these versions: by one process at a time, whole or not at all.
pub(crate) fn installed(
    name: &str,
    versions: &str,
    install: impl FnOnce(&Path) -> Result<(), NotHere>,
) -> Result<PathBuf, NotHere> {
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
    install: impl FnOnce(&Path) -> Result<(), NotHere>,
) -> Result<PathBuf, NotHere> {
    let place = all.join(name);
    fs::create_dir_all(&place).unwrap();
    let lock = File::create(place.join("lock")).unwrap();
    lock.lock().unwrap();
    let folder = place.join("here");
    // Beside the folder's own files only once all of them are there.
    let stamp = folder.join("stamp");
    if fs::read_to_string(&stamp).is_ok_and(|made| made == versions) {
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

/// `npm install`, without the packages' own scripts, into a folder.
pub(crate) fn npm_install(
    npm: &mut Command,
    folder: &Path,
    packages: &[&str],
) -> Result<(), NotHere> {
    npm.args(["install", "--no-audit", "--no-fund", "--no-save"])
        .args(["--ignore-scripts", "--prefix"])
        .arg(folder)
        .args(packages);
    run(npm)
}

pub(crate) fn run(command: &mut Command) -> Result<(), NotHere> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|e| NotHere(format!("{command:?}: {e}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(NotHere(format!("{command:?}: {}", said.trim())))
}

/// The program, or a note that `what` was not tested.
pub(crate) fn or_note<T>(name: &str, what: &str, here: Result<T, NotHere>) -> Option<T> {
    let notes = Path::new(env!("CARGO_TARGET_TMPDIR")).join("not-tested");
    or_note_in(&notes, name, what, here)
}

fn or_note_in<T>(notes: &Path, name: &str, what: &str, here: Result<T, NotHere>) -> Option<T> {
    let note = notes.join(name);
    match here {
        Ok(here) => {
            fs::remove_file(note).ok();
            Some(here)
        }
        Err(NotHere(why)) => {
            fs::create_dir_all(notes).unwrap();
            fs::write(note, format!("{what}: {why}\n")).unwrap();
            None
        }
    }
}

#[test]
fn what_cannot_be_had_leaves_a_note_until_it_can() {
    let folder = tempfile::tempdir().unwrap();
    let absent = run(&mut Command::new("filrouge-has-no-such-program"));
    assert_eq!(or_note_in(folder.path(), "one", "a client", absent), None);
    let note = fs::read_to_string(folder.path().join("one")).unwrap();
    assert!(note.starts_with("a client: "), "{note}");
    assert!(note.contains("filrouge-has-no-such-program"), "{note}");
    assert_eq!(
        or_note_in(folder.path(), "one", "a client", Ok(())),
        Some(())
    );
    assert!(!folder.path().join("one").exists());
}

#[test]
fn what_was_torn_off_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let torn = |here: &Path| {
        fs::write(here.join("half"), "").unwrap();
        Err(NotHere("torn off".to_owned()))
    };
    assert!(installed_in(folder.path(), "one", "1", torn).is_err());
    let whole = |here: &Path| {
        assert!(!here.join("half").exists());
        Ok(())
    };
    assert!(installed_in(folder.path(), "one", "1", whole).is_ok());
    let again = |_: &Path| panic!("it is there");
    assert!(installed_in(folder.path(), "one", "1", again).is_ok());
    assert!(installed_in(folder.path(), "one", "2", |_| Ok(())).is_ok());
}
