//! Installs missing programs, if root runs the tests on Debian or a system like it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::binaries::{in_path, run};
use crate::folder;

/// Returns the result of `find`; installs `package` first if nothing is found.
///
/// # Panics
/// With the name of the package, if nothing is found and it cannot be installed.
pub(crate) fn find_or_install(
    find: fn() -> Option<PathBuf>,
    program: &str,
    package: &str,
) -> PathBuf {
    if let Some(found) = find() {
        return found;
    }
    // One of the test processes installs the package; the others wait and find the result.
    let _installing = folder::lock_exclusively("install");
    if let Some(found) = find() {
        return found;
    }
    let apt = in_path("apt-get").filter(|_| rustix::process::geteuid().is_root());
    let Some(apt) = apt else {
        panic!("missing: {program}. Install the package {package}");
    };
    let fail =
        |e: String| -> ! { panic!("missing: {program}. Install the package {package}:\n{e}") };
    install(&apt, package).unwrap_or_else(|e| fail(e));
    find().unwrap_or_else(|| fail("it was installed, but is not in the expected place".to_owned()))
}

fn install(apt: &Path, package: &str) -> Result<(), String> {
    let apt_get = |arguments: &[&str]| {
        let out = Command::new(apt)
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .output()
            .map_err(|e| e.to_string())?;
        if out.status.success() {
            return Ok(());
        }
        Err(String::from_utf8_lossy(&out.stderr).into_owned())
    };
    apt_get(&["update", "-qq"])?;
    // While this file exists, packages start no services.
    let _no_services = FileChange::create(
        Path::new("/usr/sbin/policy-rc.d"),
        "#!/bin/sh\nexit 101\n",
        0o755,
    );
    if package == "postgresql" {
        // The setting must exist before the server's package is installed: otherwise that package creates a cluster.
        apt_get(&["install", "-y", "-qq", "postgresql-common"])?;
        let _no_cluster = FileChange::append(
            Path::new("/etc/postgresql-common/createcluster.conf"),
            "\ncreate_main_cluster = false\n",
        );
        return apt_get(&["install", "-y", "-qq", package]);
    }
    apt_get(&["install", "-y", "-qq", package])
}

/// A change of a system file, undone on drop.
struct FileChange {
    path: PathBuf,
    original: Option<Vec<u8>>,
}

impl FileChange {
    /// Writes a file unless it exists.
    fn create(path: &Path, text: &str, mode: u32) -> Option<Self> {
        if path.exists() {
            return None;
        }
        std::fs::write(path, text).expect("cannot write a system file");
        run(Command::new("chmod").arg(format!("{mode:o}")).arg(path));
        Some(Self {
            path: path.to_owned(),
            original: None,
        })
    }

    /// Appends text to a file; creates a missing one.
    fn append(path: &Path, text: &str) -> Self {
        let original = std::fs::read(path).ok();
        let mut changed = original.clone().unwrap_or_default();
        changed.extend_from_slice(text.as_bytes());
        std::fs::write(path, changed).expect("cannot write a system file");
        Self {
            path: path.to_owned(),
            original,
        }
    }
}

impl Drop for FileChange {
    fn drop(&mut self) {
        let restored = match &self.original {
            Some(original) => std::fs::write(&self.path, original),
            None => std::fs::remove_file(&self.path),
        };
        if let (Err(e), false) = (restored, std::thread::panicking()) {
            panic!("{}: {e}", self.path.display());
        }
    }
}
