//! Request rates per key, identity and session (DESIGN §8).

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use filrouge_types::ErrorCode;
use governor::clock::{Clock, DefaultClock};
use governor::state::keyed::DefaultKeyedStateStore;
use governor::{Quota, RateLimiter};

use super::{LimitSettings, Rate};
use crate::problem::Problem;

/// The maximum number of remembered subjects of one kind. A subject is remembered until its full burst is
/// available again, so the maximum is reached only if this many subjects make requests within that time.
const SUBJECTS_MAX: usize = 1 << 20;

/// The subjects against whose rates a request is counted: the name of the credentials, such as the API key's id; the
/// tenant and the identity; the tenant, the caller and the session. A subject that is `None` is not counted.
pub type RateSubjects<'a> = [Option<&'a str>; 3];

/// A refusal because of too many requests or streams: the exceeded limit, and when a retry may succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimited {
    message: &'static str,
    kind: &'static str,
    after: Duration,
}

impl RateLimited {
    pub(crate) const fn new(message: &'static str, kind: &'static str, after: Duration) -> Self {
        Self {
            message,
            kind,
            after,
        }
    }

    /// The kind of the exceeded limit: `key`, `identity`, `session`, `streams` or `shares`.
    pub const fn kind(&self) -> &'static str {
        self.kind
    }

    /// The time to wait in whole seconds, rounded up, at least 1; for the header `Retry-After`.
    pub fn seconds(&self) -> u32 {
        let rounded_up = self.after.as_secs() + u64::from(self.after.subsec_nanos() > 0);
        u32::try_from(rounded_up).unwrap_or(u32::MAX).max(1)
    }
}

impl From<RateLimited> for Problem {
    fn from(refusal: RateLimited) -> Self {
        Self::new(ErrorCode::RateLimited, refusal.message)
            .with_hint("wait as long as Retry-After says, then send it again")
            .with_retry_after(refusal.seconds())
    }
}

type HashLimiter = RateLimiter<u64, DefaultKeyedStateStore<u64>, DefaultClock>;

/// The rates of all subjects of one kind. A subject is identified by a 64-bit hash, keyed with a secret of this
/// process.
pub(super) struct KindLimiter {
    message: &'static str,
    kind: &'static str,
    by_hash: HashLimiter,
    hasher: RandomState,
    clock: DefaultClock,
    created_at: Instant,
    /// When [`Self::make_room`] last removed idle subjects, in seconds since `created_at`; 0 if never.
    last_cleanup: AtomicU64,
}

impl KindLimiter {
    pub(super) fn new(message: &'static str, kind: &'static str, rate: Rate) -> Self {
        let quota = Quota::per_second(rate.per_second).allow_burst(rate.burst);
        Self {
            message,
            kind,
            by_hash: RateLimiter::keyed(quota),
            hasher: RandomState::new(),
            clock: DefaultClock::default(),
            created_at: Instant::now(),
            last_cleanup: AtomicU64::new(0),
        }
    }

    pub(super) fn check(&self, subject: &str) -> Result<(), RateLimited> {
        if self.by_hash.len() >= SUBJECTS_MAX && !self.make_room() {
            return Err(RateLimited::new(
                self.message,
                self.kind,
                Duration::from_secs(1),
            ));
        }
        self.by_hash
            .check_key(&self.hasher.hash_one(subject))
            .map_err(|until| {
                let after = until.wait_time_from(self.clock.now());
                RateLimited::new(self.message, self.kind, after)
            })
    }

    /// Removes idle subjects, and returns whether there is room for another subject. It removes at most once a second,
    /// because a removal examines every subject.
    fn make_room(&self) -> bool {
        let now = self.created_at.elapsed().as_secs() + 1;
        if self.last_cleanup.swap(now, Ordering::Relaxed) != now {
            self.by_hash.retain_recent();
        }
        self.by_hash.len() < SUBJECTS_MAX
    }
}

/// The rates of keys, of identities and of sessions, in this order; `None` means no limit.
pub(crate) struct Rates([Option<KindLimiter>; 3]);

impl Rates {
    pub(super) fn new(settings: &LimitSettings) -> Self {
        let limiter = |message, kind, rate: Option<Rate>| {
            rate.map(|rate| KindLimiter::new(message, kind, rate))
        };
        let key = "too many requests with this key";
        let identity = "too many requests of this identity";
        let session = "too many requests to this session";
        Self([
            limiter(key, "key", settings.rate_per_key),
            limiter(identity, "identity", settings.rate_per_identity),
            limiter(session, "session", settings.rate_per_session),
        ])
    }

    /// Whether any rate is configured. If none is, the caller need not build [`RateSubjects`].
    pub(crate) fn is_any_configured(&self) -> bool {
        self.0.iter().any(Option::is_some)
    }

    pub(super) fn check(&self, subjects: RateSubjects<'_>) -> Result<(), RateLimited> {
        for (limiter, name) in self.0.iter().zip(subjects) {
            if let (Some(limiter), Some(name)) = (limiter, name) {
                limiter.check(name)?;
            }
        }
        Ok(())
    }

    /// Forgets subjects that made no requests for so long that their full burst is available again. Called every 10 s.
    pub(crate) fn forget_idle(&self) {
        for limiter in self.0.iter().flatten() {
            limiter.by_hash.retain_recent();
            limiter.by_hash.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU32;

    fn rates(per_second: u32, burst: u32) -> Rates {
        let rate = Rate {
            per_second: NonZeroU32::new(per_second).unwrap(),
            burst: NonZeroU32::new(burst).unwrap(),
        };
        Rates::new(&LimitSettings {
            rate_per_identity: Some(rate),
            ..LimitSettings::default()
        })
    }

    fn identity(name: &str) -> RateSubjects<'_> {
        [None, Some(name), None]
    }

    #[test]
    fn each_subject_has_its_own_burst() {
        let rates = rates(1, 3);
        for name in ["a", "b"] {
            for _ in 0..3 {
                rates.check(identity(name)).unwrap();
            }
            let refusal = rates.check(identity(name)).unwrap_err();
            assert_eq!((refusal.kind(), refusal.seconds()), ("identity", 1));
        }
        let other_kinds = [Some("a"), None, Some("a")];
        for _ in 0..100 {
            rates.check(other_kinds).unwrap();
        }
    }

    #[test]
    fn idle_subjects_are_removed() {
        let rates = rates(1_000_000, 1);
        for n in 0..1000 {
            rates.check(identity(&n.to_string())).unwrap();
        }
        let limiter = rates.0[1].as_ref().unwrap();
        assert_eq!(limiter.by_hash.len(), 1000);
        std::thread::sleep(Duration::from_millis(20));
        rates.forget_idle();
        assert_eq!(limiter.by_hash.len(), 0);
    }

    #[test]
    fn waiting_is_reported_in_whole_seconds() {
        for (millis, seconds) in [(0, 1), (1, 1), (1000, 1), (1001, 2), (59_999, 60)] {
            let refusal = RateLimited::new("", "", Duration::from_millis(millis));
            assert_eq!(refusal.seconds(), seconds);
        }
    }
}
