//! Large answers: each stands in memory until it has been sent, so only a few are made at a time.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The turns of large answers.
#[derive(Debug)]
pub(crate) struct LargeAnswers(Arc<Semaphore>);

impl LargeAnswers {
    pub(crate) fn new(at_once: usize) -> Self {
        Self(Arc::new(Semaphore::new(
            at_once.clamp(1, Semaphore::MAX_PERMITS),
        )))
    }

    pub(crate) async fn acquire(&self) -> Option<LargeAnswer> {
        let permit = self.0.clone().acquire_owned().await;
        permit.ok().map(|_permit| LargeAnswer { _permit })
    }
}

/// Leave to build one large answer; given back when dropped.
#[derive(Debug)]
pub struct LargeAnswer {
    _permit: OwnedSemaphorePermit,
}

impl LargeAnswer {
    /// The body, which gives the leave back only once it has been sent or given up.
    pub fn hold_in(self, body: Body) -> Body {
        Body::new(Held { body, _leave: self })
    }
}

struct Held {
    body: Body,
    _leave: LargeAnswer,
}

impl HttpBody for Held {
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

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    #[tokio::test]
    async fn a_leave_is_held_until_the_body_is_gone() {
        let answers = LargeAnswers::new(1);
        let body = answers.acquire().await.unwrap().hold_in(Body::from("text"));
        assert_eq!(answers.0.available_permits(), 0);
        assert_eq!(body.collect().await.unwrap().to_bytes(), "text");
        assert_eq!(answers.0.available_permits(), 1);
    }
}
