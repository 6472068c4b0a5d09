//! Limits how many large responses are built at a time, because each stays in memory until it has been sent.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;

/// The maximum number of bytes that are passed to the connection at a time. The connection takes no more before they
/// are written.
const FRAME_MAX: usize = 64 << 10;

/// The permit to build one large response; it is released when dropped.
#[derive(Debug)]
pub struct LargeResponsePermit {
    pub(super) _permit: OwnedSemaphorePermit,
}

impl LargeResponsePermit {
    /// Wraps a response's body so that the permit is released only when the last byte was passed to the operating
    /// system, or when the response was dropped.
    pub fn hold_in(self, body: Body) -> Body {
        Body::new(PermitBody {
            body,
            remaining: Bytes::new(),
            permit: Arc::new(self),
        })
    }
}

/// A body that passes on the response in small frames. Each frame shares the permit, because a frame's bytes are slices
/// that keep the entire response in memory, even when the connection has received the last one.
struct PermitBody {
    body: Body,
    remaining: Bytes,
    permit: Arc<LargeResponsePermit>,
}

/// Bytes of the response, together with the permit.
struct PermitBytes {
    bytes: Bytes,
    _permit: Arc<LargeResponsePermit>,
}

impl AsRef<[u8]> for PermitBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl HttpBody for PermitBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        if this.remaining.is_empty() {
            match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => {
                        this.remaining = Bytes::from_owner(PermitBytes {
                            bytes,
                            _permit: this.permit.clone(),
                        });
                    }
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                other => return Poll::Ready(other),
            }
        }
        let next = this.remaining.split_to(this.remaining.len().min(FRAME_MAX));
        Poll::Ready(Some(Ok(Frame::data(next))))
    }

    fn is_end_stream(&self) -> bool {
        self.remaining.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (body_hint, remaining) = (self.body.size_hint(), self.remaining.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(body_hint.lower() + remaining);
        if let Some(upper) = body_hint.upper() {
            hint.set_upper(upper + remaining);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use tokio::sync::Semaphore;

    async fn permit(permits: &Arc<Semaphore>) -> LargeResponsePermit {
        let _permit = permits.clone().acquire_owned().await.unwrap();
        LargeResponsePermit { _permit }
    }

    #[tokio::test]
    async fn a_permit_is_held_until_the_last_byte_is_dropped() {
        let permits = Arc::new(Semaphore::new(1));
        let text: Vec<u8> = (0..2 * FRAME_MAX + 1).map(|n| (n % 251) as u8).collect();
        let mut body = permit(&permits).await.hold_in(Body::from(text.clone()));
        let (mut received, mut last_frame) = (Vec::new(), Bytes::new());
        while let Some(frame) = body.frame().await {
            last_frame = frame.unwrap().into_data().unwrap();
            assert!(last_frame.len() <= FRAME_MAX);
            received.extend_from_slice(&last_frame);
            let remaining = (text.len() - received.len()) as u64;
            assert_eq!(HttpBody::size_hint(&body).exact(), Some(remaining));
        }
        assert!(received == text && HttpBody::is_end_stream(&body));
        drop(body);
        assert_eq!(
            permits.available_permits(),
            0,
            "its bytes are still in memory"
        );
        drop(last_frame);
        assert_eq!(permits.available_permits(), 1);
    }

    #[tokio::test]
    async fn a_dropped_body_releases_the_permit() {
        let permits = Arc::new(Semaphore::new(1));
        let body = permit(&permits).await.hold_in(Body::from("text"));
        assert_eq!(permits.available_permits(), 0);
        drop(body);
        assert_eq!(permits.available_permits(), 1);
    }
}
