//! Bodies that notify their connection when they are consumed or dropped.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use tokio::sync::oneshot::{self, Receiver, Sender};
use tokio::time::timeout;

use super::phase::Phase;

/// The maximum number of bytes of an unread body that are read to keep its connection.
const REST_MAX: usize = 256 << 10;
/// How long to wait for these bytes.
const REST_WITHIN: Duration = Duration::from_secs(2);

/// A request's body; handed back if it was not read to its end.
pub(super) struct RequestBody {
    body: Option<Incoming>,
    begun: bool,
    unread: Option<Sender<UnreadBody>>,
    phase: Phase,
}

/// A body that was not read to its end, and whether reading had begun. If it had, the reader found the body too large,
/// too slow or invalid.
type UnreadBody = (Incoming, bool);

impl RequestBody {
    /// The body, and a handle to the part that its reader leaves unread.
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

/// The unread part of an answered request's body.
pub(super) struct Rest {
    rest: Receiver<UnreadBody>,
    phase: Phase,
}

impl Rest {
    /// Reads and discards the rest, which precedes the next request: a small rest has already arrived, or arrives right
    /// after the request's head. Returns false when the connection must be closed instead: the rest is large or late,
    /// its reader abandoned it, or the client waits for permission to send it.
    pub(super) async fn discard(mut self, awaits_continue: bool) -> bool {
        // A body that is still being read will be read to its end, or will close its connection.
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

/// A response's body.
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
