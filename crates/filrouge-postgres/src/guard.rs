//! The state of the store that the ledger's readers, writer and watch share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use filrouge_store::Keyring;
use filrouge_store::record::MacCheck;
use filrouge_store::verify::VerifiedLog;
use filrouge_types::{ErrorCode, Failure};

use crate::migrate::{self, SCHEMA_VERSION};
use crate::vacuum::Erasure;

/// What this process knows about the store.
pub(crate) struct Guard {
    /// Detects changes that filrouge did not make.
    pub(crate) log: VerifiedLog,
    /// Why the newest write failed; `None` if it succeeded.
    refused: Mutex<Option<String>>,
    /// Set while the store has a newer schema than this program knows: then the program may not write.
    outdated: Mutex<Option<Failure>>,
    /// Whether the watch polls because it cannot receive notifications.
    polling: AtomicBool,
    erasure: Arc<Erasure>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The value behind each lock is replaced in one step, so it is valid even if a thread panicked while it held the
    // lock.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Guard {
    pub(crate) fn new(keyring: Arc<Keyring>, check: MacCheck) -> Self {
        Self {
            log: VerifiedLog::new(keyring, check),
            refused: Mutex::default(),
            outdated: Mutex::default(),
            polling: AtomicBool::default(),
            erasure: Arc::default(),
        }
    }

    /// The reason why the newest write failed, if PostgreSQL accepts no writes at the moment.
    pub(crate) fn refused(&self) -> Option<String> {
        locked(&self.refused).clone()
    }

    /// Records the outcome of the newest write: `why` is `None` if it succeeded, else the failure.
    pub(crate) fn note_write(&self, why: Option<&Failure>) {
        let mut refused = locked(&self.refused);
        match why {
            Some(failure) if refused.is_none() => {
                tracing::error!(%failure, "PostgreSQL accepts no writes; each new write is attempted");
            }
            None if refused.is_some() => tracing::info!("PostgreSQL accepts writes again"),
            _ => {}
        }
        *refused = why.map(|failure| failure.detail.clone());
    }

    /// The reason why this program may not write to the store: a newer filrouge has migrated the schema. `None` if it
    /// may write.
    pub(crate) fn outdated(&self) -> Option<Failure> {
        locked(&self.outdated).clone()
    }

    /// Records the store's current schema version, as the table `store` contains it.
    pub(crate) fn note_schema(&self, schema: Option<&str>) {
        let newer = schema
            .and_then(|s| s.parse().ok())
            .filter(|s| *s > SCHEMA_VERSION);
        let failure = newer.map(|version| {
            let newer = migrate::newer(version, SCHEMA_VERSION);
            let failure = Failure::new(ErrorCode::StoreReadOnly, newer.detail);
            match newer.hint {
                Some(hint) => failure.with_hint(hint),
                None => failure,
            }
        });
        let mut outdated = locked(&self.outdated);
        match &failure {
            Some(failure) if outdated.is_none() => {
                tracing::error!(%failure, "a newer filrouge migrated the store: this one no longer writes to it");
            }
            None if outdated.is_some() => tracing::info!("the store's schema is known again"),
            _ => {}
        }
        *outdated = failure;
    }

    /// Records whether notifications of other servers' commits arrive: `why` is `None` if they do, else the reason why
    /// not.
    pub(crate) fn note_notifications(&self, why: Option<&Failure>) {
        match (why, self.polling.swap(why.is_some(), Ordering::AcqRel)) {
            (Some(failure), false) => {
                tracing::warn!(%failure, "no notifications of other servers' commits arrive; they are polled for over the store's URL");
            }
            (None, true) => tracing::info!("notifications of other servers' commits arrive again"),
            _ => {}
        }
    }

    /// The state of this process's erasures, which a vacuum must follow.
    pub(crate) const fn erasure(&self) -> &Arc<Erasure> {
        &self.erasure
    }
}
