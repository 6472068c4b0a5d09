//! Remembers, across restarts, which sessions servers on this machine have written to under a lease. Such a session is in
//! the ledger, so it must not begin in the spool, even if this process does not know it.
//!
//! The file `seen` has a hash for each session. A full file becomes `seen.old`, whose sessions are the oldest that are
//! remembered. Neither is flushed: after a power cut, the newest sessions may be missing.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::folder::private_file;
use super::known::SessionKey;

const HASH_BYTES: usize = 16;
/// The size of a full file: 65,536 sessions.
const FILE_BYTES: u64 = 1 << 20;

/// The sessions of a store that were seen.
pub(super) struct SeenSessions {
    path: PathBuf,
}

impl SeenSessions {
    /// The sessions in the folder of a store, which exists.
    pub(super) fn new(folder: &Path) -> Self {
        Self {
            path: folder.join("seen"),
        }
    }

    fn old_path(&self) -> PathBuf {
        self.path.with_extension("old")
    }

    /// Remembers a session. A failure is logged.
    pub(super) fn add(&self, key: &SessionKey) {
        if let Err(error) = self.append(&hash(key)) {
            tracing::warn!(path = %self.path.display(), %error, "[SPOOL] a session is not remembered");
        }
    }

    fn append(&self, hash: &[u8; HASH_BYTES]) -> io::Result<()> {
        let mut file = private_file().append(true).create(true).open(&self.path)?;
        file.write_all(hash)?;
        if file.metadata()?.len() >= FILE_BYTES {
            fs::rename(&self.path, self.old_path())?;
        }
        Ok(())
    }

    /// Whether the session was seen.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub(super) fn contains(&self, key: &SessionKey) -> io::Result<bool> {
        let hash = hash(key);
        for path in [&self.path, &self.old_path()] {
            match fs::read(path) {
                Ok(hashes) if hashes.chunks_exact(HASH_BYTES).any(|seen| seen == hash) => {
                    return Ok(true);
                }
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(false)
    }
}

fn hash((tenant, session): &SessionKey) -> [u8; HASH_BYTES] {
    let mut hasher = Sha256::new();
    // No tenant contains a zero byte.
    hasher.update(tenant.as_str());
    hasher.update([0]);
    hasher.update(session.as_str());
    let digest = hasher.finalize();
    std::array::from_fn(|n| digest[n])
}

#[cfg(test)]
mod tests {
    use filrouge_types::TenantId;

    use super::*;

    #[test]
    fn the_newest_sessions_are_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let seen = SeenSessions::new(folder.path());
        let key = |n: u64| (TenantId::default_tenant(), format!("s{n}").parse().unwrap());
        assert!(!seen.contains(&key(0)).unwrap());
        let per_file = FILE_BYTES / HASH_BYTES as u64;
        for n in 0..=per_file {
            seen.add(&key(n));
        }
        let again = SeenSessions::new(folder.path());
        for n in [0, 1, per_file - 1, per_file] {
            assert!(again.contains(&key(n)).unwrap(), "{n}");
        }
        assert!(!again.contains(&key(per_file + 1)).unwrap());
        let sizes = ["seen", "seen.old"].map(|name| fs::metadata(folder.path().join(name)));
        let sizes = sizes.map(|metadata| metadata.unwrap().len());
        assert_eq!(sizes, [HASH_BYTES as u64, FILE_BYTES]);
    }
}
