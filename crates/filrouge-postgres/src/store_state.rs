//! The state of the store that the ledger's readers, writers and watch share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use filrouge_store::record::MacCheck;
use filrouge_store::verify::VerifiedLog;
use filrouge_store::{Keyring, Lanes};
use filrouge_types::{ErrorCode, Failure, lock};

use crate::migrate::{self, SCHEMA_VERSION};
use crate::vacuum::Erasure;

/// How long a lane that was found locked shows that other servers write too.
const CONTENTION: Duration = Duration::from_secs(1);

/// What this process knows about the store. Its readers, its writers and its watch share it.
pub(crate) struct StoreState {
    /// Detects changes that filrouge did not make.
    pub(crate) log: VerifiedLog,
    /// Why the newest write failed; `None` if it succeeded.
    write_refusal: Mutex<Option<String>>,
    /// Set while the store has a newer schema than this program knows: then the program may not write.
    outdated: Mutex<Option<Failure>>,
    /// Whether the watch polls because it cannot receive notifications.
    polling: AtomicBool,
    /// When a transaction last found a lane that another server had locked.
    contended_at: Mutex<Option<Instant>>,
    erasure: Arc<Erasure>,
}

impl StoreState {
    pub(crate) fn new(keyring: Arc<Keyring>, check: MacCheck, lanes: Lanes) -> Self {
        Self {
            log: VerifiedLog::new(keyring, check, lanes),
            write_refusal: Mutex::default(),
            outdated: Mutex::default(),
            polling: AtomicBool::default(),
            contended_at: Mutex::default(),
            erasure: Arc::default(),
        }
    }

    /// Records that a transaction has found a lane that another server had locked.
    pub(crate) fn record_contention(&self) {
        *lock(&self.contended_at) = Some(Instant::now());
    }

    /// Whether other servers write to this store's lanes at present.
    pub(crate) fn is_contended(&self) -> bool {
        let contended_at = *lock(&self.contended_at);
        contended_at.is_some_and(|at| at.elapsed() < CONTENTION)
    }

    /// Returns the reason why the newest write failed; `None` if it succeeded.
    pub(crate) fn write_refusal(&self) -> Option<String> {
        lock(&self.write_refusal).clone()
    }

    /// Records the outcome of the newest write. `failure` is `None` if it succeeded.
    pub(crate) fn record_write(&self, failure: Option<&Failure>) {
        let mut write_refusal = lock(&self.write_refusal);
        match failure {
            Some(failure) if write_refusal.is_none() => {
                tracing::error!(%failure, "PostgreSQL accepts no writes; each new write is attempted");
            }
            None if write_refusal.is_some() => tracing::info!("PostgreSQL accepts writes again"),
            _ => {}
        }
        *write_refusal = failure.map(|failure| failure.detail.clone());
    }

    /// Returns the failure for writes if a newer filrouge has migrated the schema; `None` if this program may write.
    pub(crate) fn outdated(&self) -> Option<Failure> {
        lock(&self.outdated).clone()
    }

    /// Records the store's current schema version: the value of the row `schema` in the table `store`.
    pub(crate) fn record_schema(&self, schema: Option<&str>) {
        let newer = schema
            .and_then(|s| s.parse().ok())
            .filter(|s| *s > SCHEMA_VERSION);
        let failure = newer.map(|version| Failure {
            code: ErrorCode::StoreReadOnly,
            ..migrate::newer_schema_failure(version, SCHEMA_VERSION)
        });
        let mut outdated = lock(&self.outdated);
        match &failure {
            Some(failure) if outdated.is_none() => {
                tracing::error!(%failure, "a newer filrouge migrated the store: this one no longer writes to it");
            }
            None if outdated.is_some() => tracing::info!("the store's schema is known again"),
            _ => {}
        }
        *outdated = failure;
    }

    /// Records whether notifications of other servers' commits arrive. `failure` is the reason why they do not.
    pub(crate) fn record_notifications(&self, failure: Option<&Failure>) {
        match (
            failure,
            self.polling.swap(failure.is_some(), Ordering::AcqRel),
        ) {
            (Some(failure), false) => {
                tracing::warn!(%failure, "no notifications of other servers' commits arrive; they are polled for over the store's URL");
            }
            (None, true) => tracing::info!("notifications of other servers' commits arrive again"),
            _ => {}
        }
    }

    /// Returns the state of this process's erasures, after which the tables must be vacuumed.
    pub(crate) const fn erasure(&self) -> &Arc<Erasure> {
        &self.erasure
    }
}
