//! The anchor: a small record of the newest durable commit of each lane, kept outside the data directory, so that a
//! store that was rolled back to an older state is detected (DESIGN §9).

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use filrouge_store::{
    Domain, KeyId, Keyring, Lane, LanePosition, Lanes, Ledger, MAC_BYTES, Position, View,
    equal_macs,
};
use filrouge_types::{ErrorCode, Failure, Result};
use serde::{Deserialize, Serialize};

use crate::keyfile::{WriteMode, open_locked, write_atomic};
use crate::shared::to_json;

mod keeper;
mod seen_store;
#[cfg(test)]
mod tests;
mod witness;

pub use keeper::AnchorKeeper;
pub use seen_store::{SeenStore, SeenStoreFile};
pub use witness::{Statement, WitnessFile};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
/// The content of an anchor file. `mac` authenticates all other fields.
struct StoredAnchor {
    store_id: String,
    lanes: Vec<StoredLane>,
    key_id: KeyId,
    mac: [u8; MAC_BYTES],
}

/// The newest commit of a lane.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredLane {
    lane: u16,
    commit_no: u64,
    link: [u8; MAC_BYTES],
}

impl StoredAnchor {
    fn position(&self) -> Position {
        let mut position = Position::default();
        for stored in &self.lanes {
            let newest = LanePosition {
                commit_no: stored.commit_no,
                link: stored.link,
            };
            position.set(Lane::new(stored.lane), newest);
        }
        position
    }
}

/// The result of comparing an anchor with its store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnchorState {
    /// No anchor existed; one was created at the store's present position.
    Created,
    /// Each lane of the store is at the anchor's position or beyond it.
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
    ErrorCode::StoreUnavailable
        .failure(format!("the anchor {}: {e}", path.display()))
        .with_hint("check that the state directory may be written")
}

impl Anchor {
    /// The anchor of `store_id` in `directory`.
    pub fn new(directory: &Path, store_id: &str, keyring: Arc<Keyring>) -> Self {
        Self {
            path: directory.join(format!("{store_id}.anchor")),
            keyring,
            store_id: store_id.to_owned(),
        }
    }

    /// The path of the anchor's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn mac(&self, key: KeyId, position: &Position) -> Option<[u8; MAC_BYTES]> {
        let mut lanes = Vec::new();
        for (lane, newest) in position.iter() {
            lanes.extend(lane.number().to_be_bytes());
            lanes.extend(newest.commit_no.to_be_bytes());
            lanes.extend(newest.link);
        }
        let pieces: [&[u8]; 2] = [self.store_id.as_bytes(), &lanes];
        self.keyring.mac(key, Domain::Anchor, &pieces)
    }

    /// The recorded position; `None` when there is no anchor.
    ///
    /// # Errors
    /// `integrity_error` when the file was changed, `key_missing` when its key is not in the keyring,
    /// `store_unavailable` when it cannot be read.
    pub fn read(&self) -> Result<Option<Position>> {
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
        let position = stored.position();
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
    pub fn set(&self, position: &Position) -> Result<()> {
        let key_id = self.keyring.active();
        let lanes = position.iter().map(|(lane, newest)| StoredLane {
            lane: lane.number(),
            commit_no: newest.commit_no,
            link: newest.link,
        });
        let stored = StoredAnchor {
            store_id: self.store_id.clone(),
            lanes: lanes.collect(),
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

    /// Advances the anchor in the lanes in which `position` is newer. No lane ever moves back, even when several
    /// processes advance the anchor.
    ///
    /// # Errors
    /// As [`Self::read`] and [`Self::set`].
    pub fn advance(&self, position: &Position) -> Result<()> {
        let _lock = self.lock()?;
        let Some(current) = self.read()? else {
            return self.set(position);
        };
        let mut advanced = current.clone();
        for (lane, newest) in position.iter() {
            if newest.commit_no > current.lane(lane).commit_no {
                advanced.set(lane, newest);
            }
        }
        match advanced == current {
            true => Ok(()),
            false => self.set(&advanced),
        }
    }

    fn lock(&self) -> Result<File> {
        let path = self.path.with_extension("lock");
        let open = || -> io::Result<File> {
            if let Some(directory) = path.parent() {
                fs::create_dir_all(directory)?;
            }
            open_locked(&path)
        };
        open().map_err(|e| unavailable(&path, &e))
    }

    /// Compares each lane of the store with the anchor; creates an anchor when there is none. A changed anchor file is
    /// not an error: the result is then [`AnchorState::Broken`].
    ///
    /// # Errors
    /// `key_missing` when the anchor's key is not in the keyring, `store_unavailable` when its file cannot be read or
    /// written, and the ledger's errors.
    pub async fn check(&self, ledger: &dyn Ledger) -> Result<AnchorState> {
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
        if anchored.commit_count() == 0 {
            return Ok(AnchorState::Holds);
        }
        let contradiction = ledger.query(move |snapshot| {
            for (lane, recorded) in anchored.iter() {
                if let Some(found) = Contradiction::find(snapshot.view, lane, recorded)? {
                    return Ok(Some(found));
                }
            }
            Ok(None)
        });
        Ok(match contradiction.await? {
            None => AnchorState::Holds,
            Some(Contradiction {
                commit,
                is_missing: false,
                ..
            }) => AnchorState::Broken(format!("{commit} is not the one that the anchor recorded")),
            Some(Contradiction { commit, lane, .. }) => AnchorState::Broken(format!(
                "the store is older than its anchor: {commit} is missing, the newest is {}",
                ledger.position().lane(lane).commit_no
            )),
        })
    }
}

/// A recorded commit that the store contradicts.
struct Contradiction {
    lane: Lane,
    /// The commit's name in messages.
    commit: String,
    /// Whether the store lacks the commit; otherwise it has another one in its place.
    is_missing: bool,
}

impl Contradiction {
    /// Compares a lane of the store with a recorded commit; `None` if the store has this commit.
    fn find(view: &(dyn View + '_), lane: Lane, recorded: LanePosition) -> Result<Option<Self>> {
        let number = recorded.commit_no;
        let Some(preceding) = number.checked_sub(1) else {
            return Ok(None);
        };
        let lanes = view.lanes();
        // A record may name a lane that the store does not have.
        let row = match lane.number() < lanes.count() {
            true => view.log(lane, preceding, 1)?.pop(),
            false => None,
        };
        let row = row.filter(|row| row.commit_no == number);
        if LanePosition::of_commit(row.as_ref()) == recorded {
            return Ok(None);
        }
        let commit = match lanes {
            Lanes::ONE => format!("commit {number}"),
            _ => format!("commit {number} of lane {lane}"),
        };
        Ok(Some(Self {
            lane,
            commit,
            is_missing: row.is_none(),
        }))
    }
}
