//! Remembers which store this machine has seen at a URL. If the URL has no store or another store now, filrouge does
//! not open it as a new store (DESIGN §9): a new store admits callers without a key, and would hide that the old store
//! is lost.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use filrouge_types::{ErrorCode, Failure};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{StoredAnchor, unavailable};
use crate::keyfile::{WriteMode, write_atomic};
use crate::shared::to_json;

/// The description of a store when this machine last opened it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeenStore {
    /// The URL, without a password.
    pub url: String,
    /// The store's id.
    pub store_id: String,
    /// The number of the store's lanes.
    pub lanes: u16,
    /// Whether the store had API keys.
    pub has_keys: bool,
    /// Whether the store had commits but no anchor, and no operator has accepted it since.
    pub unconfirmed: bool,
}

/// The file that records the store at one URL, in the folder of the anchors.
pub struct SeenStoreFile {
    directory: PathBuf,
    path: PathBuf,
}

impl SeenStoreFile {
    /// The record for `url`, which has no password.
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
            let detail = format!("the record {} was changed", self.path.display());
            Failure::new(ErrorCode::IntegrityError, detail).with_hint(ACCEPT_HINT)
        })
    }

    /// Replaces the record.
    ///
    /// # Errors
    /// `store_unavailable` when it cannot be written.
    pub fn write(&self, seen: &SeenStore) -> Result<(), Failure> {
        let json = to_json(seen)?;
        fs::create_dir_all(&self.directory)
            .and_then(|()| write_atomic(&self.path, json.as_bytes(), WriteMode::Durable))
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

    /// Compares `seen` with `current_id`, the id of the store that is at the URL now; `None` if no store is there.
    ///
    /// # Errors
    /// `integrity_error` when another store, or none, is at the URL now. It is no error if the anchor of the seen store
    /// is at commit 0, because that store had no content.
    pub fn check(&self, seen: &SeenStore, current_id: Option<&str>) -> Result<(), Failure> {
        let commits = self.anchored_commit_count(&seen.store_id);
        if current_id == Some(seen.store_id.as_str()) || commits == Some(0) {
            return Ok(());
        }
        let up_to = commits.map_or(String::new(), |n| format!(" up to commit {n}"));
        let current = match current_id {
            Some(id) => format!("another store, {id}, is there now"),
            None => "it is empty now".to_owned(),
        };
        let detail = format!(
            "this machine has seen the store {}{up_to} at {}; {current}",
            seen.store_id, seen.url
        );
        Err(Failure::new(ErrorCode::IntegrityError, detail).with_hint(ACCEPT_HINT))
    }

    /// The number of commits up to the store's anchor; `None` without a readable anchor. Does not verify the anchor's
    /// MAC: opening the store does.
    fn anchored_commit_count(&self, store_id: &str) -> Option<u64> {
        let anchor = fs::read(self.directory.join(format!("{store_id}.anchor"))).ok()?;
        let stored: StoredAnchor = serde_json::from_slice(&anchor).ok()?;
        Some(stored.position().commit_count())
    }
}

const ACCEPT_HINT: &str =
    "restore the newest copy of the store, or accept the loss with `filrouge anchor accept`";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anchor::StoredLane;

    fn seen(store_id: &str) -> SeenStore {
        SeenStore {
            url: "sqlite:/f.db".to_owned(),
            store_id: store_id.to_owned(),
            lanes: 1,
            has_keys: true,
            unconfirmed: false,
        }
    }

    #[test]
    fn a_store_with_commits_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = SeenStoreFile::new(&folder.path().join("new"), "sqlite:/f.db");
        assert_eq!(file.read().unwrap(), None);
        file.remove().unwrap();
        file.write(&seen("a")).unwrap();
        let read = file.read().unwrap().unwrap();
        assert_eq!(read, seen("a"));
        file.check(&read, Some("a")).unwrap();
        for (current_id, expected_text) in
            [(None, "it is empty now"), (Some("b"), "another store, b,")]
        {
            let refused = file.check(&read, current_id).unwrap_err();
            assert_eq!(refused.code, ErrorCode::IntegrityError);
            assert!(refused.detail.contains(expected_text), "{refused:?}");
        }
        let other_file = SeenStoreFile::new(&folder.path().join("new"), "sqlite:/g.db");
        assert_eq!(other_file.read().unwrap(), None);
        file.remove().unwrap();
        assert_eq!(file.read().unwrap(), None);
    }

    #[test]
    fn a_store_without_commits_may_be_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = SeenStoreFile::new(folder.path(), "sqlite:/f.db");
        let anchor = |commit: u64| {
            let mac = [0; 16];
            let stored = StoredAnchor {
                store_id: "a".to_owned(),
                lanes: vec![StoredLane {
                    lane: 0,
                    commit_no: commit,
                    link: mac,
                }],
                key_id: 1,
                mac,
            };
            let bytes = serde_json::to_vec(&stored).unwrap();
            fs::write(folder.path().join("a.anchor"), bytes).unwrap();
        };
        anchor(0);
        file.check(&seen("a"), None).unwrap();
        anchor(7);
        let refused = file.check(&seen("a"), None).unwrap_err();
        assert!(refused.detail.contains("up to commit 7"), "{refused:?}");
    }

    #[test]
    fn a_changed_record_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = SeenStoreFile::new(folder.path(), "sqlite:/f.db");
        fs::write(&file.path, "{}").unwrap();
        assert_eq!(file.read().unwrap_err().code, ErrorCode::IntegrityError);
    }
}
