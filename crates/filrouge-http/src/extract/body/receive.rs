//! Receives a request body within limits on its size, on its time, and on the total size of all bodies in memory.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, header};
use filrouge_types::ErrorCode;
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout_at};

use super::gzip;
use crate::access::Principal;
use crate::layer::HttpLayer;
use crate::limits::{Reservation, SMALL_BODY};
use crate::problem::Problem;

/// The maximum time by which a body may fall behind the minimum rate [`BYTES_PER_SECOND`]. A pause must not be longer,
/// however fast the body arrived before.
const LAG_MAX: Duration = Duration::from_secs(10);
/// The minimum rate at which a body must arrive, because received bytes occupy memory that other requests need.
const BYTES_PER_SECOND: u64 = 16 << 10;

/// Why a body is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    TooLarge { limit: usize },
    ExpandsTooFar { limit: usize },
    TooManyMembers { limit: usize },
    TooSlow,
    NoMemory,
    CutOff,
    NotGzip,
    UnknownEncoding,
}

impl Refusal {
    pub(super) const fn reason(self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "too_large",
            Self::ExpandsTooFar { .. } => "unfolds",
            Self::TooManyMembers { .. } => "members",
            Self::TooSlow => "too_slow",
            Self::NoMemory => "no_room",
            Self::CutOff => "broke_off",
            Self::NotGzip => "not_gzip",
            Self::UnknownEncoding => "encoding",
        }
    }

    fn problem(self) -> Problem {
        match self {
            Self::TooLarge { limit } => {
                let what = format!("the body is larger than {limit} bytes");
                Problem::new(ErrorCode::PayloadTooLarge, what).with_hint("send fewer items at once")
            }
            Self::ExpandsTooFar { limit } => {
                let what = format!("the body decompresses to more than {limit} bytes");
                Problem::new(ErrorCode::PayloadTooLarge, what)
                    .with_hint("send fewer items at once, or send them without content-encoding")
            }
            Self::TooManyMembers { limit } => {
                let what = format!("the body has more than {limit} gzip members");
                Problem::new(ErrorCode::BadRequest, what)
                    .with_hint("compress the body as one gzip member")
            }
            Self::TooSlow => {
                Problem::new(ErrorCode::RequestTimeout, "the body did not arrive in time")
            }
            Self::NoMemory => {
                Problem::new(ErrorCode::Overloaded, "too many bytes are arriving at once")
            }
            Self::CutOff => Problem::new(ErrorCode::BadRequest, "the body broke off"),
            Self::NotGzip => {
                let what = "the body is not gzip, although content-encoding says so";
                Problem::new(ErrorCode::BadRequest, what)
            }
            Self::UnknownEncoding => {
                let what = "the content-encoding is not known";
                Problem::new(ErrorCode::UnsupportedMediaType, what)
                    .with_hint("send the body as it is, or with content-encoding: gzip")
            }
        }
    }
}

/// Reads the entire body and decompresses it.
pub(super) async fn read_body(request: Request, http: &HttpLayer) -> Result<Vec<u8>, Problem> {
    let result = read_within_limits(request, http).await;
    result.map_err(|refusal| {
        http.metrics().count_refused_body(refusal.reason());
        refusal.problem()
    })
}

async fn read_within_limits(request: Request, http: &HttpLayer) -> Result<Vec<u8>, Refusal> {
    let settings = http.limits().settings();
    let limit = settings.body_bytes;
    let is_gzip = is_gzip(request.headers())?;
    // The layer around all routes adds the reservation to the request. Without that layer, as in a test, the body gets
    // its own.
    let reservation = request.extensions().get::<Arc<Reservation>>().cloned();
    let reservation = reservation.unwrap_or_else(|| Arc::new(http.limits().body_reservation()));
    let (key, end_user) = budget_caller(&request);
    let body = request.into_body();
    if body.size_hint().lower() > limit as u64 {
        return Err(Refusal::TooLarge { limit });
    }
    let announced = body.size_hint().upper();
    let is_small = announced.is_some_and(|bytes| bytes <= SMALL_BODY as u64);
    reservation.set_caller(&key, &end_user, is_small);
    let receiving = receive(body, limit, &reservation);
    let bytes = match tokio::time::timeout(settings.body_timeout, receiving).await {
        Ok(bytes) => bytes?,
        Err(_) => return Err(Refusal::TooSlow),
    };
    match is_gzip && !bytes.is_empty() {
        true => gzip::decompress(&bytes, limit, &reservation).await,
        false => Ok(bytes),
    }
}

