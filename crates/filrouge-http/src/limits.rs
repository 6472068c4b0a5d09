//! What one caller, one request and one connection may take (DESIGN §8): so that memory is bounded whatever
//! is sent, and nobody takes the place of all others.

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

/// How many requests per second, and how many at once after a rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Requests per second in the long run.
    pub per_second: NonZeroU32,
    /// Requests at once after a rest.
    pub burst: NonZeroU32,
}

/// The bounds that are configured, section `[limits]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitSettings {
    /// Bytes of one request body, as sent and as decompressed.
    pub body_bytes: usize,
    /// Bytes of all request bodies that are held at one time. One caller gets a quarter of them, or one body if
    /// that is more; a sixteenth is kept for bodies of at most 1 MiB.
    pub bodies_in_flight_bytes: usize,
    /// How long the head of a request may take from its first byte.
    pub header_timeout: Duration,
    /// How long the body of a request may take. It must come at 16 KiB/s, too, and is at
    /// most 10 s behind.
    pub body_timeout: Duration,
    /// How long an answer may take to begin once the body may be there; streams go on as they like.
    pub answer_timeout: Duration,
    /// How long a peer may leave an answer unread before its connection is given up. All of an answer whose length
    /// is known must be taken within twice this and a second for each 64 KiB.
    pub write_stall: Duration,
    /// Connections at one time; further ones are answered 503. More than one key's streams, so that no key takes all.
    pub connections: usize,
    /// How long a provider's stream that is recorded may be silent.
    pub stream_idle: Duration,
    /// Streams that one API key may hold open; all callers without a key count as one.
    pub streams_per_key: usize,
    /// Large answers (exports, contexts) that are built and sent at one time.
    pub large_answers: usize,
    /// Requests of one API key; `None` is no bound.
    pub rate_per_key: Option<Rate>,
    /// Requests of one identity.
    pub rate_per_identity: Option<Rate>,
    /// Requests of one caller to one session: strangers neither use up an owner's, nor see that it is used.
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

/// The bounds at work.
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
            streams: Budget::of_each(settings.streams_per_key),
            answers: Arc::new(Semaphore::new(answers)),
            settings,
            metrics,
        }
    }

    /// What is configured.
    #[must_use]
    pub fn settings(&self) -> &LimitSettings {
        &self.settings
    }

    /// Room for one request's body, empty at first.
    pub fn body(&self) -> Reservation {
        self.bodies.reservation()
    }

    /// Bytes of request bodies that are held now.
    #[must_use]
    pub fn body_bytes_in_flight(&self) -> usize {
        self.bodies.used()
    }

    /// Whether requests are counted against rates at all.
    pub fn counts(&self) -> bool {
        self.rates.any()
    }

    /// Counts one request of the subject against its rates: first the key's, then the identity's, then the
    /// session's. A request that one of them refuses has been counted by those before it.
    ///
    /// # Errors
    /// [`Retry`] with the time after which the same request is let through, if no other comes before.
    pub fn check(&self, subject: &RateSubject<'_>) -> Result<(), Retry> {
        self.rates
            .check(subject)
            .inspect_err(|retry| self.metrics.rate_limited(retry.kind()))
    }

    /// A place for one more stream of the key; given back when dropped.
    ///
    /// # Errors
    /// [`Retry`] when the key holds as many as it may.
    pub fn stream(&self, key: Option<&str>) -> Result<StreamSlot, Retry> {
        let taken = self.streams.reservation();
        taken.is_for(key.unwrap_or_default(), false);
        if !taken.grow(1) {
            let what = "this key holds as many streams open as it may";
            let retry = Retry::new(what, "streams", Duration::from_secs(5));
            self.metrics.rate_limited(retry.kind());
            return Err(retry);
        }
        let open = self.metrics.tail_readers.clone();
        open.inc();
        Ok(StreamSlot {
            open,
            _taken: taken,
        })
    }

    /// Leave to build a large answer: waits for its turn, up to the answer timeout. It is given back when
    /// dropped, or with [`LargeAnswer::hold_in`] once the answer was handed to the system.
    ///
    /// # Errors
    /// `overloaded` when no turn came.
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

    /// Forgets callers that have been silent long enough to be as good as new.
    pub fn shrink(&self) {
        self.rates.shrink();
    }
}

/// The place of one open stream; free again when dropped.
#[derive(Debug)]
pub struct StreamSlot {
    open: Gauge,
    _taken: Reservation,
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
    fn a_key_holds_so_many_streams_and_no_more() {
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
            "keys that are gone are forgotten"
        );
    }
}
