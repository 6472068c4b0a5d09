//! Taking a body in: bounded in bytes, in time, and over all requests together.

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

/// How far a body may be behind [`BYTES_PER_SECOND`], and so how long it may pause whatever has come before.
const GRACE: Duration = Duration::from_secs(10);
/// The slowest that a body may come: what has come is held meanwhile, and others need the room.
const BYTES_PER_SECOND: u64 = 16 << 10;

/// How the body is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Plain,
    Gzip,
}

/// Why a body is refused; the label of a metric, and what the caller is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    TooLarge { most: usize },
    Unfolds { most: usize },
    Members { most: usize },
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
            Self::Unfolds { .. } => "unfolds",
            Self::Members { .. } => "members",
            Self::TooSlow => "too_slow",
            Self::NoRoom => "no_room",
            Self::BrokeOff => "broke_off",
            Self::NotGzip => "not_gzip",
            Self::Encoding => "encoding",
        }
    }

    fn problem(self) -> Problem {
        let say = |code, detail: &str| Problem::new(code, detail);
        match self {
            Self::TooLarge { most } => {
                let what = format!("the body is larger than {most} bytes");
                Problem::new(ErrorCode::PayloadTooLarge, what).with_hint("send fewer items at once")
            }
            Self::Unfolds { most } => {
                let what = format!("the body unfolds to more than {most} bytes");
                Problem::new(ErrorCode::PayloadTooLarge, what)
                    .with_hint("send fewer items at once, or send them without content-encoding")
            }
            Self::Members { most } => {
                let what = format!("the body has more than {most} gzip members");
                Problem::new(ErrorCode::BadRequest, what).with_hint("pack the body as one member")
            }
            Self::TooSlow => say(ErrorCode::RequestTimeout, "the body did not arrive in time"),
            Self::NoRoom => say(ErrorCode::Overloaded, "too many bytes are arriving at once"),
            Self::BrokeOff => say(ErrorCode::BadRequest, "the body broke off"),
            Self::NotGzip => say(
                ErrorCode::BadRequest,
                "the body is not gzip, as content-encoding says",
            ),
            Self::Encoding => say(
                ErrorCode::UnsupportedMediaType,
                "the content-encoding is not known",
            )
            .with_hint("send the body as it is, or with content-encoding: gzip"),
        }
    }
}

/// The body as it was before it was packed.
pub(super) async fn whole(request: Request, http: &HttpLayer) -> Result<Vec<u8>, Problem> {
    let result = take(request, http).await;
    result.map_err(|refusal| {
        http.metrics().body_refused(refusal.reason());
        refusal.problem()
    })
}

async fn take(request: Request, http: &HttpLayer) -> Result<Vec<u8>, Refusal> {
    let settings = http.limits().settings();
    let most = settings.body_bytes;
    let encoding = encoding(request.headers())?;
    // A router without the layer around it bounds each body alone.
    let room = request.extensions().get::<Arc<Reservation>>().cloned();
    let room = room.unwrap_or_else(|| Arc::new(http.limits().body()));
    let caller = caller(&request);
    let body = request.into_body();
    if body.size_hint().lower() > most as u64 {
        return Err(Refusal::TooLarge { most });
    }
    let announced = body.size_hint().upper();
    let small = announced.is_some_and(|bytes| bytes <= SMALL_BODY as u64);
    room.is_for(&caller, small);
    let arriving = collect(body, most, &room);
    let bytes = match tokio::time::timeout(settings.body_timeout, arriving).await {
        Ok(bytes) => bytes?,
        Err(_) => return Err(Refusal::TooSlow),
    };
    match encoding {
        Encoding::Plain => Ok(bytes),
        Encoding::Gzip if bytes.is_empty() => Ok(bytes),
        Encoding::Gzip => gzip::unfold(&bytes, most, &room).await,
    }
}

/// Whose share of the room the body takes: the credentials' and the end user's together, so that neither the users of
/// one service share one, nor the services of one user.
pub(super) fn caller(request: &Request) -> String {
    let principal = request.extensions().get::<Principal>();
    let name = principal.and_then(Principal::name).unwrap_or_default();
    // Who must not act for this end user has been refused.
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

/// No room is made for what is only announced: memory is taken as bytes arrive.
async fn collect(mut body: Body, most: usize, room: &Reservation) -> Result<Vec<u8>, Refusal> {
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
        if data.len() > most - bytes.len() {
            return Err(Refusal::TooLarge { most });
        }
        if !room.grow(data.len()) {
            return Err(Refusal::NoRoom);
        }
        let earns = Duration::from_micros(data.len() as u64 * 1_000_000 / BYTES_PER_SECOND);
        due = (due + earns).min(Instant::now() + GRACE);
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

    /// So many bytes every second.
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
        let taken = collect(body, 1 << 30, &room).await;
        (taken.map(|bytes| bytes.len()), began.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_may_rest_but_not_trickle() {
        let slowest = usize::try_from(BYTES_PER_SECOND).unwrap();
        assert_eq!(dripping(1, 9).await, (Ok(9), 9), "within the grace");
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
        let taken = collect(stalled, 1 << 30, &room).await;
        assert_eq!(taken, Err(Refusal::TooSlow));
        assert_eq!(
            began.elapsed().as_secs(),
            GRACE.as_secs(),
            "much before a pause buys nothing"
        );
    }
}
