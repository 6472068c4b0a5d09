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
const REST_MAX: usize = 256 << 10;
/// The maximum time to wait for these bytes.
const REST_WITHIN: Duration = Duration::from_secs(2);

/// The body of a request. If it is dropped before it was read to its end, it goes to [`Rest`].
pub(super) struct RequestBody {
    body: Option<Incoming>,
    begun: bool,
    unread: Option<Sender<UnreadBody>>,
    phase: Phase,
}

/// A body that was not read to its end, and whether its reading had begun. If so, its reader found it too large, too
/// slow or invalid.
type UnreadBody = (Incoming, bool);

impl RequestBody {
    /// Wraps a body. Also returns a handle to the part of it that its reader will leave unread.
    pub(super) fn new(body: Incoming, phase: Phase) -> (Self, Rest) {
        let (unread, rest) = oneshot::channel();
        let request_body = Self {
            body: Some(body),
            begun: false,
            unread: Some(unread),
            phase: phase.clone(),
        };
        (request_body, Rest { rest, phase })
    }
}

/// The part of a request's body that is unread when the request is answered.
pub(super) struct Rest {
    rest: Receiver<UnreadBody>,
    phase: Phase,
}

impl Rest {
    /// Reads and discards the rest, because the connection's next request comes after it. Returns whether the
    /// connection can be kept. It must be closed if the rest is large or late, if its reader stopped in the middle, or
    /// if the client `awaits_continue`: it waits for permission to send the body.
    pub(super) async fn discard(mut self, awaits_continue: bool) -> bool {
        // Nothing was handed over if the body was read to its end, or is still being read. In the latter case, it
        // closes the connection itself when it is dropped too early.
        let Ok((body, begun)) = self.rest.try_recv() else {
            return true;
        };
        let small = body.size_hint().lower() <= REST_MAX as u64;
        let reading = Limited::new(body, REST_MAX).collect();
        let read = !awaits_continue
            && !begun
            && small
            && timeout(REST_WITHIN, reading)
                .await
                .is_ok_and(|read| read.is_ok());
        if !read {
            self.phase.leave_unread();
        }
        read
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
        this.begun = true;
        match &mut this.body {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body {
            Some(body) => body.size_hint(),
            None => SizeHint::with_exact(0),
        }
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let (Some(body), Some(unread)) = (self.body.take(), self.unread.take()) else {
            return;
        };
        if body.is_end_stream() {
            return;
        }
        if unread.send((body, self.begun)).is_err() {
            self.phase.leave_unread();
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
