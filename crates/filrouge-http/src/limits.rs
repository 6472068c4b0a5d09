//! Limits for one caller, one request and one connection (DESIGN §8): memory is bounded whatever is sent, and no caller
//! can use all of it.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use filrouge_types::{ErrorCode, Failure};
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::Semaphore;

use crate::metrics::Metrics;

mod answers;
mod budget;
mod rate;

pub use answers::LargeAnswer;
pub use budget::{Budget, Reservation, SMALL_BODY};
pub use rate::{RateSubject, Retry};

/// A request rate with a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// The long-term number of requests per second.
    pub per_second: NonZeroU32,
    /// The maximum number of requests at once after a pause.
    pub burst: NonZeroU32,
}

/// The configured limits, section `[limits]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitSettings {
    /// The maximum size of a request body, compressed and decompressed.
    pub body_bytes: usize,
    /// The maximum size of all request bodies held at one time. One caller gets a quarter of it, or one body if that
    /// is more; a sixteenth is reserved for bodies of at most 1 MiB.
    pub bodies_in_flight_bytes: usize,
    /// How long the head of a request may take, counted from its first byte.
    pub header_timeout: Duration,
    /// How long the body of a request may take. It must also arrive at 16 KiB/s, and may fall behind by at most 10 s.
    pub body_timeout: Duration,
    /// How long a response may take to begin, after the time for the body; streams may then continue without limit.
    pub answer_timeout: Duration,
    /// How long a peer may leave a response unread before its connection is dropped. A response of known length must
    /// be read completely within twice this time plus a second per 64 KiB.
    pub write_stall: Duration,
    /// The maximum number of connections; further ones get 503. It exceeds the maximum of streams of one key, so that
    /// no key can use all connections.
    pub connections: usize,
    /// How long a recorded provider stream may be silent.
    pub stream_idle: Duration,
    /// The number of streams that one API key may hold open; all callers without a key count as one.
    pub streams_per_key: usize,
    /// The number of large responses (exports, contexts) that are built and sent at one time.
    pub large_answers: usize,
    /// The rate of one API key; `None` means no limit.
    pub rate_per_key: Option<Rate>,
    /// The rate of one identity.
    pub rate_per_identity: Option<Rate>,
    /// The rate of one caller to one session: strangers neither use up the owner's rate nor learn that it is used.
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

/// Enforces the limits.
pub struct Limits {
    settings: LimitSettings,
    bodies: Arc<Budget>,
    rates: rate::Rates,
    streams: Arc<Budget>,
    answers: Arc<Semaphore>,
    metrics: Arc<Metrics>,
}

impl Limits {
    pub(crate) fn new(settings: LimitSettings, metrics: Arc<Metrics>) -> Self {
        let answers = settings.large_answers.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            bodies: Budget::new(settings.bodies_in_flight_bytes, settings.body_bytes),
            rates: rate::Rates::new(&settings),
            streams: Budget::per_caller(settings.streams_per_key),
            answers: Arc::new(Semaphore::new(answers)),
            settings,
            metrics,
        }
    }

    /// The configured limits.
    #[must_use]
    pub fn settings(&self) -> &LimitSettings {
        &self.settings
    }

    /// A reservation for one request's body, initially empty.
    pub fn body(&self) -> Reservation {
        self.bodies.reservation()
    }

    /// The size of all request bodies held now.
    #[must_use]
    pub fn body_bytes_in_flight(&self) -> usize {
        self.bodies.used()
    }

    /// Whether any rate is configured.
    pub fn counts(&self) -> bool {
        self.rates.any()
    }

    /// Counts one request against the rates of its subject: first the key's, then the identity's, then the session's. A
    /// request that one rate refuses was already counted by the earlier ones.
    ///
    /// # Errors
    /// [`Retry`] with the time after which the same request is accepted, unless another request arrives first.
    pub fn check(&self, subject: &RateSubject<'_>) -> Result<(), Retry> {
        self.rates
            .check(subject)
            .inspect_err(|retry| self.metrics.rate_limited(retry.kind()))
    }

    /// A slot for one more stream of the key; released when dropped.
    ///
    /// # Errors
    /// [`Retry`] when the key already holds its maximum.
    pub fn stream(&self, key: Option<&str>) -> Result<StreamSlot, Retry> {
        let reservation = self.streams.reservation();
        reservation.set_caller(key.unwrap_or_default(), false);
        if !reservation.grow(1) {
            let what = "this key has reached its maximum number of open streams";
            let retry = Retry::new(what, "streams", Duration::from_secs(5));
            self.metrics.rate_limited(retry.kind());
            return Err(retry);
        }
        let open = self.metrics.tail_readers.clone();
        open.inc();
        Ok(StreamSlot {
            open,
            _reservation: reservation,
        })
    }

    /// A permit to build a large response: waits for its turn, at most half of the answer timeout. It is released when
    /// dropped, or, with [`LargeAnswer::hold_in`], once the response was passed to the system.
    ///
    /// # Errors
    /// `overloaded` when no permit became free.
    pub async fn large_answer(&self) -> Result<LargeAnswer, Failure> {
        let turn = self.answers.clone().acquire_owned();
        match tokio::time::timeout(self.settings.answer_timeout / 2, turn).await {
            Ok(Ok(_permit)) => Ok(LargeAnswer { _permit }),
            _ => Err(Failure::new(
                ErrorCode::Overloaded,
                "too many large answers are being built",
            )),
        }
    }

    /// Forgets callers that have been silent long enough for their burst to be full.
    pub fn shrink(&self) {
        self.rates.shrink();
    }
}

/// The slot of one open stream; released when dropped.
#[derive(Debug)]
pub struct StreamSlot {
    open: Gauge,
    _reservation: Reservation,
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        self.open.dec();
    }
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
        let one = limits.stream(Some("k")).unwrap();
        let two = limits.stream(Some("k")).unwrap();
        assert_eq!(limits.stream(Some("k")).unwrap_err().kind(), "streams");
        let other = limits.stream(None).unwrap();
        assert_eq!(metrics.tail_readers.get(), 3);
        drop(one);
        let three = limits.stream(Some("k")).unwrap();
        drop((two, three, other));
        assert_eq!(metrics.tail_readers.get(), 0);
        assert!(
            !limits.streams.knows_callers(),
            "keys without open streams are forgotten"
        );
    }
}
