//! What a process counts, for `/metrics`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use filrouge_types::ErrorCode;

/// Most names that have a count of their own; more would make a metric of whatever callers send.
const NAMES: usize = 64;
/// Longest name that has a count of its own, in bytes.
const NAME_BYTES: usize = 64;
/// What all others are counted under.
const OTHER: &str = "other";

/// A count.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts by key.
#[derive(Debug)]
pub(crate) struct Tally<K>(Mutex<BTreeMap<K, u64>>);

impl<K> Default for Tally<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Ord + Clone> Tally<K> {
    pub(crate) fn add(&self, key: K, count: u64) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(key).or_default() += count;
    }

    pub(crate) fn all(&self) -> Vec<(K, u64)> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|(key, n)| (key.clone(), *n)).collect()
    }
}

impl Tally<String> {
    /// Counts a name that somebody else has chosen: one that is no word, and those beyond the first, under `other`.
    pub(crate) fn add_word(&self, name: &str) {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
        let is_word = (1..=NAME_BYTES).contains(&name.len()) && name.bytes().all(plain);
        let counts = self.all();
        let known = counts.iter().any(|(known, _)| known == name);
        let name = if known || is_word && counts.len() < NAMES {
            name
        } else {
            OTHER
        };
        self.add(name.to_owned(), 1);
    }
}

/// What this process has counted since it began.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) runtime_context_dropped: Count,
    pub(crate) links_refused: Count,
    /// Credentials that were masked, by shape.
    pub(crate) masked: Tally<&'static str>,
    /// Credentials that were refused, by shape.
    pub(crate) refused: Tally<&'static str>,
    /// Members of turns' metadata that did not reach the ledger, by name.
    pub(crate) members: Tally<String>,
    /// Items that did not reach the ledger, by channel.
    pub(crate) items: Tally<String>,
    pub(crate) leases: Count,
    pub(crate) lease_timeouts: Count,
    pub(crate) leases_refused: Count,
    pub(crate) events_dropped: Count,
    pub(crate) checkpoints: Count,
    pub(crate) writes_refused: Tally<&'static str>,
    pub(crate) resumes: Tally<(&'static str, &'static str)>,
}

impl Counters {
    /// An event of filrouge itself was not recorded; counted when the session has no room for it.
    pub(crate) fn event_dropped(&self, code: ErrorCode) {
        self.events_dropped
            .add(u64::from(code == ErrorCode::LimitExceeded));
    }

    /// A write was refused; counted when it was a lease that did.
    pub(crate) fn write_refused(&self, code: ErrorCode) {
        if let ErrorCode::StaleFence | ErrorCode::LeaseExpired | ErrorCode::LeaseHeld = code {
            self.writes_refused.add(code.as_str(), 1);
        }
    }

    /// What was counted of live calls.
    pub(crate) fn calls(&self) -> CallCounts {
        let resumes = self.resumes.all().into_iter();
        CallCounts {
            leases: self.leases.get(),
            lease_timeouts: self.lease_timeouts.get(),
            leases_refused: self.leases_refused.get(),
            events_dropped: self.events_dropped.get(),
            checkpoints: self.checkpoints.get(),
            writes_refused: self.writes_refused.all(),
            resumes: resumes
                .map(|((source, fallback), n)| (source, fallback, n))
                .collect(),
        }
    }
}

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
