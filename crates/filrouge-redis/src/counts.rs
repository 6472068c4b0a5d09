//! What went wrong so far.

use std::sync::atomic::{AtomicU64, Ordering};

/// What went wrong since the hot store was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RedisCounts {
    /// Requests that Redis did not answer, or not in time.
    pub unanswered: u64,
    /// Requests that failed at once because Redis had not answered just before.
    pub skipped: u64,
    /// Requests that Redis refused, such as for want of memory.
    pub refused: u64,
    /// Values that were not what is put there. A copy of recent turns is dropped then.
    pub damaged: u64,
}

/// The counters themselves.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) unanswered: AtomicU64,
    pub(crate) skipped: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) damaged: AtomicU64,
}

impl Counters {
    pub(crate) fn read(&self) -> RedisCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RedisCounts {
            unanswered: read(&self.unanswered),
            skipped: read(&self.skipped),
            refused: read(&self.refused),
            damaged: read(&self.damaged),
        }
    }
}

/// Counts one more; whether it is worth a line of the log: the first one, and ever fewer of those that follow.
pub(crate) fn one_more(counter: &AtomicU64) -> Option<u64> {
    let count = counter.fetch_add(1, Ordering::Relaxed) + 1;
    count.is_power_of_two().then_some(count)
}
