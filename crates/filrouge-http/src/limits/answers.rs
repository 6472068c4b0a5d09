//! Limits how many large responses are built at a time, because each stays in memory until it has been sent.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;

/// The maximum number of bytes that are passed to the connection at a time. The connection takes no more before they
/// are written.
const FRAME: usize = 64 << 10;

/// The permit to build one large response; it is released when dropped.
#[derive(Debug)]
pub struct LargeAnswer {
    pub(super) _permit: OwnedSemaphorePermit,
}

impl LargeAnswer {
    /// Wraps a response's body so that the permit is released only when the last byte was passed to the operating
    /// system, or when the response was dropped.
    pub fn hold_in(self, body: Body) -> Body {
        Body::new(Held {
            body,
            rest: Bytes::new(),
            permit: Arc::new(self),
        })
    }
}

/// A body that passes on the response in small frames. Each frame shares the permit, because a frame's bytes are slices
/// that keep the entire response in memory, even when the connection has received the last one.
struct Held {
    body: Body,
    rest: Bytes,
    permit: Arc<LargeAnswer>,
}

/// Bytes of the response, together with the permit.
struct Owned {
    bytes: Bytes,
    _permit: Arc<LargeAnswer>,
}

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        if this.rest.is_empty() {
            match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => {
                        this.rest = Bytes::from_owner(Owned {
                            bytes,
                            _permit: this.permit.clone(),
                        });
                    }
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                other => return Poll::Ready(other),
            }
        }
        let next = this.rest.split_to(this.rest.len().min(FRAME));
        Poll::Ready(Some(Ok(Frame::data(next))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + rest);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use tokio::sync::Semaphore;

    async fn permit(answers: &Arc<Semaphore>) -> LargeAnswer {
        let _permit = answers.clone().acquire_owned().await.unwrap();
        LargeAnswer { _permit }
    }

    #[tokio::test]
    async fn a_permit_is_held_until_the_last_byte_is_dropped() {
        let answers = Arc::new(Semaphore::new(1));
        let text: Vec<u8> = (0..2 * FRAME + 1).map(|n| (n % 251) as u8).collect();
        let mut body = permit(&answers).await.hold_in(Body::from(text.clone()));
        let (mut all, mut last) = (Vec::new(), Bytes::new());
        while let Some(frame) = body.frame().await {
            last = frame.unwrap().into_data().unwrap();
            assert!(last.len() <= FRAME);
            all.extend_from_slice(&last);
            let left = (text.len() - all.len()) as u64;
            assert_eq!(HttpBody::size_hint(&body).exact(), Some(left));
        }
        assert!(all == text && HttpBody::is_end_stream(&body));
        drop(body);
        assert_eq!(
            answers.available_permits(),
            0,
            "its bytes are still in memory"
        );
        drop(last);
        assert_eq!(answers.available_permits(), 1);
    }

    #[tokio::test]
    async fn a_dropped_body_releases_the_permit() {
        let answers = Arc::new(Semaphore::new(1));
        let body = permit(&answers).await.hold_in(Body::from("text"));
        assert_eq!(answers.available_permits(), 0);
        drop(body);
        assert_eq!(answers.available_permits(), 1);
    }
}
