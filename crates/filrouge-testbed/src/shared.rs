//! The server that all test processes of this user share.

use std::fs::File;
use std::path::PathBuf;
use std::sync::OnceLock;

use crate::binaries;
use crate::cluster::Cluster;
use crate::folder::{self, Folder, Grace};

/// Joins the shared server, or starts it; it runs at least as long as this process.
pub(crate) fn server() -> &'static Cluster {
    static SERVER: OnceLock<Cluster> = OnceLock::new();
    SERVER.get_or_init(|| {
        // Called first, because the installation may take a while, and may create the user that servers run as.
        binaries::postgres();
        // The file names the running server. One lock covers both, so that a reader finds that server running.
        let current = folder::root().join("current");
        let lock = folder::lock_exclusively("lock");
        let text = std::fs::read_to_string(&current).unwrap_or_default();
        join(&text, &lock).unwrap_or_else(|| {
            folder::sweep(None, &lock);
            let cluster = Cluster::start(Folder::new(Grace::Seconds20, &lock), false, &[]);
            let line = format!("{} {}\n", cluster.port(), cluster.path().display());
            folder::write(&current, &line);
            cluster
        })
    })
}

/// Joins the server that a line of the file names; `None` if it does not run.
fn join(line: &str, lock: &File) -> Option<Cluster> {
    let (port, path) = line.trim_end().split_once(' ')?;
    let folder = Folder::join(&PathBuf::from(path), lock)?;
    Cluster::join(folder, port.parse().ok()?)
}
