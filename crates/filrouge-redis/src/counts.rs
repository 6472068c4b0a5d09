//! What went wrong so far.

use std::sync::{Mutex, PoisonError};

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

impl RedisCounts {
    /// Counts one more; whether it is worth a line of the log: the first one, and ever fewer of those that follow.
    pub(crate) fn one_more(
        all: &Mutex<Self>,
        of: impl FnOnce(&mut Self) -> &mut u64,
    ) -> Option<u64> {
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        let count = of(&mut all);
        *count += 1;
        count.is_power_of_two().then_some(*count)
    }
}
