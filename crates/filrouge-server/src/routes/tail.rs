//! The live tail: a session's items as server-sent events, from any seq on, and the drafts of its streams as they grow
//! (DESIGN §12).
//!
//! A stream holds a position, and how much of each draft it has shown. It reads the next items from the ledger when its socket has room for
//! them, so that a reader that is slow costs no memory, and one that comes back with `Last-Event-ID`, after whatever
//! has happened, goes on exactly where it was.

use std::convert::Infallible;
use std::future::ready;
use std::time::Duration;

use axum::body::{Body as HttpBody, Bytes};
use axum::http::{HeaderMap, HeaderName, header};
use axum::response::IntoResponse;
use filrouge_engine::following::{Tail as Reader, TailEvent};
use filrouge_types::{ErrorCode, Failure};
use futures_util::StreamExt;
use futures_util::stream::{once, unfold};
use serde::Serialize;

use crate::app::App;
use filrouge_http::access::{Principal, may};
use filrouge_http::answer::{Answer, accepted, text};
use filrouge_http::extract::InSession;
use filrouge_http::limits::StreamSlot;
use filrouge_http::problem::Problem;

/// How often an idle stream shows that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Items read at once.
const ITEMS: usize = 64;
/// What a client waits before it comes back, in milliseconds.
const RETRY: &str = "retry: 1000\n\n";

/// Whether the caller asks for a stream.
pub(super) fn wanted(headers: &HeaderMap) -> bool {
    accepted(headers).any(|media_type| media_type == "text/event-stream")
}

/// The seq that a client has seen last.
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

/// Opens a stream: behind `Last-Event-ID`, else behind `after`, else at the session's end; with or without drafts.
pub(super) async fn open<Q>(
    app: App,
    at: InSession<may::Read, Q>,
    headers: &HeaderMap,
    after: Option<u64>,
    drafts: bool,
) -> Answer {
    let asked = last_event_id(headers)?.or(after);
    let slot = app.limits().stream(at.principal.name())?;
    let following = &app.following;
    let reader = following
        .tail(&at.caller, at.session, asked, drafts)
        .await?;
    let tail = Tail {
        app,
        principal: at.principal,
        reader,
        caught_up: false,
        _slot: slot,
    };
    // It asks the tail for more only when there is room to send it.
    let events = unfold(Some(tail), |tail| async { tail?.next().await });
    let stream = once(ready(Bytes::from_static(RETRY.as_bytes()))).chain(events);
    let body = HttpBody::from_stream(stream.map(Ok::<_, Infallible>));
    let headers = [
        (header::CACHE_CONTROL, "no-store"),
        // Proxies that gather answers would hold events back.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, text("text/event-stream", body)).into_response())
}

struct Tail {
    app: App,
    principal: Principal,
    reader: Reader,
    /// Whether everything was read since the reader last woke.
    caught_up: bool,
    _slot: StreamSlot,
}

/// What a stream sends, and the tail unless that is its end.
type Step = Option<(Bytes, Option<Tail>)>;

impl Tail {
    async fn next(mut self) -> Step {
        loop {
            // Also while there is always something to read.
            if *self.app.stopping().borrow() {
                return None;
            }
            if !self.principal.still_valid() {
                return self.ended("credentials");
            }
            if !self.caught_up {
                match self.read().await {
                    Ok(Some(events)) => return Some((events, Some(self))),
                    Ok(None) => continue,
                    Err(failure) => return self.failed(&failure),
                }
            }
            tokio::select! {
                () = self.reader.changed() => self.caught_up = false,
                () = self.app.stopped() => {}
                () = self.principal.ended() => {}
                () = tokio::time::sleep(HEARTBEAT) => {
                    return Some((Bytes::from_static(b": heartbeat\n\n"), Some(self)));
                }
            }
        }
    }

    /// What comes next, as events; `None` when there is nothing yet.
    async fn read(&mut self) -> Result<Option<Bytes>, Failure> {
        let (events, all) = self.reader.read(ITEMS).await?;
        self.caught_up = all;
        let mut out = Vec::new();
        for event in events {
            match event {
                TailEvent::Item(item) => write(&mut out, "item", Some(item.seq), &item)?,
                TailEvent::Draft(draft) => write(&mut out, "draft", None, &draft)?,
            }
        }
        Ok(Some(out).filter(|out| !out.is_empty()).map(Into::into))
    }

    fn failed(&self, failure: &Failure) -> Step {
        match failure.code {
            ErrorCode::SessionErased => {
                let name = filrouge_types::JsonText::from_plain(self.reader.session().as_str());
                let event = format!(
                    "event: erased\ndata: {{\"session_id\":{}}}\n\n",
                    name.as_token()
                );
                self.ended("erased");
                Some((event.into(), None))
            }
            // It is somebody else's now: linked by its owner.
            ErrorCode::SessionNotFound => self.ended("owner"),
            _ => {
                tracing::warn!(code = failure.code.as_str(), detail = %failure.detail, "a tail was ended");
                self.ended("failure")
            }
        }
    }

    fn ended(&self, reason: &'static str) -> Step {
        self.app.metrics().tail_dropped(reason);
        None
    }
}

/// One event. An item's JSON may hold line ends where JSON allows white space: each line is a line of data.
fn write<T: Serialize>(
    out: &mut Vec<u8>,
    name: &str,
    id: Option<u64>,
    data: &T,
) -> Result<(), Failure> {
    let json =
        serde_json::to_vec(data).map_err(|e| Failure::new(ErrorCode::Internal, e.to_string()))?;
    out.extend_from_slice(format!("event: {name}\n").as_bytes());
    if let Some(id) = id {
        out.extend_from_slice(format!("id: {id}\n").as_bytes());
    }
    for line in json.split(|b| *b == b'\n' || *b == b'\r') {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    out.push(b'\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn asks(accept: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        for value in accept {
            headers.append(header::ACCEPT, HeaderValue::from_str(value).unwrap());
        }
        wanted(&headers)
    }

    #[test]
    fn a_stream_is_asked_for_by_its_media_type() {
        assert!(asks(&["text/event-stream"]));
        assert!(asks(&["application/json;q=0.1, Text/Event-Stream; q=1"]));
        assert!(asks(&["application/json", "text/event-stream"]));
        assert!(!asks(&[]));
        assert!(!asks(&["*/*", "text/event-streams"]));
    }
}
