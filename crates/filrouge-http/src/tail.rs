//! A session's items as server-sent events, after any seq, and the drafts of its open turns as they grow (DESIGN §12).
//!
//! The only state of a tail is its position, and how much of each draft it has sent. It reads the next items from the
//! ledger when its socket has room for them, so that a slow reader costs no memory. A client that reconnects with
//! `Last-Event-ID` after an interruption continues exactly after the item that it received last.

use std::convert::Infallible;
use std::future::{Future, ready};
use std::time::Duration;

use axum::body::{Body as HttpBody, Bytes};
use axum::http::{HeaderMap, HeaderName, header};
use axum::response::IntoResponse;
use filrouge_engine::following::{Tail as Reader, TailEvent};
use filrouge_types::{ErrorCode, Failure};
use futures_util::StreamExt;
use futures_util::stream::{once, unfold};

use crate::access::{Principal, may};
use crate::extract::SessionAccess;
use crate::layer::HttpLayer;
use crate::limits::StreamSlot;
use crate::problem::Problem;
use crate::response::{RouteResult, text};

/// How long a tail may send nothing before it sends a heartbeat.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The maximum number of items read at once.
const ITEMS_PER_READ: usize = 64;
/// How long a client waits before it reconnects, in milliseconds.
const RETRY_LINE: &str = "retry: 1000\n\n";

/// How a wire writes the events of a session.
pub trait TailFormat: Send + 'static {
    /// Appends these events as server-sent events ([`write_event`]) to `out`.
    ///
    /// # Errors
    /// Those of what the format reads in addition; they end the stream.
    fn write(
        &mut self,
        events: Vec<TailEvent>,
        out: &mut Vec<u8>,
    ) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Returns the seq in `Last-Event-ID`, which the client received last.
fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(value) = headers.get("last-event-id") else {
        return Ok(None);
    };
    let seq = value.to_str().ok().and_then(|text| text.parse().ok());
    seq.map(Some).ok_or_else(|| {
        Problem::new(ErrorCode::Invalid, "Last-Event-ID is no seq")
            .with_hint("send the id of the last event that came, or leave it out")
    })
}

/// Opens a tail: after `Last-Event-ID`, or without it after the seq `after`, or without both at the session's newest
/// item. `drafts` is whether it includes drafts. It ends when the server stops, and when the credentials end.
///
/// # Errors
/// `invalid` for a `Last-Event-ID` that is no seq, `rate_limited` with too many open streams of the caller, and those of
/// [`filrouge_engine::Following::tail`].
pub async fn open_tail<Q, F: TailFormat>(
    http: HttpLayer,
    access: SessionAccess<may::Read, Q>,
    headers: &HeaderMap,
    (after, drafts): (Option<u64>, bool),
    format: F,
) -> RouteResult {
    let start = last_event_id(headers)?.or(after);
    let slot = http.limits().open_stream(&access.caller)?;
    let following = &http.following;
    let reader = following
        .tail(&access.caller, access.session, start, drafts)
        .await?;
    let tail = Tail {
        http,
        principal: access.principal,
        reader,
        format,
        caught_up: false,
        _slot: slot,
    };
    // The body polls the tail only when it has room to send more.
    let events = unfold(Some(tail), |tail| async { tail?.next().await });
    let stream = once(ready(Bytes::from_static(RETRY_LINE.as_bytes()))).chain(events);
    let body = HttpBody::from_stream(stream.map(Ok::<_, Infallible>));
    let headers = [
        (header::CACHE_CONTROL, "no-store"),
        // Proxies that buffer responses would delay events.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, text("text/event-stream", body)).into_response())
}

struct Tail<F> {
    http: HttpLayer,
    principal: Principal,
    reader: Reader,
    format: F,
    /// Whether the reader has read everything since it was last notified of a change.
    caught_up: bool,
    _slot: StreamSlot,
}

/// The bytes to send, and the tail unless it has ended.
type TailStep<F> = Option<(Bytes, Option<Tail<F>>)>;

impl<F: TailFormat> Tail<F> {
    async fn next(mut self) -> TailStep<F> {
        loop {
            // This is checked before each read, because a tail that always finds items never reaches the wait below.
            if *self.http.stopping().borrow() {
                return None;
            }
            if !self.principal.is_valid() {
                return self.end("credentials");
            }
            if !self.caught_up {
                match self.read().await {
                    Ok(Some(events)) => return Some((events, Some(self))),
                    Ok(None) => continue,
                    Err(failure) => return self.end_after(&failure),
                }
            }
            tokio::select! {
                () = self.reader.changed() => self.caught_up = false,
                () = self.http.wait_until_stopping() => {}
                () = self.principal.wait_until_ended() => {}
                () = tokio::time::sleep(HEARTBEAT) => {
                    return Some((Bytes::from_static(b": heartbeat\n\n"), Some(self)));
                }
            }
        }
    }

    /// Reads the next events; `None` if there are none yet.
    async fn read(&mut self) -> Result<Option<Bytes>, Failure> {
        let (events, read_all) = self.reader.read(ITEMS_PER_READ).await?;
        self.caught_up = read_all;
        let mut out = Vec::new();
        self.format.write(events, &mut out).await?;
        Ok(Some(out).filter(|out| !out.is_empty()).map(Into::into))
    }

    fn end_after(&self, failure: &Failure) -> TailStep<F> {
        match failure.code {
            ErrorCode::SessionErased => {
                let name = filrouge_types::JsonText::from_plain(self.reader.session().as_str());
                let event = format!(
                    "event: erased\ndata: {{\"session_id\":{}}}\n\n",
                    name.as_token()
                );
                self.end("erased");
                Some((event.into(), None))
            }
            // The session was linked to another owner.
            ErrorCode::SessionNotFound => self.end("owner"),
            _ => {
                tracing::warn!(code = failure.code.as_str(), detail = %failure.detail, "a tail was ended");
                self.end("failure")
            }
        }
    }

    fn end(&self, reason: &'static str) -> TailStep<F> {
        self.http.metrics().count_dropped_tail(reason);
        None
    }
}

/// Appends one event. `data` may contain line breaks; each of its lines becomes a `data` line.
pub fn write_event(out: &mut Vec<u8>, name: &str, id: Option<u64>, data: &[u8]) {
    out.extend_from_slice(format!("event: {name}\n").as_bytes());
    if let Some(id) = id {
        out.extend_from_slice(format!("id: {id}\n").as_bytes());
    }
    for line in data.split(|b| *b == b'\n' || *b == b'\r') {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    out.push(b'\n');
}
