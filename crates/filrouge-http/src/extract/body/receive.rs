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

/// How far a body may fall behind the minimum rate [`BYTES_PER_SECOND`]. A pause must not be longer than this, however
/// fast the body arrived before.
const GRACE: Duration = Duration::from_secs(10);
/// The minimum rate at which a body must arrive, because received bytes occupy memory that other requests need.
const BYTES_PER_SECOND: u64 = 16 << 10;

/// The compression of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Plain,
    Gzip,
}

/// Why a body is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    TooLarge { limit: usize },
    Expands { limit: usize },
    Members { limit: usize },
    TooSlow,
    NoRoom,
    BrokeOff,
    NotGzip,
    Encoding,
}

impl Refusal {
    pub(super) const fn reason(self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "too_large",
            Self::Expands { .. } => "unfolds",
            Self::Members { .. } => "members",
            Self::TooSlow => "too_slow",
            Self::NoRoom => "no_room",
            Self::BrokeOff => "broke_off",
            Self::NotGzip => "not_gzip",
            Self::Encoding => "encoding",
        }
    }

    fn problem(self) -> Problem {
        let problem = |code, detail: &str| Problem::new(code, detail);
        match self {
            Self::TooLarge { limit } => {
                let what = format!("the body is larger than {limit} bytes");
                Problem::new(ErrorCode::PayloadTooLarge, what).with_hint("send fewer items at once")
            }
            Self::Expands { limit } => {
                let what = format!("the body decompresses to more than {limit} bytes");
                Problem::new(ErrorCode::PayloadTooLarge, what)
                    .with_hint("send fewer items at once, or send them without content-encoding")
            }
            Self::Members { limit } => {
                let what = format!("the body has more than {limit} gzip members");
                Problem::new(ErrorCode::BadRequest, what)
                    .with_hint("compress the body as one gzip member")
            }
            Self::TooSlow => problem(ErrorCode::RequestTimeout, "the body did not arrive in time"),
            Self::NoRoom => problem(ErrorCode::Overloaded, "too many bytes are arriving at once"),
            Self::BrokeOff => problem(ErrorCode::BadRequest, "the body broke off"),
            Self::NotGzip => problem(
                ErrorCode::BadRequest,
                "the body is not gzip, although content-encoding says so",
            ),
            Self::Encoding => problem(
                ErrorCode::UnsupportedMediaType,
                "the content-encoding is not known",
            )
            .with_hint("send the body as it is, or with content-encoding: gzip"),
        }
    }
}

/// Reads the entire body and decompresses it.
pub(super) async fn read_body(request: Request, http: &HttpLayer) -> Result<Vec<u8>, Problem> {
    let result = read_within_limits(request, http).await;
    result.map_err(|refusal| {
        http.metrics().body_refused(refusal.reason());
        refusal.problem()
    })
}

async fn read_within_limits(request: Request, http: &HttpLayer) -> Result<Vec<u8>, Refusal> {
    let settings = http.limits().settings();
    let limit = settings.body_bytes;
    let encoding = encoding(request.headers())?;
    // The layer around all routes has added the reservation. Without that layer, for example in a test, the body gets
    // one of its own.
    let room = request.extensions().get::<Arc<Reservation>>().cloned();
    let room = room.unwrap_or_else(|| Arc::new(http.limits().body()));
    let caller = caller(&request);
    let body = request.into_body();
    if body.size_hint().lower() > limit as u64 {
        return Err(Refusal::TooLarge { limit });
    }
    let announced = body.size_hint().upper();
    let small = announced.is_some_and(|bytes| bytes <= SMALL_BODY as u64);
    room.set_caller(&caller, small);
    let arriving = collect(body, limit, &room);
    let bytes = match tokio::time::timeout(settings.body_timeout, arriving).await {
        Ok(bytes) => bytes?,
        Err(_) => return Err(Refusal::TooSlow),
    };
    match encoding {
        Encoding::Plain => Ok(bytes),
        Encoding::Gzip if bytes.is_empty() => Ok(bytes),
        Encoding::Gzip => gzip::decompress(&bytes, limit, &room).await,
    }
}

