//! Counts the failures of a hot store on Redis.

use std::sync::Mutex;

use filrouge_types::lock;

/// Failures since the hot store was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RedisCounts {
    /// Requests that Redis did not answer, or not in time.
    pub unanswered: u64,
    /// Requests that failed at once, without being sent, because Redis had not answered an earlier one.
    pub skipped: u64,
    /// Requests that Redis refused, for example because it was out of memory.
    pub refused: u64,
    /// Values that no hot store wrote. A copy of recent turns is then dropped.
    pub damaged: u64,
}

impl RedisCounts {
    /// Increments the counter that `counter` selects. Returns the count if it should be logged: the first failure, then
    /// at growing intervals (powers of two).
    pub(crate) fn increment(
        counts: &Mutex<Self>,
        counter: impl FnOnce(&mut Self) -> &mut u64,
    ) -> Option<u64> {
        let mut counts = lock(counts);
        let count = counter(&mut counts);
        *count += 1;
        count.is_power_of_two().then_some(*count)
    }
}
