//! Server folders. Each user holds a lock, which the system releases however its process ends.

use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::OnceLock;

use crate::binaries::{command, identity, in_path};

const WATCHDOG: &str = include_str!("watchdog.sh");
/// A socket's path has at most 107 bytes on Linux; `/run/pXXXXXX/.s.PGSQL.65535` is appended to the root.
const LONGEST_ROOT: usize = 70;

/// The time between the exit of a folder's last user and the end of its servers: none, or a grace period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grace {
    None,
    Seconds20,
}

/// The folder of this user's servers and locks.
pub(crate) fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let uid = rustix::process::geteuid().as_raw();
        let name = format!("filrouge-testbed-{uid}");
        let mut root = std::env::temp_dir().join(&name);
        if root.as_os_str().len() > LONGEST_ROOT {
            root = Path::new("/tmp").join(&name);
        }
        create(&root);
        let owner = root.symlink_metadata().expect("metadata");
        assert!(
            owner.is_dir() && owner.uid() == uid,
            "{} belongs to another user",
            root.display()
        );
        root
    })
}

/// A folder in the root that servers may write to. Call it after installing the programs, which may create the servers'
/// user.
pub(crate) fn for_servers(name: &str) -> PathBuf {
    let folder = root().join(name);
    create(&folder);
    belongs_to_servers(&folder);
    folder
}

/// Creates a folder inside a server's folder that the server may write to; keeps an existing one.
pub(crate) fn inside(folder: &Path) {
    create(folder);
    belongs_to_servers(folder);
}

/// Creates a folder that all users may enter; keeps an existing one.
fn create(folder: &Path) {
    match std::fs::create_dir(folder) {
        Ok(()) => readable(folder),
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(e) => panic!("{}: {e}", folder.display()),
    }
}

fn belongs_to_servers(path: &Path) {
    if let Some(identity) = identity() {
        std::os::unix::fs::chown(path, Some(identity.uid), Some(identity.gid)).expect("chown");
    }
}

/// If root runs the tests, servers run as another user, so root's umask must not matter.
fn readable(path: &Path) {
    let mode = if path.is_dir() { 0o755 } else { 0o644 };
    std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("permissions");
}

/// Writes a file that servers can read.
pub(crate) fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    readable(path);
}

/// Writes a file that only servers can read.
pub(crate) fn write_secret(path: &Path, text: impl AsRef<[u8]>) {
    std::fs::write(path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    std::fs::set_permissions(path, Permissions::from_mode(0o600)).expect("permissions");
    belongs_to_servers(path);
}

/// Acquires the lock of this name, which excludes every other process of this user.
pub(crate) fn exclusive(name: &str) -> File {
    let file = lock_file(&root().join(name));
    file.lock().expect("a lock");
    file
}

fn lock_file(path: &Path) -> File {
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    readable(path);
    file
}

/// A folder with servers, in use by this process.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    users: Option<File>,
    /// Set only in the process that created the folder.
    watchdog: Option<Child>,
}

impl Folder {
    /// Creates a folder. `lock` is [`exclusive`] `"lock"`, so that a folder under creation is not mistaken for an
    /// abandoned one.
    pub(crate) fn new(grace: Grace, lock: &File) -> Self {
        let _held: &File = lock;
        let path = tempfile::Builder::new()
            .prefix("p")
            .tempdir_in(for_servers("run"))
            .expect("a folder")
            .keep();
        readable(&path);
        belongs_to_servers(&path);
        let users = lock_file(&path.join("users"));
        users.lock_shared().expect("a lock");
        let watchdog = watch(&path, grace);
        let watchdog = match grace {
            Grace::None => Some(watchdog),
            Grace::Seconds20 => {
                reap(watchdog);
                None
            }
        };
        Self {
            path,
            users: Some(users),
            watchdog,
        }
    }

    /// Joins a folder that another process has created, if it still exists. `lock` is as for [`Folder::new`].
    pub(crate) fn join(path: &Path, lock: &File) -> Option<Self> {
        let _held: &File = lock;
        let users = File::open(path.join("users")).ok()?;
        users.lock_shared().expect("a lock");
        Some(Self {
            path: path.to_owned(),
            users: Some(users),
            watchdog: None,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    /// The creator removes the folder; a joined folder is left to its watchdog.
    fn drop(&mut self) {
        let Some(mut watchdog) = self.watchdog.take() else {
            return;
        };
        let removed = std::fs::remove_dir_all(&self.path);
        drop(self.users.take());
        let ended = watchdog.wait();
        if !std::thread::panicking() {
            removed.unwrap_or_else(|e| panic!("{}: {e}", self.path.display()));
            ended.expect("the watchdog");
        }
    }
}

/// Starts the process that ends the servers in `folder`, in a separate process group: it survives an interrupted test
/// run.
fn watch(folder: &Path, grace: Grace) -> Child {
    assert!(
        in_path("flock").is_some(),
        "missing: flock. Install the package util-linux"
    );
    let seconds = match grace {
        Grace::None => "0",
        Grace::Seconds20 => "20",
    };
    let mut watchdog = command(Path::new("/bin/sh"))
        .args(["-s", "--"])
        .arg(folder)
        .arg(root().join("lock"))
        .arg(seconds)
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("sh");
    // The script is smaller than a pipe's buffer, so writing it does not block.
    let script = watchdog
        .stdin
        .take()
        .map(|mut s| s.write_all(WATCHDOG.as_bytes()));
    assert!(matches!(script, Some(Ok(()))), "sh: {script:?}");
    watchdog
}

/// Waits on a separate thread for a process that may outlive this one.
fn reap(mut child: Child) {
    std::thread::spawn(move || child.wait());
}

/// Removes the servers and folders that crashed machines and killed watchdogs have left, except `current`. `lock` is as
/// for [`Folder::new`].
pub(crate) fn sweep(current: Option<&Path>, lock: &File) {
    let _held: &File = lock;
    for entry in std::fs::read_dir(for_servers("run")).expect("a folder") {
        let path = entry.expect("an entry").path();
        if !path.is_dir() || Some(path.as_path()) == current {
            continue;
        }
        // Without the file, the folder is empty or its creator is removing it.
        let Ok(users) = File::open(path.join("users")) else {
            continue;
        };
        if users.try_lock().is_ok() {
            drop(users);
            reap(watch(&path, Grace::None));
        }
    }
}
