//! Limits for each caller, request and connection (DESIGN §8). They bound the server's memory whatever callers send,
//! and no single caller can use all of it.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use filrouge_engine::Caller;
use filrouge_store::{FairSlots, SlotBounds, WorkSize};
use filrouge_types::{ErrorCode, Failure};

use crate::metrics::{Counted, Metrics};

mod budget;
mod large_responses;
mod rate;
mod unread_file;

pub use budget::{Budget, Reservation, SMALL_BODY};
use large_responses::UnreadPlaces;
pub use large_responses::{LargeResponsePermit, UnreadResponse};
pub use rate::{RateLimited, RateSubjects};

/// A request rate with a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// The number of requests per second that are accepted in the long term.
    pub per_second: NonZeroU32,
    /// The number of requests that are accepted at once after a pause.
    pub burst: NonZeroU32,
}

/// The rate of requests with addresses of shares that do not exist, of all callers together.
const UNKNOWN_SHARES: Rate = Rate {
    per_second: NonZeroU32::MIN.saturating_add(4),
    burst: NonZeroU32::MIN.saturating_add(29),
};

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
    /// The maximum number of open connections; further ones get 503. One address may have all but a sixteenth. Set it
    /// higher than `streams_per_key`, as the default is, so that the streams of one key cannot use all connections.
    pub connections: usize,
    /// How long a provider's stream that is being recorded may be silent.
    pub stream_idle: Duration,
    /// The maximum number of open streams of one API key; all callers without a key count as one key. Half of them may
    /// be those of one end user.
    pub streams_per_key: usize,
    /// The maximum number of large responses (exports, contexts) that are built at the same time. One caller may have
    /// half of them; a quarter is reserved for small responses (searches, statistics).
    pub large_answers: usize,
    /// The maximum size in bytes of all files with large responses that clients have not read. One caller may use a
    /// quarter of what the others leave. Such responses first use as much memory as `bodies_in_flight_bytes`, in the same
    /// shares.
    pub unread_bytes: usize,
    /// The folder of these files, which have no names; `None`: there are no files.
    pub unread_folder: Option<PathBuf>,
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
            unread_bytes: 4 << 30,
            unread_folder: None,
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
    unknown_shares: rate::KindLimiter,
    streams: Arc<Budget>,
    streams_of_end_users: Arc<Budget>,
    large_responses: FairSlots,
    unread: Arc<UnreadPlaces>,
    metrics: Arc<Metrics>,
}

impl Limits {
    pub(crate) fn new(settings: LimitSettings, metrics: Arc<Metrics>) -> Self {
        let total = settings.large_answers;
        let response_slots = SlotBounds {
            total,
            share: total.div_ceil(2),
            reserve: total / 4,
        };
        Self {
            bodies: Budget::new(settings.bodies_in_flight_bytes, settings.body_bytes),
            rates: rate::Rates::new(&settings),
            unknown_shares: rate::KindLimiter::new(
                "too many requests with addresses that do not exist",
                "shares",
                UNKNOWN_SHARES,
            ),
            streams: Budget::per_caller(settings.streams_per_key),
            streams_of_end_users: Budget::per_caller(settings.streams_per_key.div_ceil(2)),
            large_responses: FairSlots::new(response_slots),
            unread: Arc::new(UnreadPlaces::new(&settings)),
            settings,
            metrics,
        }
    }

    /// The configured limits.
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

    /// Counts one request with the address of a share that does not exist. The rate is that of all callers together,
    /// because they have no credentials by which they could be distinguished; requests with addresses of shares that
    /// exist are not counted.
    ///
    /// # Errors
    /// [`RateLimited`] beyond 5 a second, after a burst of 30.
    pub fn check_unknown_share(&self) -> Result<(), RateLimited> {
        self.unknown_shares
            .check("")
            .inspect_err(|refusal| self.metrics.count_rate_limited(refusal.kind()))
    }

    /// Reserves a slot for one more stream of the caller; it is released when dropped. All callers without a key count as
    /// one key.
    ///
    /// # Errors
    /// [`RateLimited`] if the key, or the end user that the caller acts for, has the maximum number of open streams.
    pub fn open_stream(&self, caller: &Caller) -> Result<StreamSlot, RateLimited> {
        let of_key = self.streams.reservation();
        let (key, end_user) = key_and_end_user(caller);
        of_key.set_caller(&key, "", false);
        let of_end_user = self.streams_of_end_users.reservation();
        of_end_user.set_caller(&key, &end_user, false);
        let end_users = usize::from(caller.identity().is_some());
        if !of_end_user.grow(end_users) || !of_key.grow(1) {
            let message =
                "this key, or this end user, has reached its maximum number of open streams";
            let refusal = RateLimited::new(message, "streams", Duration::from_secs(5));
            self.metrics.count_rate_limited(refusal.kind());
            return Err(refusal);
        }
        Ok(StreamSlot {
            _counted: Counted::new(&self.metrics.tail_readers),
            _reservations: [of_key, of_end_user],
        })
    }

    /// Waits for a permit to build a response that takes much work or memory, at most half of `answer_timeout`. Callers
    /// that wait take turns. The permit is released when it is dropped; [`LargeResponsePermit::hold`] releases it when
    /// the response is built. `size` is that of the response.
    ///
    /// # Errors
    /// `overloaded` if no permit was released in that time.
    pub async fn large_response_permit(
        &self,
        caller: &Caller,
        size: WorkSize,
    ) -> Result<LargeResponsePermit, Failure> {
        let caller = key_and_end_user(caller);
        let slot = self.large_responses.acquire(&caller, size);
        let slot = tokio::time::timeout(self.settings.answer_timeout / 2, slot).await;
        match slot {
            Ok(Some(slot)) => {
                let unread = self.unread.clone();
                Ok(LargeResponsePermit::new(slot, caller, unread))
            }
            _ => Err(ErrorCode::Overloaded.failure("too many large answers are being built")),
        }
    }
}

