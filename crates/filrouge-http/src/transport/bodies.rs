//! Wrappers of request and response bodies, from which a connection learns when they were read or dropped.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use tokio::sync::oneshot::{self, Receiver, Sender};
use tokio::time::timeout;

use super::phase::Phase;

/// The maximum number of bytes of an unread request body that are read and discarded so that its connection can be
/// kept.
const UNREAD_MAX: usize = 256 << 10;
/// The maximum time to wait for these bytes.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(2);

/// The body of a request. If it is dropped before it was read to its end, it goes to [`UnreadPart`].
pub(super) struct RequestBody {
    body: Option<Incoming>,
    reading_begun: bool,
    sender: Option<Sender<UnreadBody>>,
    phase: Phase,
}

/// A body that was not read to its end, and whether its reading had begun. If so, its reader found it too large, too
/// slow or invalid.
type UnreadBody = (Incoming, bool);

impl RequestBody {
    /// Wraps a body. Also returns a handle to the part of it that its reader will leave unread.
    pub(super) fn new(body: Incoming, phase: Phase) -> (Self, UnreadPart) {
        let (sender, receiver) = oneshot::channel();
        let request_body = Self {
            body: Some(body),
            reading_begun: false,
            sender: Some(sender),
            phase: phase.clone(),
        };
        (request_body, UnreadPart { receiver, phase })
    }
}

/// The part of a request's body that is unread when the request is answered.
pub(super) struct UnreadPart {
    receiver: Receiver<UnreadBody>,
    phase: Phase,
}

impl UnreadPart {
    /// Reads and discards the unread part, because the connection's next request comes after it. Returns whether the
    /// connection can be kept. It must be closed if the part is large or late, or if the body's reader stopped in the
    /// middle. It must also be closed if the client `awaits_continue`: it waits for permission to send the body.
    pub(super) async fn discard(mut self, awaits_continue: bool) -> bool {
        // Nothing was sent if the body was read to its end, or is still being read. In the latter case, the body marks
        // the connection as unread if it is dropped before its end.
        let Ok((body, reading_begun)) = self.receiver.try_recv() else {
            return true;
        };
        let is_small = body.size_hint().lower() <= UNREAD_MAX as u64;
        let reading = Limited::new(body, UNREAD_MAX).collect();
        let was_discarded = !awaits_continue
            && !reading_begun
            && is_small
            && timeout(UNREAD_TIMEOUT, reading)
                .await
                .is_ok_and(|result| result.is_ok());
        if !was_discarded {
            self.phase.mark_unread();
        }
        was_discarded
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        this.reading_begun = true;
        let body = this.body.as_mut();
        body.map_or(Poll::Ready(None), |body| Pin::new(body).poll_frame(cx))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let body = self.body.as_ref();
        body.map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let (Some(body), Some(sender)) = (self.body.take(), self.sender.take()) else {
            return;
        };
        if body.is_end_stream() {
            return;
        }
        if sender.send((body, self.reading_begun)).is_err() {
            self.phase.mark_unread();
        }
    }
}

/// The body of a response. It ends the phase of its connection when it is dropped.
pub(super) struct ResponseBody {
    body: Body,
    phase: Phase,
}

impl ResponseBody {
    pub(super) fn new(body: Body, phase: Phase) -> Self {
        Self { body, phase }
    }
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        self.phase.end();
    }
}
