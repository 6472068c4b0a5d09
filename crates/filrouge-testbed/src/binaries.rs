//! Locates the server programs, and runs them as the right user.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::install;

/// The user that servers run as, if it differs from the user that runs the tests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Identity {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// Returns the user that servers run as if root runs the tests: `postgres`, or `nobody` if that does not exist.
/// Otherwise servers run as the current user, and the result is `None`.
pub(crate) fn identity() -> Option<Identity> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").expect("/etc/passwd");
    let find = |name: &str| {
        let mut fields = users
            .lines()
            .map(|line| line.split(':'))
            .find(|fields| fields.clone().next() == Some(name))?
            .skip(2);
        Some(Identity {
            uid: fields.next()?.parse().ok()?,
            gid: fields.next()?.parse().ok()?,
        })
    };
    let found = find("postgres").or_else(|| find("nobody"));
    Some(found.expect("PostgreSQL refuses to run as root: a user `postgres` or `nobody` is needed"))
}

/// Returns a command that runs `program` as the servers' user, without the caller's `PG…` variables. Its working folder
/// is `/`, because that user may not be allowed to enter the caller's.
pub(crate) fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir("/").env("LC_ALL", "C");
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"PG") {
            command.env_remove(name);
        }
    }
    if let Some(identity) = identity() {
        command.uid(identity.uid).gid(identity.gid);
    }
    command
}

/// Runs `command` to its end; panics with its output if it fails.
pub(crate) fn run(command: &mut Command) -> String {
    let out = command
        .output()
        .unwrap_or_else(|e| panic!("cannot run {:?}: {e}", command.get_program()));
    assert!(
        out.status.success(),
        "{command:?} failed with {}\n{}{}",
        out.status,
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8(out.stdout).expect("UTF-8")
}

/// Returns the folder with `postgres`, `initdb`, `pg_ctl` and `psql`; installs PostgreSQL if it is missing.
pub(crate) fn postgres() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| install::find_or_install(find_postgres, "PostgreSQL", "postgresql"))
}

/// Returns the path of PgBouncer; installs it if it is missing.
pub(crate) fn pgbouncer() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| install::find_or_install(find_pgbouncer, "PgBouncer", "pgbouncer"))
}

/// Returns the path of `redis-server`; installs it if it is missing.
pub(crate) fn redis() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| {
        install::find_or_install(|| in_path("redis-server"), "Redis", "redis-server")
    })
}

fn find_postgres() -> Option<PathBuf> {
    let has_all_programs = |folder: &PathBuf| {
        ["postgres", "initdb", "pg_ctl", "psql"]
            .iter()
            .all(|name| is_executable(&folder.join(name)))
    };
    // A link in `PATH` may lead to the folder with the other programs.
    let in_search_path = in_path("postgres")
        .and_then(|program| program.canonicalize().ok())
        .and_then(|program| Some(program.parent()?.to_owned()))
        .filter(has_all_programs);
    in_search_path.or_else(|| {
        let installed = std::fs::read_dir("/usr/lib/postgresql").ok()?;
        installed
            .filter_map(|entry| {
                let path = entry.ok()?.path();
                let version: u32 = path.file_name()?.to_str()?.parse().ok()?;
                Some((version, path.join("bin")))
            })
            .filter(|(_, folder)| has_all_programs(folder))
            .max()
            .map(|(_, folder)| folder)
    })
}

fn find_pgbouncer() -> Option<PathBuf> {
    in_path("pgbouncer")
        .or_else(|| Some(PathBuf::from("/usr/sbin/pgbouncer")).filter(|path| is_executable(path)))
}

/// Returns the first executable of this name in `PATH`.
pub(crate) fn in_path(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(name))
        .find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}
