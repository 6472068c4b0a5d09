//! The server that all test processes of this user share.

use std::fs::File;
use std::path::PathBuf;
use std::sync::OnceLock;

use crate::binaries;
use crate::cluster::Cluster;
use crate::folder::{self, Folder, Grace};

/// Joins the shared server, or starts it; it runs at least as long as this process.
pub(crate) fn server() -> &'static Cluster {
    static JOINED: OnceLock<Cluster> = OnceLock::new();
    JOINED.get_or_init(|| {
        // Called first, because the installation may take a while, and may create the user that servers run as.
        binaries::postgres();
        // A reader of this file must find the listed server running, so one lock covers both.
        let current = folder::root().join("current");
        let lock = folder::exclusive("lock");
        let text = std::fs::read_to_string(&current).unwrap_or_default();
        joined(&text, &lock).unwrap_or_else(|| {
            folder::sweep(None, &lock);
            let cluster = Cluster::start(Folder::new(Grace::Seconds20, &lock), false, &[]);
            let line = format!("{} {}\n", cluster.port(), cluster.path().display());
            folder::write(&current, &line);
            cluster
        })
    })
}

fn joined(line: &str, lock: &File) -> Option<Cluster> {
    let (port, path) = line.trim_end().split_once(' ')?;
    let folder = Folder::join(&PathBuf::from(path), lock)?;
    Cluster::join(folder, port.parse().ok()?)
}
