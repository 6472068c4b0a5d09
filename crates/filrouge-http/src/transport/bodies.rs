//! Bodies that tell their connection when they are done with.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use tokio::sync::oneshot::{self, Receiver, Sender};
use tokio::time::timeout;

use super::phase::Phase;

/// Most bytes of a body nobody wants that are read so that its connection can go on.
const REST_MAX: usize = 256 << 10;
/// How long they are waited for.
const REST_WITHIN: Duration = Duration::from_secs(2);

/// A request's body, which is handed back if it was not read to its end.
pub(super) struct Asked {
    body: Option<Incoming>,
    begun: bool,
    given_up: Option<Sender<GivenUp>>,
    phase: Phase,
}

/// A body that was not read to its end, and whether some of it was: its reader found it too large, too slow or no good.
type GivenUp = (Incoming, bool);

impl Asked {
    /// The body, and where what its reader leaves of it can be taken from.
    pub(super) fn new(body: Incoming, phase: Phase) -> (Self, Rest) {
        let (given_up, rest) = oneshot::channel();
        let asked = Self {
            body: Some(body),
            begun: false,
            given_up: Some(given_up),
            phase: phase.clone(),
        };
        (asked, Rest { rest, phase })
    }
}

/// What a request that was answered left of its body.
pub(super) struct Rest {
    rest: Receiver<GivenUp>,
    phase: Phase,
}

impl Rest {
    /// Reads it, for it is in the way of the next request: a small one is there already, or right behind its head.
    /// Returns false when the connection has to end instead: the rest is large or late, its reader gave it up, or the
    /// client waits to be told whether to send it.
    pub(super) async fn read_away(mut self, awaits_continue: bool) -> bool {
        // A body that is still being read will be read to its end, or end its connection.
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

impl HttpBody for Asked {
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

impl Drop for Asked {
    fn drop(&mut self) {
        let (Some(body), Some(given_up)) = (self.body.take(), self.given_up.take()) else {
            return;
        };
        if body.is_end_stream() {
            return;
        }
        if given_up.send((body, self.begun)).is_err() {
            self.phase.leave_unread();
        }
    }
}

/// An answer's body.
pub(super) struct Answered {
    body: Body,
    phase: Phase,
}

impl Answered {
    pub(super) fn new(body: Body, phase: Phase) -> Self {
        Self { body, phase }
    }
}

impl HttpBody for Answered {
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

impl Drop for Answered {
    fn drop(&mut self) {
        self.phase.end();
    }
}
