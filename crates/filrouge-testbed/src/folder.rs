//! Folders with servers. Each process that uses a folder holds a shared lock on its file `users`. The system releases
//! the lock however the process ends, and the folder's watchdog then ends the servers.

use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::OnceLock;

use crate::binaries::{command, identity, in_path};

const WATCHDOG: &str = include_str!("watchdog.sh");
/// The longest root, in bytes: a socket's path has at most 107 bytes on Linux, and `/run/pXXXXXX/.s.PGSQL.65535` is
/// appended to the root.
const MAX_ROOT_LEN: usize = 70;

/// The time for which servers keep running after the last process that uses their folder has exited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GracePeriod {
    None,
    Seconds20,
}

/// Returns the folder of this user's servers and locks.
pub(crate) fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let uid = rustix::process::geteuid().as_raw();
        let name = format!("filrouge-testbed-{uid}");
        let mut root = std::env::temp_dir().join(&name);
        if root.as_os_str().len() > MAX_ROOT_LEN {
            root = Path::new("/tmp").join(&name);
        }
        create_folder(&root);
        let owner = root.symlink_metadata().expect("metadata");
        assert!(
            owner.is_dir() && owner.uid() == uid,
            "{} belongs to another user",
            root.display()
        );
        root
    })
}

/// Returns a folder in the root that servers may write to; creates it if it is missing. Call it after installing the
/// programs, which may create the servers' user.
pub(crate) fn server_folder(name: &str) -> PathBuf {
    let folder = root().join(name);
    create_folder(&folder);
    give_to_servers(&folder);
    folder
}

/// Creates a folder that servers may write to; keeps an existing one.
pub(crate) fn create_for_servers(folder: &Path) {
    create_folder(folder);
    give_to_servers(folder);
}

/// Creates a folder that all users may enter; keeps an existing one.
fn create_folder(folder: &Path) {
    match std::fs::create_dir(folder) {
        Ok(()) => make_readable(folder),
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(e) => panic!("{}: {e}", folder.display()),
    }
}

/// Changes the owner to the servers' user, if that is another one.
fn give_to_servers(path: &Path) {
    if let Some(identity) = identity() {
        std::os::unix::fs::chown(path, Some(identity.uid), Some(identity.gid)).expect("chown");
    }
}

/// Lets all users read a file or enter a folder, regardless of the umask: if root runs the tests, servers run as
/// another user.
fn make_readable(path: &Path) {
    let mode = if path.is_dir() { 0o755 } else { 0o644 };
    std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("permissions");
}

/// Writes a file that servers can read.
pub(crate) fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    make_readable(path);
}

/// Writes a file that only servers can read.
pub(crate) fn write_secret(path: &Path, text: impl AsRef<[u8]>) {
    std::fs::write(path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    std::fs::set_permissions(path, Permissions::from_mode(0o600)).expect("permissions");
    give_to_servers(path);
}

/// Waits for the lock of this name, which excludes every other process of this user until the file is dropped.
pub(crate) fn lock_exclusively(name: &str) -> File {
    let file = open_lock_file(&root().join(name));
    file.lock().expect("a lock");
    file
}

fn open_lock_file(path: &Path) -> File {
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    make_readable(path);
    file
}

/// A folder with servers that this process uses.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// The file `users`, locked.
    users: Option<File>,
    /// Set only in the process that created the folder.
    watchdog: Option<Child>,
}

impl Folder {
    /// Creates a folder. `lock` proves that the caller holds [`lock_exclusively`]`("lock")`, so that [`remove_unused`]
    /// does not take a folder under creation for an unused one.
    pub(crate) fn new(grace_period: GracePeriod, lock: &File) -> Self {
        let _proof: &File = lock;
        let path = tempfile::Builder::new()
            .prefix("p")
            .tempdir_in(server_folder("run"))
            .expect("a folder")
            .keep();
        make_readable(&path);
        give_to_servers(&path);
        let users = open_lock_file(&path.join("users"));
        users.lock_shared().expect("a lock");
        let watchdog = spawn_watchdog(&path, grace_period);
        let watchdog = match grace_period {
            GracePeriod::None => Some(watchdog),
            GracePeriod::Seconds20 => {
                wait_on_thread(watchdog);
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
        let _proof: &File = lock;
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

/// Starts the process that ends the servers in `folder` once no process uses them. Its process group is its own, so it
/// survives an interrupted test run.
fn spawn_watchdog(folder: &Path, grace_period: GracePeriod) -> Child {
    assert!(
        in_path("flock").is_some(),
        "missing: flock. Install the package util-linux"
    );
    let seconds = match grace_period {
        GracePeriod::None => "0",
        GracePeriod::Seconds20 => "20",
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

/// Waits for a child on a separate thread, so that it leaves no zombie. The child may outlive this process.
pub(crate) fn wait_on_thread(mut child: Child) {
    std::thread::spawn(move || child.wait());
}

/// Removes servers and folders that no process uses, except `current`: crashed machines and killed watchdogs leave
/// them. `lock` is as for [`Folder::new`].
pub(crate) fn remove_unused(current: Option<&Path>, lock: &File) {
    let _proof: &File = lock;
    for entry in std::fs::read_dir(server_folder("run")).expect("a folder") {
        let path = entry.expect("an entry").path();
        if !path.is_dir() || Some(path.as_path()) == current {
            continue;
        }
        // A folder without this file is empty, or its creator is removing it.
        let Ok(users) = File::open(path.join("users")) else {
            continue;
        };
        if users.try_lock().is_ok() {
            drop(users);
            wait_on_thread(spawn_watchdog(&path, GracePeriod::None));
        }
    }
}
