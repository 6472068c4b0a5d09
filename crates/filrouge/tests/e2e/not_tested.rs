//! Third-party programs from npm and PyPI in the build folder, and a note for the gate when one is unavailable.

use std::path::{Path, PathBuf};
use std::process::Command;

use filrouge_testbed::third_party;
pub(crate) use filrouge_testbed::third_party::{Unavailable, run};

/// The folder of the build in which programs are installed.
const ALL: &str = env!("CARGO_TARGET_TMPDIR");

/// As [`third_party::installed`], in this build's folder.
pub(crate) fn installed(
    name: &str,
    versions: &str,
    install: impl FnOnce(&Path) -> Result<(), Unavailable>,
) -> Result<PathBuf, Unavailable> {
    third_party::installed(Path::new(ALL), name, versions, install)
}

/// As [`third_party::or_report_untested`], in this build's folder.
pub(crate) fn or_report_untested<T>(
    name: &str,
    what: &str,
    program: Result<T, Unavailable>,
) -> Option<T> {
    third_party::or_report_untested(Path::new(ALL), name, what, program)
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
