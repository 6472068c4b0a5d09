//! The counters of a process, for `/metrics`.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use filrouge_types::{ErrorCode, lock};

/// The maximum number of names that are counted separately, so that callers cannot create arbitrarily many metrics.
const NAMES_MAX: usize = 64;
/// The maximum length, in bytes, of a name that is counted separately.
const NAME_BYTES_MAX: usize = 64;
/// The name under which all others are counted.
const OTHER: &str = "other";

/// A count.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// The current count.
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
        *lock(&self.0).entry(key).or_default() += count;
    }

    /// All counts with their keys.
    pub fn all(&self) -> Vec<(K, u64)> {
        let counts = lock(&self.0);
        counts.iter().map(|(key, n)| (key.clone(), *n)).collect()
    }
}

impl Tally<String> {
    /// Counts a name that a caller chose. Malformed names, and new names after the first 64, count as `other`.
    pub(crate) fn add_name(&self, name: &str) {
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
        let is_valid = (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain);
        let counts = self.all();
        let is_counted = counts.iter().any(|(counted, _)| counted == name);
        let name = if is_counted || is_valid && counts.len() < NAMES_MAX {
            name
        } else {
            OTHER
        };
        self.add(name.to_owned(), 1);
    }
}

/// The counts of this process since it started. Names that callers choose count as `other` when they are malformed or
/// not among the first 64.
#[derive(Debug, Default)]
pub struct Counters {
    /// Members of `runtime_context` that were dropped because they are not on the allow-list.
    pub runtime_context_dropped: Count,
    /// Writes under an identity that were refused because another identity owns the session.
    pub links_refused: Count,
    /// Credentials masked in written content, by shape; those in values of `runtime_context` count as
    /// `runtime_context`.
    pub masked: Tally<&'static str>,
    /// Credentials that caused a write to be refused, by shape.
    pub refused: Tally<&'static str>,
    /// Members of turns' metadata that were not recorded because they are not on the allow-list, by name.
    pub members: Tally<String>,
    /// Items that were not recorded because the ledger records only questions and answers, by channel.
    pub items: Tally<String>,
    /// Acquired leases, including repeated acquisitions by the same holder; renewals are not counted.
    pub leases: Count,
    /// Waits for a lease that timed out.
    pub lease_timeouts: Count,
    /// Requests that did not wait for a lease, and were refused because another holder had it.
    pub leases_refused: Count,
    /// Events of filrouge itself that were not recorded because the session has too many events: the last tenth of a
    /// session's limit is reserved for events of the application.
    pub events_dropped: Count,
    /// Checkpoints that were written.
    pub checkpoints: Count,
    /// Writes that were refused because of a lease, by code: `stale_fence`, `lease_expired`, `lease_held`.
    pub writes_refused: Tally<&'static str>,
    /// Resumes of sessions, by the source of the response and by its fallback: `none`, `older_checkpoint`, `replay`,
    /// `trimmed`.
    pub resumes: Tally<(&'static str, &'static str)>,
}

impl Counters {
    /// Counts an event of filrouge itself that was not recorded, if `code` says that the session had no room for it.
    pub(crate) fn count_dropped_event(&self, code: ErrorCode) {
        self.events_dropped
            .add(u64::from(code == ErrorCode::LimitExceeded));
    }

    /// Counts a refused write, if `code` says that a lease was the reason.
    pub(crate) fn count_refused_write(&self, code: ErrorCode) {
        if let ErrorCode::StaleFence | ErrorCode::LeaseExpired | ErrorCode::LeaseHeld = code {
            self.writes_refused.add(code.as_str(), 1);
        }
    }
}
