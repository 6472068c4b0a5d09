//! Limits for each caller, request and connection (DESIGN §8). They bound the server's memory whatever callers send,
//! and no single caller can use all of it.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use filrouge_types::{ErrorCode, Failure};
use tokio::sync::Semaphore;

use crate::metrics::{Counted, Metrics};

mod budget;
mod large_responses;
mod rate;

pub use budget::{Budget, Reservation, SMALL_BODY};
pub use large_responses::LargeResponsePermit;
pub use rate::{RateLimited, RateSubjects};

/// A request rate with a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// The number of requests per second that are accepted in the long term.
    pub per_second: NonZeroU32,
    /// The number of requests that are accepted at once after a pause.
    pub burst: NonZeroU32,
}

/// The configured limits: the section `[limits]` of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitSettings {
    /// The maximum size of a request body in bytes. It applies to the compressed and to the decompressed body.
    pub body_bytes: usize,
    /// The maximum size in bytes of all request bodies that are in memory at the same time. One caller may use a
    /// quarter of it, or `body_bytes` if that is more. A sixteenth is reserved for bodies of at most 1 MiB.
    pub bodies_in_flight_bytes: usize,
    /// How long the head of a request may take, counted from its first byte.
    pub header_timeout: Duration,
    /// How long the body of a request may take. It must also arrive at 16 KiB/s, and may fall behind by at most 10 s.
    pub body_timeout: Duration,
    /// How long a response may take to begin, in addition to `body_timeout`. Once begun, a stream has no time limit.
    pub answer_timeout: Duration,
    /// How long a peer may read nothing of a response before its connection is dropped. A response of known length must
    /// also be read completely within twice this time plus a second per 64 KiB.
    pub write_stall: Duration,
    /// The maximum number of open connections; further ones get 503. Set it higher than `streams_per_key`, as the
    /// default is, so that the streams of one key cannot use all connections.
    pub connections: usize,
    /// How long a provider's stream that is being recorded may be silent.
    pub stream_idle: Duration,
    /// The maximum number of open streams of one API key; all callers without a key count as one key.
    pub streams_per_key: usize,
    /// The maximum number of large responses (exports, contexts) that are built and sent at the same time.
    pub large_answers: usize,
    /// The rate of one API key; `None` means no limit.
    pub rate_per_key: Option<Rate>,
    /// The rate of one identity; `None` means no limit.
    pub rate_per_identity: Option<Rate>,
    /// The rate of one caller's requests to one session; `None` means no limit. Each caller has its own rate, so
    /// strangers cannot use up the owner's, nor learn from it that the session is in use.
    pub rate_per_session: Option<Rate>,
}

impl Default for LimitSettings {
    fn default() -> Self {
        Self {
            body_bytes: 32 << 20,
            bodies_in_flight_bytes: 256 << 20,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(60),
            answer_timeout: Duration::from_secs(60),
            write_stall: Duration::from_secs(30),
            connections: 20_480,
            stream_idle: Duration::from_secs(600),
            streams_per_key: 16_384,
            large_answers: 4,
            rate_per_key: None,
            rate_per_identity: None,
            rate_per_session: None,
        }
    }
}

/// Enforces the configured limits.
pub struct Limits {
    settings: LimitSettings,
    pub(crate) bodies: Arc<Budget>,
    pub(crate) rates: rate::Rates,
    streams: Arc<Budget>,
    large_responses: Arc<Semaphore>,
    metrics: Arc<Metrics>,
}

impl Limits {
    pub(crate) fn new(settings: LimitSettings, metrics: Arc<Metrics>) -> Self {
        let permits = settings.large_answers.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            bodies: Budget::new(settings.bodies_in_flight_bytes, settings.body_bytes),
            rates: rate::Rates::new(&settings),
            streams: Budget::per_caller(settings.streams_per_key),
            large_responses: Arc::new(Semaphore::new(permits)),
            settings,
            metrics,
        }
    }

    /// The configured limits.
    #[must_use]
    pub fn settings(&self) -> &LimitSettings {
        &self.settings
    }

    /// A reservation for the body of one request; it is empty at first.
    pub fn body_reservation(&self) -> Reservation {
        self.bodies.reservation()
    }

    /// Counts one request against the rate of its key, then of its identity, then of its session. If one of them
    /// refuses the request, those before it have counted it nevertheless.
    ///
    /// # Errors
    /// [`RateLimited`] with the time after which a retry is accepted, unless other requests use up the rate first.
    pub fn check(&self, subjects: RateSubjects<'_>) -> Result<(), RateLimited> {
        self.rates
            .check(subjects)
            .inspect_err(|refusal| self.metrics.count_rate_limited(refusal.kind()))
    }

    /// Reserves a slot for one more stream of the key; it is released when dropped. `None`: all callers without a key
    /// count as one.
    ///
    /// # Errors
    /// [`RateLimited`] if the key has the maximum number of open streams.
    pub fn open_stream(&self, key: Option<&str>) -> Result<StreamSlot, RateLimited> {
        let reservation = self.streams.reservation();
        reservation.set_caller(key.unwrap_or_default(), false);
        if !reservation.grow(1) {
            let message = "this key has reached its maximum number of open streams";
            let refusal = RateLimited::new(message, "streams", Duration::from_secs(5));
            self.metrics.count_rate_limited(refusal.kind());
            return Err(refusal);
        }
        Ok(StreamSlot {
            _counted: Counted::new(&self.metrics.tail_readers),
            _reservation: reservation,
        })
    }

    /// Waits for a permit to build a large response, at most half of `answer_timeout`. The permit is released when it
    /// is dropped. [`LargeResponsePermit::hold_in`] keeps it until the response was passed to the operating system.
    ///
    /// # Errors
    /// `overloaded` if no permit was released in that time.
    pub async fn large_response_permit(&self) -> Result<LargeResponsePermit, Failure> {
        let permit = self.large_responses.clone().acquire_owned();
        match tokio::time::timeout(self.settings.answer_timeout / 2, permit).await {
            Ok(Ok(_permit)) => Ok(LargeResponsePermit { _permit }),
            _ => Err(Failure::new(
                ErrorCode::Overloaded,
                "too many large answers are being built",
            )),
        }
    }
}

/// The slot of one open stream; it is released when dropped.
#[derive(Debug)]
pub struct StreamSlot {
    _counted: Counted,
    _reservation: Reservation,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_holds_at_most_its_maximum_of_streams() {
        let metrics = Arc::new(Metrics::default());
        let settings = LimitSettings {
            streams_per_key: 2,
            ..LimitSettings::default()
        };
        let limits = Limits::new(settings, metrics.clone());
        let first = limits.open_stream(Some("k")).unwrap();
        let second = limits.open_stream(Some("k")).unwrap();
        assert_eq!(limits.open_stream(Some("k")).unwrap_err().kind(), "streams");
        let without_key = limits.open_stream(None).unwrap();
        assert_eq!(metrics.tail_readers.get(), 3);
        drop(first);
        let third = limits.open_stream(Some("k")).unwrap();
        drop((second, third, without_key));
        assert_eq!(metrics.tail_readers.get(), 0);
        assert!(
            !limits.streams.has_reservations(),
            "keys without open streams are forgotten"
        );
    }
}
