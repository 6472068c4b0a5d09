//! Taking a body in: bounded in bytes, in time, and over all requests together.

use std::sync::Arc;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, header};
use filrouge_types::ErrorCode;
use http_body_util::BodyExt;

use super::gzip;
use crate::limits::Reservation;
use crate::problem::Problem;
use crate::serve::App;

/// How the body is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Plain,
    Gzip,
}

/// Why a body is refused; the label of a metric, and what the caller is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    TooLarge { most: usize },
    Unfolds { most: usize },
    TooSlow,
    NoRoom,
    BrokeOff,
    NotGzip,
    Encoding,
}

impl Refusal {
    const fn reason(self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "too_large",
            Self::Unfolds { .. } => "unfolds",
            Self::TooSlow => "too_slow",
            Self::NoRoom => "no_room",
            Self::BrokeOff => "broke_off",
            Self::NotGzip => "not_gzip",
            Self::Encoding => "encoding",
        }
    }

    fn problem(self) -> Problem {
        let (code, detail, hint) = match self {
            Self::TooLarge { most } => (
                ErrorCode::PayloadTooLarge,
                format!("the body is larger than {most} bytes"),
                Some("send fewer items at once"),
            ),
            Self::Unfolds { most } => (
                ErrorCode::PayloadTooLarge,
                format!("the body unfolds to more than {most} bytes"),
                Some("send fewer items at once, or send them without content-encoding"),
            ),
            Self::TooSlow => (
                ErrorCode::RequestTimeout,
                "the body did not arrive in time".to_owned(),
                None,
            ),
            Self::NoRoom => (
                ErrorCode::Overloaded,
                "too many bytes are arriving at once".to_owned(),
                None,
            ),
            Self::BrokeOff => (ErrorCode::BadRequest, "the body broke off".to_owned(), None),
            Self::NotGzip => (
                ErrorCode::BadRequest,
                "the body is not gzip, as content-encoding says".to_owned(),
                None,
            ),
            Self::Encoding => (
                ErrorCode::UnsupportedMediaType,
                "the content-encoding is not known".to_owned(),
                Some("send the body as it is, or with content-encoding: gzip"),
            ),
        };
        let mut problem = Problem::new(code, detail);
        problem.0.hint = hint.map(str::to_owned);
        problem
    }
}

/// The body as it was before it was packed.
pub(super) async fn whole(request: Request, app: &App) -> Result<Vec<u8>, Problem> {
    let result = take(request, app).await;
    result.map_err(|refusal| {
        app.metrics().body_refused(refusal.reason());
        refusal.problem()
    })
}

async fn take(request: Request, app: &App) -> Result<Vec<u8>, Refusal> {
    let settings = app.limits().settings();
    let most = settings.body_bytes;
    let encoding = encoding(request.headers())?;
    // A router without the layer around it bounds each body alone.
    let room = request.extensions().get::<Arc<Reservation>>().cloned();
    let room = room.unwrap_or_else(|| Arc::new(app.limits().body()));
    let body = request.into_body();
    if body.size_hint().lower() > most as u64 {
        return Err(Refusal::TooLarge { most });
    }
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

fn encoding(headers: &HeaderMap) -> Result<Encoding, Refusal> {
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
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
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
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}
