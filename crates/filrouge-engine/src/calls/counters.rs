//! How often what happened to live calls, for `/metrics`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use filrouge_types::ErrorCode;

use super::resume::{Fallback, Resumed};
use crate::core::Core;

/// What this process has counted of live calls since it began.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallCounts {
    /// Leases that were taken, also again by who held them.
    pub leases: u64,
    /// Leases that were waited for in vain.
    pub lease_timeouts: u64,
    /// Leases that somebody else held, and that were not waited for.
    pub leases_refused: u64,
    /// Events of filrouge itself that a session had no room for: it keeps the last tenth for the application.
    pub events_dropped: u64,
    /// Checkpoints that were put.
    pub checkpoints: u64,
    /// Writes that a lease has refused, by their codes: `stale_fence`, `lease_expired`, `lease_held`.
    pub writes_refused: Vec<(&'static str, u64)>,
    /// Sessions that were gone on with, by source and by what it was instead of the newest checkpoint: `none`,
    /// `older_checkpoint`, `replay`, `trimmed`.
    pub resumes: Vec<(&'static str, &'static str, u64)>,
}

/// The counters behind [`CallCounts`].
#[derive(Debug, Default)]
pub(crate) struct CallCounters {
    leases: AtomicU64,
    lease_timeouts: AtomicU64,
    leases_refused: AtomicU64,
    events_dropped: AtomicU64,
    checkpoints: AtomicU64,
    writes_refused: Mutex<BTreeMap<&'static str, u64>>,
    resumes: Mutex<BTreeMap<(&'static str, &'static str), u64>>,
}

fn count<K: Ord>(counters: &Mutex<BTreeMap<K, u64>>, key: K) {
    let mut counters = counters.lock().unwrap_or_else(PoisonError::into_inner);
    *counters.entry(key).or_default() += 1;
}

impl CallCounters {
    pub(super) fn lease(&self) {
        self.leases.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn lease_timeout(&self) {
        self.lease_timeouts.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn lease_refused(&self) {
        self.leases_refused.fetch_add(1, Ordering::Relaxed);
    }

    /// An event of filrouge itself was not recorded; counted when the session has no room for it.
    pub(super) fn event_dropped(&self, code: ErrorCode) {
        if code == ErrorCode::LimitExceeded {
            self.events_dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn checkpoint(&self) {
        self.checkpoints.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn resume(&self, resumed: &Resumed) {
        let fallback = resumed.fallback.map_or("none", Fallback::as_str);
        count(&self.resumes, (resumed.source, fallback));
    }

    /// A write was refused; counted when it was a lease that did.
    pub(crate) fn refused(&self, code: ErrorCode) {
        if let ErrorCode::StaleFence | ErrorCode::LeaseExpired | ErrorCode::LeaseHeld = code {
            count(&self.writes_refused, code.as_str());
        }
    }
}

impl Core {
    /// What this process has counted of live calls.
    #[must_use]
    pub fn call_counts(&self) -> CallCounts {
        let counts = &self.counts;
        let refused = counts.writes_refused.lock();
        let refused = refused.unwrap_or_else(PoisonError::into_inner);
        let resumes = counts.resumes.lock();
        let resumes = resumes.unwrap_or_else(PoisonError::into_inner);
        CallCounts {
            leases: counts.leases.load(Ordering::Relaxed),
            lease_timeouts: counts.lease_timeouts.load(Ordering::Relaxed),
            leases_refused: counts.leases_refused.load(Ordering::Relaxed),
            events_dropped: counts.events_dropped.load(Ordering::Relaxed),
            checkpoints: counts.checkpoints.load(Ordering::Relaxed),
            writes_refused: refused.iter().map(|(code, n)| (*code, *n)).collect(),
            resumes: resumes
                .iter()
                .map(|((source, fallback), n)| (*source, *fallback, *n))
                .collect(),
        }
    }
}
