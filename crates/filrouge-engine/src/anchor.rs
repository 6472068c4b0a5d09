//! The anchor: a small witness of the newest durable commit, kept outside the data directory, so that a store
//! put back to an older state is found out (DESIGN §9).

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use filrouge_store::{Domain, KeyId, Keyring, Ledger, MAC_BYTES, Position, equal_macs};
use filrouge_types::{ErrorCode, Failure};
use serde::{Deserialize, Serialize};

use crate::keyfile::{Placing, locked, write_whole};

/// The anchor is at most this much behind what is durable.
const ADVANCE_EVERY: Duration = Duration::from_millis(50);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    store_id: String,
    commit_no: u64,
    link: [u8; MAC_BYTES],
    key_id: KeyId,
    mac: [u8; MAC_BYTES],
}

/// Where an anchor stands towards its store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// There was no anchor; one was made at the store's present state.
    Made,
    /// The store is where the anchor says, or further on.
    Holds,
    /// The store is not what the anchor has seen; says how.
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

    /// The file.
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

    /// What the anchor has seen; `None` when there is no anchor.
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
        let changed = || {
            Failure::new(
                ErrorCode::IntegrityError,
                format!("the anchor {} was changed", self.path.display()),
            )
            .with_hint("accept the store as it is with `filrouge anchor accept`, once you trust it")
        };
        let stored: Stored = serde_json::from_str(&text).map_err(|_| changed())?;
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
            return Err(changed());
        }
        Ok(Some(position))
    }

    /// Sets the anchor to `position`, whatever it has seen before.
    ///
    /// # Errors
    /// `store_unavailable` when it cannot be written.
    pub fn set(&self, position: &Position) -> Result<(), Failure> {
        let key_id = self.keyring.active();
        let stored = Stored {
            store_id: self.store_id.clone(),
            commit_no: position.commit_no,
            link: position.link,
            key_id,
            mac: self.mac(key_id, position).unwrap_or_default(),
        };
        let bytes = serde_json::to_vec(&stored)
            .map_err(|e| Failure::new(ErrorCode::Internal, e.to_string()))?;
        if let Some(directory) = self.path.parent() {
            fs::create_dir_all(directory).map_err(|e| unavailable(directory, &e))?;
        }
        // An older anchor is a weaker witness, not a wrong one: its name need not be flushed at every step.
        write_whole(&self.path, &bytes, Placing::Soon).map_err(|e| unavailable(&self.path, &e))
    }

    /// Moves the anchor on; never back, also when several processes do.
    ///
    /// # Errors
    /// As [`Self::read`] and [`Self::set`].
    pub fn advance(&self, position: &Position) -> Result<(), Failure> {
        let _lock = self.lock()?;
        match self.read()? {
            Some(seen) if seen.commit_no >= position.commit_no => Ok(()),
            _ => self.set(position),
        }
    }

    fn lock(&self) -> Result<File, Failure> {
        let path = self.path.with_extension("lock");
        let open = || -> io::Result<File> {
            if let Some(directory) = path.parent() {
                fs::create_dir_all(directory)?;
            }
            locked(&path)
        };
        open().map_err(|e| unavailable(&path, &e))
    }

    /// Compares the store with what the anchor has seen; makes an anchor when there is none.
    ///
    /// # Errors
    /// As [`Self::read`] and [`Self::set`], and the ledger's.
    pub async fn check(&self, ledger: &dyn Ledger) -> Result<Standing, Failure> {
        let seen = match self.read() {
            Ok(seen) => seen,
            Err(e) if e.code == ErrorCode::IntegrityError => return Ok(Standing::Broken(e.detail)),
            Err(e) => return Err(e),
        };
        let Some(seen) = seen else {
            self.advance(&ledger.position())?;
            return Ok(Standing::Made);
        };
        if seen.commit_no == 0 {
            return Ok(Standing::Holds);
        }
        let found = ledger
            .ask(move |sight| Ok(sight.view.log(seen.commit_no - 1, 1)?.pop()))
            .await?;
        Ok(match found {
            Some(row) if row.commit_no == seen.commit_no && row.link == seen.link => {
                Standing::Holds
            }
            Some(row) if row.commit_no == seen.commit_no => Standing::Broken(format!(
                "commit {} is not the one that the anchor has seen",
                seen.commit_no
            )),
            _ => Standing::Broken(format!(
                "the store is older than its anchor: commit {} is missing, the newest is {}",
                seen.commit_no,
                ledger.position().commit_no
            )),
        })
    }
}

/// Keeps an anchor close behind its ledger until it is dropped.
pub struct AnchorKeeper {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    failed: Arc<Mutex<Option<String>>>,
}

impl AnchorKeeper {
    /// Starts a thread that moves `anchor` on with `ledger`.
    ///
    /// # Errors
    /// `store_unavailable` when there is no thread to be had.
    pub fn start(anchor: Anchor, ledger: Arc<dyn Ledger>) -> Result<Self, Failure> {
        let (stop, stopped) = mpsc::channel();
        let failed = Arc::new(Mutex::new(None));
        let noted = failed.clone();
        let thread = std::thread::Builder::new()
            .name("filrouge-anchor".to_owned())
            .spawn(move || {
                let mut last = None;
                loop {
                    let ended =
                        stopped.recv_timeout(ADVANCE_EVERY) != Err(RecvTimeoutError::Timeout);
                    // What grows in drafts is not chained: no witness is missed for it while more is to come.
                    let position = if ended {
                        ledger.position()
                    } else {
                        ledger.witnessed()
                    };
                    if last != Some(position) {
                        let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
                        match anchor.advance(&position) {
                            Ok(()) => {
                                last = Some(position);
                                *noted = None;
                            }
                            Err(error) => {
                                if noted.is_none() {
                                    tracing::error!(%error, "the anchor cannot be moved on");
                                }
                                *noted = Some(error.detail);
                            }
                        }
                    }
                    if ended {
                        return;
                    }
                }
            })
            .map_err(|e| {
                Failure::new(
                    ErrorCode::StoreUnavailable,
                    format!("no thread for the anchor: {e}"),
                )
            })?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
            failed,
        })
    }

    /// Why the anchor could not be moved on lately, if so.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.failed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Drop for AnchorKeeper {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the anchor's thread ended by a panic");
        }
    }
}
