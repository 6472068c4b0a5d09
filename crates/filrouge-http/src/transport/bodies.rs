//! Bodies that tell their connection when they are done with.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use tokio::sync::oneshot::{self, Receiver, Sender};
use tokio::time::timeout;

use super::phase::Phase;

/// Most bytes of a body nobody wants that are read so that its connection can go on.
const REST_MAX: u64 = 256 << 10;
/// How long they are waited for.
const REST_WITHIN: Duration = Duration::from_secs(2);

/// A request's body.
pub(super) struct Asked {
    body: Option<Incoming>,
    begun: bool,
    given_up: Option<Sender<GivenUp>>,
    phase: Phase,
}

/// A body that was not read to its end.
struct GivenUp {
    body: Incoming,
    /// Some of it was read: its reader found it too large, too slow or no good.
    begun: bool,
}

impl Asked {
    /// The body, and where what its reader leaves of it can be taken from.
    pub(super) fn new(body: Incoming, phase: Phase) -> (Self, Rest) {
        let (given_up, rest) = match body.is_end_stream() {
            true => (None, None),
            false => {
                let (given_up, rest) = oneshot::channel();
                (Some(given_up), Some(rest))
            }
        };
        let body = Some(body);
        let asked = Self {
            body,
            begun: false,
            given_up,
            phase: phase.clone(),
        };
        (asked, Rest { rest, phase })
    }
}

/// What a request that was answered left of its body.
pub(super) struct Rest {
    rest: Option<Receiver<GivenUp>>,
    phase: Phase,
}

impl Rest {
    /// Reads it, for it is in the way of the next request: a small one is there already, or right behind its head.
    /// Returns false when the connection has to end instead: the rest is large or late, its reader gave it up, or the
    /// client waits to be told whether to send it.
    pub(super) async fn read_away(mut self, awaits_continue: bool) -> bool {
        // A body that is still being read will be read to its end, or end its connection.
        let rest = self.rest.take().and_then(|mut rest| rest.try_recv().ok());
        let Some(GivenUp { mut body, begun }) = rest else {
            return true;
        };
        let read = !awaits_continue
            && !begun
            && body.size_hint().lower() <= REST_MAX
            && timeout(REST_WITHIN, read_out(&mut body))
                .await
                .unwrap_or(false);
        if !read {
            self.phase.leave_unread();
        }
        read
    }
}

/// Whether its end came within [`REST_MAX`].
async fn read_out(body: &mut Incoming) -> bool {
    let mut bytes = 0;
    loop {
        match std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await {
            None => return true,
            Some(Err(_)) => return false,
            Some(Ok(frame)) => bytes += frame.data_ref().map_or(0, |data| data.len() as u64),
        }
        if bytes > REST_MAX {
            return false;
        }
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
        let begun = self.begun;
        if given_up.send(GivenUp { body, begun }).is_err() {
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