/// The caller whose share of the budget the body uses. The name combines credentials and end user, so end users of one
/// service have separate shares, and so have the services of one end user.
pub(super) fn caller(request: &Request) -> String {
    let principal = request.extensions().get::<Principal>();
    let name = principal.and_then(Principal::name).unwrap_or_default();
    // `acts_for` does not fail here: a caller that must not act for the end user was refused before.
    let identity = principal.and_then(|p| p.acts_for(request.headers()).ok()?);
    let identity = identity.as_ref().map_or("", |id| id.as_str());
    format!("{identity}\0{name}")
}

pub(super) fn encoding(headers: &HeaderMap) -> Result<Encoding, Refusal> {
    let mut given = headers.get_all(header::CONTENT_ENCODING).iter();
    let is =
        |value: &HeaderValue, name: &str| value.as_bytes().eq_ignore_ascii_case(name.as_bytes());
    match (given.next(), given.next()) {
        (None, _) => Ok(Encoding::Plain),
        (Some(one), None) if is(one, "identity") => Ok(Encoding::Plain),
        (Some(one), None) if is(one, "gzip") || is(one, "x-gzip") => Ok(Encoding::Gzip),
        _ => Err(Refusal::Encoding),
    }
}

/// Receives the body. Memory is reserved as bytes arrive, and not for the announced length.
async fn collect(mut body: Body, limit: usize, room: &Reservation) -> Result<Vec<u8>, Refusal> {
    let (mut due, mut bytes) = (Instant::now() + GRACE, Vec::new());
    loop {
        let Ok(frame) = timeout_at(due, body.frame()).await else {
            return Err(Refusal::TooSlow);
        };
        let Some(frame) = frame else {
            return Ok(bytes);
        };
        let frame = frame.map_err(|_| Refusal::BrokeOff)?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if data.len() > limit - bytes.len() {
            return Err(Refusal::TooLarge { limit });
        }
        if !room.grow(data.len()) {
            return Err(Refusal::NoRoom);
        }
        let credit = Duration::from_micros(data.len() as u64 * 1_000_000 / BYTES_PER_SECOND);
        due = (due + credit).min(Instant::now() + GRACE);
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
        left: u32,
    }

    impl HttpBody for Drip {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            ready!(self.ticks.poll_tick(cx));
            if self.left == 0 {
                return Poll::Ready(None);
            }
            self.left -= 1;
            Poll::Ready(Some(Ok(Frame::data(vec![b' '; self.bytes].into()))))
        }
    }

    async fn dripping(bytes: usize, seconds: u32) -> (Result<usize, Refusal>, u64) {
        let began = Instant::now();
        let body = Body::new(Drip {
            ticks: interval(Duration::from_secs(1)),
            bytes,
            left: seconds,
        });
        let room = Budget::without_shares(1 << 30).reservation();
        let collected = collect(body, 1 << 30, &room).await;
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
        let (half, after) = dripping(slowest / 2, 9999).await;
        assert_eq!(half, Err(Refusal::TooSlow));
        assert!((15..=25).contains(&after), "{after}");
        let all = slowest * 2 * 100;
        assert_eq!(dripping(slowest * 2, 100).await, (Ok(all), 100));
        let stalled = Body::new(Drip {
            ticks: interval(Duration::from_secs(3600)),
            bytes: 1 << 20,
            left: 2,
        });
        let (began, room) = (
            Instant::now(),
            Budget::without_shares(1 << 30).reservation(),
        );
        let collected = collect(stalled, 1 << 30, &room).await;
        assert_eq!(collected, Err(Refusal::TooSlow));
        assert_eq!(
            began.elapsed().as_secs(),
            GRACE.as_secs(),
            "earlier speed does not extend a pause"
        );
    }
}