/// Returns the caller whose share of the budget the body uses, as [`crate::limits::key_and_end_user`] does.
pub(super) fn budget_caller(request: &Request) -> (String, String) {
    let principal = request.extensions().get::<Principal>();
    let name = principal.and_then(Principal::name).unwrap_or_default();
    // `end_user` does not fail here: authorization already refused a caller that must not act for the end user.
    let identity = principal.and_then(|p| p.end_user(request.headers()).ok()?);
    let identity = identity.as_ref().map_or("", |id| id.as_str());
    (name.to_owned(), identity.to_owned())
}

/// Whether a body is compressed with gzip. Fails for any other compression.
pub(super) fn is_gzip(headers: &HeaderMap) -> Result<bool, Refusal> {
    let mut values = headers.get_all(header::CONTENT_ENCODING).iter();
    let has_name =
        |value: &HeaderValue, name: &str| value.as_bytes().eq_ignore_ascii_case(name.as_bytes());
    match (values.next(), values.next()) {
        (None, _) => Ok(false),
        (Some(value), None) if has_name(value, "identity") => Ok(false),
        (Some(value), None) if has_name(value, "gzip") || has_name(value, "x-gzip") => Ok(true),
        _ => Err(Refusal::UnknownEncoding),
    }
}

/// Receives the body. Reserves memory as bytes arrive, not for the announced length.
async fn receive(
    mut body: Body,
    limit: usize,
    reservation: &Reservation,
) -> Result<Vec<u8>, Refusal> {
    let (mut deadline, mut bytes) = (Instant::now() + LAG_MAX, Vec::new());
    loop {
        let Ok(frame) = timeout_at(deadline, body.frame()).await else {
            return Err(Refusal::TooSlow);
        };
        let Some(frame) = frame else {
            return Ok(bytes);
        };
        let frame = frame.map_err(|_| Refusal::CutOff)?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if data.len() > limit - bytes.len() {
            return Err(Refusal::TooLarge { limit });
        }
        if !reservation.grow(data.len()) {
            return Err(Refusal::NoMemory);
        }
        let credit = Duration::from_micros(data.len() as u64 * 1_000_000 / BYTES_PER_SECOND);
        deadline = (deadline + credit).min(Instant::now() + LAG_MAX);
        bytes.extend_from_slice(&data);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll, ready};

    use axum::body::Bytes;
    use hyper::body::Frame;
    use tokio::time::{Interval, interval};

    use super::*;
    use crate::limits::Budget;

    /// A body that yields this many bytes every second.
    struct Drip {
        ticks: Interval,
        bytes: usize,
        frames_left: u32,
    }

    impl HttpBody for Drip {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            ready!(self.ticks.poll_tick(cx));
            if self.frames_left == 0 {
                return Poll::Ready(None);
            }
            self.frames_left -= 1;
            Poll::Ready(Some(Ok(Frame::data(vec![b' '; self.bytes].into()))))
        }
    }

    async fn dripping(bytes: usize, seconds: u32) -> (Result<usize, Refusal>, u64) {
        let began = Instant::now();
        let body = Body::new(Drip {
            ticks: interval(Duration::from_secs(1)),
            bytes,
            frames_left: seconds,
        });
        let reservation = Budget::without_shares(1 << 30).reservation();
        let collected = receive(body, 1 << 30, &reservation).await;
        (
            collected.map(|bytes| bytes.len()),
            began.elapsed().as_secs(),
        )
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_may_pause_but_not_trickle() {
        let slowest = usize::try_from(BYTES_PER_SECOND).unwrap();
        assert_eq!(dripping(1, 9).await, (Ok(9), 9), "within the grace period");
        assert_eq!(dripping(1, 9999).await, (Err(Refusal::TooSlow), 10));
        let (slow_result, after) = dripping(slowest / 2, 9999).await;
        assert_eq!(slow_result, Err(Refusal::TooSlow));
        assert!((15..=25).contains(&after), "{after}");
        let total = slowest * 2 * 100;
        assert_eq!(dripping(slowest * 2, 100).await, (Ok(total), 100));
        let stalled = Body::new(Drip {
            ticks: interval(Duration::from_secs(3600)),
            bytes: 1 << 20,
            frames_left: 2,
        });
        let (began, reservation) = (
            Instant::now(),
            Budget::without_shares(1 << 30).reservation(),
        );
        let collected = receive(stalled, 1 << 30, &reservation).await;
        assert_eq!(collected, Err(Refusal::TooSlow));
        assert_eq!(
            began.elapsed().as_secs(),
            LAG_MAX.as_secs(),
            "earlier speed does not extend a pause"
        );
    }
}