/// A caller among those that share a limit: the name of its credentials, which is empty without credentials, and the end
/// user that it acts for. The end users of one service have separate shares, and so do the services of one end user.
pub fn key_and_end_user(caller: &Caller) -> (String, String) {
    let end_user = caller.identity().map_or("", |id| id.as_str());
    let key = caller.name().unwrap_or_default();
    (key.to_owned(), end_user.to_owned())
}

/// The slot of one open stream; it is released when dropped.
#[derive(Debug)]
pub struct StreamSlot {
    _counted: Counted,
    _reservations: [Reservation; 2],
}

#[cfg(test)]
mod tests {
    use filrouge_types::{IdentityId, TenantId};

    use super::*;

    const MIB: usize = 1 << 20;

    /// A caller without an identity, with this key.
    fn with_key(key: Option<&str>) -> Caller {
        Caller::local(TenantId::default_tenant(), None).with_name(key.map(Arc::from))
    }

    fn end_user(name: &str) -> Caller {
        let identity = IdentityId::new(name).unwrap();
        Caller::local(TenantId::default_tenant(), Some(identity)).with_name(Some(Arc::from("k")))
    }

    fn limits(settings: LimitSettings) -> (Limits, Arc<Metrics>) {
        let metrics = Arc::new(Metrics::default());
        (Limits::new(settings, metrics.clone()), metrics)
    }

    #[test]
    fn a_key_holds_at_most_its_maximum_of_streams() {
        let (limits, metrics) = limits(LimitSettings {
            streams_per_key: 2,
            ..LimitSettings::default()
        });
        let key = with_key(Some("k"));
        let first = limits.open_stream(&key).unwrap();
        let second = limits.open_stream(&key).unwrap();
        assert_eq!(limits.open_stream(&key).unwrap_err().kind(), "streams");
        let without_key = limits.open_stream(&with_key(None)).unwrap();
        assert_eq!(metrics.tail_readers.get(), 3);
        drop(first);
        let third = limits.open_stream(&key).unwrap();
        drop((second, third, without_key));
        assert_eq!(metrics.tail_readers.get(), 0);
        assert!(
            !limits.streams.has_reservations() && !limits.streams_of_end_users.has_reservations(),
            "keys without open streams are forgotten"
        );
    }

    #[test]
    fn guesses_of_addresses_of_shares_are_limited() {
        let (limits, _) = limits(LimitSettings::default());
        // While the test runs, some of the rate becomes available again.
        let refused = (0..1000).filter_map(|_| limits.check_unknown_share().err());
        let refused: Vec<_> = refused.collect();
        assert!(refused.len() > 100, "{}", refused.len());
        assert_eq!(refused[0].kind(), "shares");
    }

    #[test]
    fn one_end_user_holds_at_most_half_of_a_keys_streams() {
        let (limits, metrics) = limits(LimitSettings {
            streams_per_key: 4,
            ..LimitSettings::default()
        });
        let (ann, bob) = (end_user("ann"), end_user("bob"));
        let hers = [&ann, &ann].map(|ann| limits.open_stream(ann).unwrap());
        assert_eq!(limits.open_stream(&ann).unwrap_err().kind(), "streams");
        let his = limits.open_stream(&bob).unwrap();
        assert_eq!(metrics.tail_readers.get(), 3);
        drop((hers, his));
        limits.open_stream(&ann).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn one_caller_cannot_use_all_permits() {
        let (limits, _) = limits(LimitSettings::default());
        let (ann, bob) = (end_user("ann"), end_user("bob"));
        let permit = |caller, size| limits.large_response_permit(caller, size);
        let hers = [
            permit(&ann, WorkSize::Large).await.unwrap(),
            permit(&ann, WorkSize::Large).await.unwrap(),
        ];
        let refused = permit(&ann, WorkSize::Small).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::Overloaded);
        let his = permit(&bob, WorkSize::Large).await.unwrap();
        let refused = permit(&bob, WorkSize::Large).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::Overloaded);
        drop((permit(&bob, WorkSize::Small).await.unwrap(), hers, his));
    }

    #[tokio::test]
    async fn responses_that_are_not_read_hold_no_permits_and_only_their_callers_memory() {
        let folder = tempfile::tempdir().unwrap();
        let (limits, _) = limits(LimitSettings {
            bodies_in_flight_bytes: 12 * MIB,
            unread_bytes: 12 * MIB,
            unread_folder: Some(folder.path().to_owned()),
            ..LimitSettings::default()
        });
        let hold = async |caller: &Caller| {
            let permit = limits.large_response_permit(caller, WorkSize::Large).await;
            let held = permit.unwrap().hold(vec![0_u8; 2 * MIB]).await;
            assert_eq!(limits.large_responses.held(), 0);
            held.map_err(|failure| failure.code)
        };
        let callers = ["ann", "bob", "cyd", "dan"].map(end_user);
        let mut unread = Vec::new();
        for caller in &callers[..3] {
            // Of each caller, one response has room in memory, and one in a file.
            unread.extend([hold(caller).await.unwrap(), hold(caller).await.unwrap()]);
            assert_eq!(hold(caller).await.err(), Some(ErrorCode::Overloaded));
        }
        let permit = limits.large_response_permit(&callers[3], WorkSize::Large);
        let small = permit.await.unwrap().hold(vec![0_u8; MIB]).await.unwrap();
        drop((unread, small));
        assert!(limits.unread.is_empty());
    }
}
