//! Where a connection is: what its socket and its requests tell each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

const WAITING: u8 = 0;
const BUSY: u8 = 1;
const ENDED: u8 = 2;

/// One connection's phase. HTTP/1 has one request at a time: it waits for a head, is busy with a request, and
/// the answer has ended when all of it was handed over but not yet written.
#[derive(Debug, Clone, Default)]
pub(super) struct Phase(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    at: AtomicU8,
    unread: AtomicBool,
    /// In milliseconds; 0 for no bound.
    out_within: AtomicU64,
}

impl Phase {
    /// A request's head is there.
    pub(super) fn begin(&self) {
        self.0.at.store(BUSY, Ordering::Release);
    }

    /// All of the answer must be written within this time from its first byte.
    pub(super) fn out_within(&self, time: Duration) {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.0.out_within.store(millis, Ordering::Release);
    }

    /// The bound on an answer that is about to be written, once.
    pub(super) fn take_out_within(&self) -> Option<Duration> {
        let millis = self.0.out_within.swap(0, Ordering::AcqRel);
        (millis > 0).then(|| Duration::from_millis(millis))
    }

    /// The answer's body is gone.
    pub(super) fn end(&self) {
        self.0.at.store(ENDED, Ordering::Release);
    }

    /// Everything that was handed over is written.
    pub(super) fn flushed(&self) {
        // A failed exchange means the request is still at work.
        let _ = self
            .0
            .at
            .compare_exchange(ENDED, WAITING, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Whether nothing is asked and nothing is owed.
    pub(super) fn is_waiting(&self) -> bool {
        self.0.at.load(Ordering::Acquire) == WAITING
    }

    /// A request's body was given up before its end: the peer may still be sending it.
    pub(super) fn leave_unread(&self) {
        self.0.unread.store(true, Ordering::Release);
    }

    pub(super) fn is_unread(&self) -> bool {
        self.0.unread.load(Ordering::Acquire)
    }
}
