//! Large responses: how many are built at a time, and how many bytes of them wait for their clients.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use filrouge_store::Slot;
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};

use super::{Budget, Reservation, SMALL_BODY};

/// The maximum number of bytes that are passed to the connection at a time. The connection takes no more before they
/// are written.
const FRAME_MAX: usize = 64 << 10;

/// The permit to build one large response; it is released when dropped.
#[derive(Debug)]
pub struct LargeResponsePermit {
    slot: Slot,
    caller: String,
    unsent: Reservation,
}

impl LargeResponsePermit {
    pub(super) fn new(slot: Slot, caller: String, unsent: &Arc<Budget>) -> Self {
        Self {
            slot,
            caller,
            unsent: unsent.reservation(),
        }
    }

    /// Wraps the bytes of a response that is built, or of a part of it, and releases the permit. Only if the caller has
    /// too many bytes that were not sent, the permit is released when these bytes are dropped: when they were passed to
    /// the operating system, or when the client has disconnected.
    pub fn hold(self, bytes: impl Into<Bytes>) -> Bytes {
        let bytes = bytes.into();
        self.unsent
            .set_caller(&self.caller, bytes.len() <= SMALL_BODY);
        let has_room = self.unsent.grow(bytes.len());
        Bytes::from_owner(UnsentBytes {
            bytes,
            _unsent: self.unsent,
            _slot: (!has_room).then_some(self.slot),
        })
    }

    /// As [`Self::hold`], as the body of the response.
    pub fn hold_in_body(self, bytes: impl Into<Bytes>) -> Body {
        in_small_frames(Body::from(self.hold(bytes)))
    }
}

/// Bytes of a response that the client has not received. Slices of them keep all of them in memory.
struct UnsentBytes {
    bytes: Bytes,
    _unsent: Reservation,
    _slot: Option<Slot>,
}

impl AsRef<[u8]> for UnsentBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Wraps a body so that it passes on the response in small frames. The connection copies or queues only these.
pub fn in_small_frames(body: Body) -> Body {
    Body::new(SmallFrames {
        body,
        remaining: Bytes::new(),
    })
}

struct SmallFrames {
    body: Body,
    remaining: Bytes,
}

impl HttpBody for SmallFrames {
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
                    Ok(bytes) => this.remaining = bytes,
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
    use filrouge_store::{FairSlots, SlotBounds, WorkSize};
    use http_body_util::BodyExt;

    use super::*;

    /// A permit that has the only slot, with this budget for bytes that are not sent.
    fn permit(budget: &Arc<Budget>) -> (FairSlots, LargeResponsePermit) {
        let slots = FairSlots::new(SlotBounds::without_shares(1));
        let slot = slots.try_acquire(&"ann", WorkSize::Large).unwrap();
        let permit = LargeResponsePermit::new(slot, "ann".to_owned(), budget);
        (slots, permit)
    }

    #[tokio::test]
    async fn without_room_a_permit_is_held_until_the_last_byte_is_dropped() {
        let text: Vec<u8> = (0..2 * FRAME_MAX + 1).map(|n| (n % 251) as u8).collect();
        let (slots, permit) = permit(&Budget::without_shares(text.len() - 1));
        let mut body = permit.hold_in_body(text.clone());
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
        assert_eq!(slots.held(), 1, "its bytes are still in memory");
        drop(last_frame);
        assert_eq!(slots.held(), 0);
    }

    #[tokio::test]
    async fn a_dropped_body_releases_the_permit() {
        let (slots, permit) = permit(&Budget::without_shares(0));
        let body = permit.hold_in_body("text");
        assert_eq!(slots.held(), 1);
        drop(body);
        assert_eq!(slots.held(), 0);
    }

    #[tokio::test]
    async fn with_room_a_permit_is_released_when_the_response_is_built() {
        let unsent = Budget::without_shares(4);
        let (slots, permit) = permit(&unsent);
        let body = permit.hold_in_body("text");
        assert_eq!((slots.held(), unsent.used()), (0, 4));
        drop(body);
        assert_eq!(unsent.used(), 0);
    }
}
