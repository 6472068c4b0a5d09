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
pub struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// How many there were.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts by key.
#[derive(Debug)]
pub struct Tally<K>(Mutex<BTreeMap<K, u64>>);

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

    /// How many there were of each.
    #[must_use]
    pub fn all(&self) -> Vec<(K, u64)> {
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

/// What this process has counted since it began. Names that callers have chosen and that are no words, and those beyond
/// the first 64, are counted under `other`.
#[derive(Debug, Default)]
pub struct Counters {
    /// Members of `runtime_context` that were forgotten because they are not on the allow-list.
    pub runtime_context_dropped: Count,
    /// Writes under an identity that were refused because the session is somebody else's.
    pub links_refused: Count,
    /// Credentials that were masked in what was written, by shape; values of `runtime_context` under `runtime_context`.
    pub masked: Tally<&'static str>,
    /// Credentials in writes that were refused for them, by shape.
    pub refused: Tally<&'static str>,
    /// Members of turns' metadata that did not reach the ledger because they are not on the list, by name.
    pub members: Tally<String>,
    /// Items that did not reach the ledger because conversations alone are recorded, by channel.
    pub items: Tally<String>,
    /// Leases that were taken, also again by who held them.
    pub leases: Count,
    /// Leases that were waited for in vain.
    pub lease_timeouts: Count,
    /// Leases that somebody else held, and that were not waited for.
    pub leases_refused: Count,
    /// Events of filrouge itself that a session had no room for: it keeps the last tenth for the application.
    pub events_dropped: Count,
    /// Checkpoints that were put.
    pub checkpoints: Count,
    /// Writes that a lease has refused, by their codes: `stale_fence`, `lease_expired`, `lease_held`.
    pub writes_refused: Tally<&'static str>,
    /// Sessions that were gone on with, by source and by what it was instead of the newest checkpoint: `none`,
    /// `older_checkpoint`, `replay`, `trimmed`.
    pub resumes: Tally<(&'static str, &'static str)>,
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
}
