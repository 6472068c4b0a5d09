//! Remembers which store this machine has seen at a URL. If that place is empty or has another store now, it is not
//! opened as a new store (DESIGN §9): a new store admits callers without a key, and would hide that the old one is
//! gone.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use filrouge_types::{ErrorCode, Failure};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Stored, unavailable};
use crate::keyfile::{WriteMode, write_atomic};

/// A store as it was last seen at its URL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeenStore {
    /// The URL, without a password.
    pub url: String,
    /// The store's id.
    pub store_id: String,
    /// Whether the store had API keys.
    pub has_keys: bool,
    /// Whether the store had commits but no anchor, and no operator has accepted it since.
    pub unconfirmed: bool,
}

/// The file that records the store at one URL, in the folder of the anchors.
pub struct KnownStore {
    directory: PathBuf,
    path: PathBuf,
}

impl KnownStore {
    /// The record for `url`, which names the place of the store without a password.
    #[must_use]
    pub fn new(directory: &Path, url: &str) -> Self {
        let name = hex::encode(&Sha256::digest(url.as_bytes())[..16]);
        Self {
            directory: directory.to_owned(),
            path: directory.join(format!("{name}.store")),
        }
    }

    /// The store that was last seen at the URL; `None` if this machine has seen none there.
    ///
    /// # Errors
    /// `integrity_error` when the file was changed, `store_unavailable` when it cannot be read.
    pub fn read(&self) -> Result<Option<SeenStore>, Failure> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(unavailable(&self.path, &e)),
        };
        serde_json::from_str(&text).map(Some).map_err(|_| {
            let what = format!("the record {} was changed", self.path.display());
            Failure::new(ErrorCode::IntegrityError, what).with_hint(ACCEPT)
        })
    }

    /// Replaces the record.
    ///
    /// # Errors
    /// `store_unavailable` when it cannot be written.
    pub fn write(&self, seen: &SeenStore) -> Result<(), Failure> {
        let bytes = serde_json::to_vec(seen)
            .map_err(|e| Failure::new(ErrorCode::Internal, e.to_string()))?;
        fs::create_dir_all(&self.directory)
            .and_then(|()| write_atomic(&self.path, &bytes, WriteMode::Durable))
            .map_err(|e| unavailable(&self.path, &e))
    }

    /// Removes the record: the next store at the URL is accepted as a new one.
    ///
    /// # Errors
    /// `store_unavailable` when it cannot be removed.
    pub fn remove(&self) -> Result<(), Failure> {
        match fs::remove_file(&self.path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(unavailable(&self.path, &e)),
            _ => Ok(()),
        }
    }

    /// Compares `seen` with `found`, the id of the store that is at the URL now; `None` if the place is empty.
    ///
    /// # Errors
    /// `integrity_error` when another store, or none, is there now. It is no error if the anchor of the seen store is
    /// at commit 0: that store had no content to lose.
    pub fn check(&self, seen: &SeenStore, found: Option<&str>) -> Result<(), Failure> {
        let commit = self.anchored(&seen.store_id);
        if found == Some(seen.store_id.as_str()) || commit == Some(0) {
            return Ok(());
        }
        let up_to = commit.map_or(String::new(), |n| format!(" up to commit {n}"));
        let now = match found {
            Some(id) => format!("another store, {id}, is there now"),
            None => "it is empty now".to_owned(),
        };
        let what = format!(
            "this machine has seen the store {}{up_to} at {}; {now}",
            seen.store_id, seen.url
        );
        Err(Failure::new(ErrorCode::IntegrityError, what).with_hint(ACCEPT))
    }

    /// The number of the commit in the store's anchor; `None` without a readable anchor. The anchor's MAC is not
    /// verified here, but when the store is opened.
    fn anchored(&self, store_id: &str) -> Option<u64> {
        let anchor = fs::read(self.directory.join(format!("{store_id}.anchor"))).ok()?;
        let stored: Stored = serde_json::from_slice(&anchor).ok()?;
        Some(stored.commit_no)
    }
}

const ACCEPT: &str =
    "restore the newest copy of the store, or accept the loss with `filrouge anchor accept`";

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(store_id: &str) -> SeenStore {
        SeenStore {
            url: "sqlite:/f.db".to_owned(),
            store_id: store_id.to_owned(),
            has_keys: true,
            unconfirmed: false,
        }
    }

    #[test]
    fn a_store_with_commits_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let known = KnownStore::new(&folder.path().join("new"), "sqlite:/f.db");
        assert_eq!(known.read().unwrap(), None);
        known.remove().unwrap();
        known.write(&seen("a")).unwrap();
        let read = known.read().unwrap().unwrap();
        assert_eq!(read, seen("a"));
        known.check(&read, Some("a")).unwrap();
        for (found, words) in [(None, "it is empty now"), (Some("b"), "another store, b,")] {
            let refused = known.check(&read, found).unwrap_err();
            assert_eq!(refused.code, ErrorCode::IntegrityError);
            assert!(refused.detail.contains(words), "{refused:?}");
        }
        let other = KnownStore::new(&folder.path().join("new"), "sqlite:/g.db");
        assert_eq!(other.read().unwrap(), None);
        known.remove().unwrap();
        assert_eq!(known.read().unwrap(), None);
    }

    #[test]
    fn a_store_without_commits_may_be_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let known = KnownStore::new(folder.path(), "sqlite:/f.db");
        let anchor = |commit: u64| {
            let mac = [0; 16];
            let stored = Stored {
                store_id: "a".to_owned(),
                commit_no: commit,
                link: mac,
                key_id: 1,
                mac,
            };
            let bytes = serde_json::to_vec(&stored).unwrap();
            fs::write(folder.path().join("a.anchor"), bytes).unwrap();
        };
        anchor(0);
        known.check(&seen("a"), None).unwrap();
        anchor(7);
        let refused = known.check(&seen("a"), None).unwrap_err();
        assert!(refused.detail.contains("up to commit 7"), "{refused:?}");
    }

    #[test]
    fn a_changed_record_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let known = KnownStore::new(folder.path(), "sqlite:/f.db");
        fs::write(&known.path, "{}").unwrap();
        assert_eq!(known.read().unwrap_err().code, ErrorCode::IntegrityError);
    }
}
