//! The server that all test processes of this user share.

use std::fs::File;
use std::path::PathBuf;
use std::sync::OnceLock;

use crate::binaries;
use crate::folder::{self, Folder, GracePeriod};
use crate::postgres_server::PostgresServer;

/// Joins the shared server, or starts it; it runs at least as long as this process.
pub(crate) fn server() -> &'static PostgresServer {
    static SERVER: OnceLock<PostgresServer> = OnceLock::new();
    SERVER.get_or_init(|| {
        // Called first, because the installation may take a while, and may create the user that servers run as.
        binaries::postgres();
        // The file names the running server. One lock covers both, so that a reader finds that server running.
        let current = folder::root().join("current");
        let lock = folder::lock_exclusively("lock");
        let text = std::fs::read_to_string(&current).unwrap_or_default();
        join_named(&text, &lock).unwrap_or_else(|| {
            folder::remove_unused(None, &lock);
            let server =
                PostgresServer::start(Folder::new(GracePeriod::Seconds20, &lock), false, &[]);
            let line = format!("{} {}\n", server.port(), server.path().display());
            folder::write(&current, &line);
            server
        })
    })
}

/// Joins the server that a line of the file names; `None` if it does not run.
fn join_named(line: &str, lock: &File) -> Option<PostgresServer> {
    let (port, path) = line.trim_end().split_once(' ')?;
    let folder = Folder::join(&PathBuf::from(path), lock)?;
    PostgresServer::join_running(folder, port.parse().ok()?)
}
