//! The phase of a connection, shared by its socket and its requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

const WAITING: u8 = 0;
const BUSY: u8 = 1;
const ENDED: u8 = 2;

/// One connection's phase. HTTP/1 has one request at a time: the connection waits for a head, then is busy with a
/// request; a response has ended once all of it was handed over, even if it is not yet written.
#[derive(Debug, Clone, Default)]
pub(super) struct Phase(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    at: AtomicU8,
    unread: AtomicBool,
    /// In milliseconds; 0 means no limit.
    out_within: AtomicU64,
}

impl Phase {
    /// A request's head has arrived.
    pub(super) fn begin(&self) {
        self.0.at.store(BUSY, Ordering::Release);
    }

    /// Limits the time for the entire response, counted from its first byte.
    pub(super) fn out_within(&self, time: Duration) {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.0.out_within.store(millis, Ordering::Release);
    }

    /// Removes and returns the time limit of a response that is about to be written.
    pub(super) fn take_out_within(&self) -> Option<Duration> {
        let millis = self.0.out_within.swap(0, Ordering::AcqRel);
        (millis > 0).then(|| Duration::from_millis(millis))
    }

    /// The response's body was dropped.
    pub(super) fn end(&self) {
        self.0.at.store(ENDED, Ordering::Release);
    }

    /// Everything that was handed over has been written.
    pub(super) fn flushed(&self) {
        // The exchange fails while the request is still in progress.
        let _ = self
            .0
            .at
            .compare_exchange(ENDED, WAITING, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Whether no request is in progress and no response is left to write.
    pub(super) fn is_waiting(&self) -> bool {
        self.0.at.load(Ordering::Acquire) == WAITING
    }

    /// A request's body was dropped before its end: the peer may still be sending it.
    pub(super) fn leave_unread(&self) {
        self.0.unread.store(true, Ordering::Release);
    }

    pub(super) fn is_unread(&self) -> bool {
        self.0.unread.load(Ordering::Acquire)
    }
}
