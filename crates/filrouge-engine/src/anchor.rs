//! The anchor: a small record of the newest durable commit, kept outside the data directory, so that a store that was
//! rolled back to an older state is detected (DESIGN §9).

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use filrouge_store::{Domain, KeyId, Keyring, Ledger, MAC_BYTES, Position, equal_macs};
use filrouge_types::{ErrorCode, Failure};
use serde::{Deserialize, Serialize};

use crate::core::to_json;
use crate::keyfile::{WriteMode, open_locked, write_atomic};

mod keeper;
mod seen_store;
mod witness;

pub use keeper::AnchorKeeper;
pub use seen_store::{SeenStore, SeenStoreFile};
pub use witness::{Statement, WitnessFile};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
/// The content of an anchor file. `mac` authenticates all other fields.
struct StoredAnchor {
    store_id: String,
    commit_no: u64,
    link: [u8; MAC_BYTES],
    key_id: KeyId,
    mac: [u8; MAC_BYTES],
}

/// The result of comparing an anchor with its store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnchorState {
    /// No anchor existed; one was created at the store's present position.
    Created,
    /// The store is at the anchor's position or beyond it.
    Holds,
    /// The store contradicts the anchor, or the anchor's file was changed; the text says how.
    Broken(String),
}

/// The anchor of one store.
#[derive(Clone)]
pub struct Anchor {
    path: PathBuf,
    keyring: Arc<Keyring>,
    store_id: String,
}

fn unavailable(path: &Path, e: &io::Error) -> Failure {
    Failure::new(
        ErrorCode::StoreUnavailable,
        format!("the anchor {}: {e}", path.display()),
    )
    .with_hint("check that the state directory may be written")
}

impl Anchor {
    /// The anchor of `store_id` in `directory`.
    #[must_use]
    pub fn new(directory: &Path, store_id: &str, keyring: Arc<Keyring>) -> Self {
        Self {
            path: directory.join(format!("{store_id}.anchor")),
            keyring,
            store_id: store_id.to_owned(),
        }
    }

    /// The path of the anchor's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn mac(&self, key: KeyId, position: &Position) -> Option<[u8; MAC_BYTES]> {
        let pieces: [&[u8]; 3] = [
            self.store_id.as_bytes(),
            &position.commit_no.to_be_bytes(),
            &position.link,
        ];
        self.keyring.mac(key, Domain::Anchor, &pieces)
    }

    /// The recorded position; `None` when there is no anchor.
    ///
    /// # Errors
    /// `integrity_error` when the file was changed, `key_missing` when its key is not in the keyring,
    /// `store_unavailable` when it cannot be read.
    pub fn read(&self) -> Result<Option<Position>, Failure> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(unavailable(&self.path, &e)),
        };
        let changed_failure = || {
            Failure::new(
                ErrorCode::IntegrityError,
                format!("the anchor {} was changed", self.path.display()),
            )
            .with_hint("accept the store as it is with `filrouge anchor accept`, once you trust it")
        };
        let stored: StoredAnchor = serde_json::from_str(&text).map_err(|_| changed_failure())?;
        let position = Position {
            commit_no: stored.commit_no,
            link: stored.link,
        };
        let mac = self.mac(stored.key_id, &position).ok_or_else(|| {
            let path = self.path.display();
            let detail = format!("the anchor {path} was written with key {}, which is not in the keyring", stored.key_id);
            Failure::new(ErrorCode::KeyMissing, detail)
                .with_hint("put the keyring file back; a process started before a rotation has to be started again")
        })?;
        if stored.store_id != self.store_id || !equal_macs(&mac, &stored.mac) {
            return Err(changed_failure());
        }
        Ok(Some(position))
    }

    /// Sets the anchor to `position`, regardless of its old value.
    ///
    /// # Errors
    /// `store_unavailable` when it cannot be written.
    pub fn set(&self, position: &Position) -> Result<(), Failure> {
        let key_id = self.keyring.active();
        let stored = StoredAnchor {
            store_id: self.store_id.clone(),
            commit_no: position.commit_no,
            link: position.link,
            key_id,
            mac: self.mac(key_id, position).unwrap_or_default(),
        };
        let json = to_json(&stored)?;
        if let Some(directory) = self.path.parent() {
            fs::create_dir_all(directory).map_err(|e| unavailable(directory, &e))?;
        }
        // A power cut may restore the previous anchor. Then fewer rollbacks are detected, but none is reported falsely,
        // so the directory is not flushed each time.
        write_atomic(&self.path, json.as_bytes(), WriteMode::Unsynced)
            .map_err(|e| unavailable(&self.path, &e))
    }

    /// Advances the anchor. It never moves back, even when several processes advance it.
    ///
    /// # Errors
    /// As [`Self::read`] and [`Self::set`].
    pub fn advance(&self, position: &Position) -> Result<(), Failure> {
        let _lock = self.lock()?;
        match self.read()? {
            Some(current) if current.commit_no >= position.commit_no => Ok(()),
            _ => self.set(position),
        }
    }

    fn lock(&self) -> Result<File, Failure> {
        let path = self.path.with_extension("lock");
        let open = || -> io::Result<File> {
            if let Some(directory) = path.parent() {
                fs::create_dir_all(directory)?;
            }
            open_locked(&path)
        };
        open().map_err(|e| unavailable(&path, &e))
    }

    /// Compares the store with the anchor; creates an anchor when there is none. A changed anchor file is not an error:
    /// the result is then [`AnchorState::Broken`].
    ///
    /// # Errors
    /// `key_missing` when the anchor's key is not in the keyring, `store_unavailable` when its file cannot be read or
    /// written, and the ledger's errors.
    pub async fn check(&self, ledger: &dyn Ledger) -> Result<AnchorState, Failure> {
        let anchored = match self.read() {
            Ok(anchored) => anchored,
            Err(e) if e.code == ErrorCode::IntegrityError => {
                return Ok(AnchorState::Broken(e.detail));
            }
            Err(e) => return Err(e),
        };
        let Some(anchored) = anchored else {
            self.advance(&ledger.position())?;
            return Ok(AnchorState::Created);
        };
        if anchored.commit_no == 0 {
            return Ok(AnchorState::Holds);
        }
        let log_row = ledger
            .query(move |snapshot| Ok(snapshot.view.log(anchored.commit_no - 1, 1)?.pop()))
            .await?;
        let number = anchored.commit_no;
        Ok(match log_row.filter(|row| row.commit_no == number) {
            Some(row) if row.link == anchored.link => AnchorState::Holds,
            Some(_) => AnchorState::Broken(format!(
                "commit {number} is not the one that the anchor recorded"
            )),
            None => AnchorState::Broken(format!(
                "the store is older than its anchor: commit {number} is missing, the newest is {}",
                ledger.position().commit_no
            )),
        })
    }
}
