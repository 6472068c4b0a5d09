//! The phase of a connection. The connection's socket and the bodies of its requests and responses share it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

const WAITING: u8 = 0;
const BUSY: u8 = 1;
const ENDED: u8 = 2;

/// One connection's phase. HTTP/1 has one request at a time. The connection waits for the head of a request, then is
/// busy with that request. The response has ended once hyper has received all of it, even if the socket has not yet
/// written it. Clones share the phase.
#[derive(Debug, Clone, Default)]
pub(super) struct Phase(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// [`WAITING`], [`BUSY`] or [`ENDED`].
    state: AtomicU8,
    /// Whether the server has answered a request without reading all of its body.
    unread: AtomicBool,
    /// The time limit of the next response that is written, in milliseconds; 0 means no limit.
    response_limit_ms: AtomicU64,
}

impl Phase {
    /// Records that a request's head has arrived.
    pub(super) fn begin(&self) {
        self.0.state.store(BUSY, Ordering::Release);
    }

    /// Limits the time in which the peer must read the entire response, counted from its first byte.
    pub(super) fn set_response_limit(&self, time: Duration) {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.0.response_limit_ms.store(millis, Ordering::Release);
    }

    /// Removes and returns the time limit of the response that is about to be written. `None`: it has no limit, or the
    /// limit was already taken.
    pub(super) fn take_response_limit(&self) -> Option<Duration> {
        let millis = self.0.response_limit_ms.swap(0, Ordering::AcqRel);
        (millis > 0).then(|| Duration::from_millis(millis))
    }

    /// Records that the response's body was dropped, because it was sent or abandoned.
    pub(super) fn end(&self) {
        self.0.state.store(ENDED, Ordering::Release);
    }

    /// Records that the socket has written everything it received. If a response has ended, the connection then waits
    /// for the next request.
    pub(super) fn mark_flushed(&self) {
        // The exchange fails while the request is still in progress.
        let state = &self.0.state;
        let _ = state.compare_exchange(ENDED, WAITING, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Whether no request is in progress and no response is left to write.
    pub(super) fn is_waiting(&self) -> bool {
        self.0.state.load(Ordering::Acquire) == WAITING
    }

    /// Records that a request's body was dropped before its end: the peer may still be sending it.
    pub(super) fn mark_unread(&self) {
        self.0.unread.store(true, Ordering::Release);
    }

    /// Whether [`Self::mark_unread`] was called.
    pub(super) fn is_unread(&self) -> bool {
        self.0.unread.load(Ordering::Acquire)
    }
}
