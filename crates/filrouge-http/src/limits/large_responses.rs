//! Large responses: how many are built at a time, and where they wait for their clients.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use filrouge_store::Slot;
use filrouge_types::{ErrorCode, Failure};
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use tokio::task::{JoinHandle, spawn_blocking};

use super::unread_file::UnreadFile;
use super::{Budget, LimitSettings, Reservation, SMALL_BODY};

#[cfg(test)]
mod tests;

/// The maximum number of bytes that are passed to the connection at a time. The connection takes no more before they
/// are written.
pub(super) const FRAME_MAX: usize = 64 << 10;

/// The places where built responses wait for their clients.
#[derive(Debug)]
pub(super) struct UnreadPlaces {
    memory: Arc<Budget>,
    files: Arc<Budget>,
    /// The folder of the files; `None`: there are no files.
    folder: Option<PathBuf>,
}

impl UnreadPlaces {
    pub(super) fn new(settings: &LimitSettings) -> Self {
        Self {
            memory: Budget::of_remainder(settings.bodies_in_flight_bytes),
            files: Budget::of_remainder(settings.unread_bytes),
            folder: settings.unread_folder.clone(),
        }
    }

    /// Whether any response is waiting.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        !self.memory.has_reservations() && !self.files.has_reservations()
    }
}

/// The permit to build one large response; it is released when dropped.
#[derive(Debug)]
pub struct LargeResponsePermit {
    _slot: Slot,
    /// The key and its end user.
    caller: (String, String),
    places: Arc<UnreadPlaces>,
}

impl LargeResponsePermit {
    pub(super) fn new(slot: Slot, caller: (String, String), places: Arc<UnreadPlaces>) -> Self {
        Self {
            _slot: slot,
            caller,
            places,
        }
    }

    /// Keeps the bytes of a response that is built, or of a part of it, until the client has read them, and releases the
    /// permit: no permit depends on how fast a client reads. If the caller has too many unread bytes in memory, they are
    /// kept in a file.
    ///
    /// # Errors
    /// `overloaded` if the caller has too many unread bytes in files, too, or if the file cannot be written;
    /// `store_full` if its disk is full.
    pub async fn hold(self, bytes: impl Into<Bytes>) -> Result<UnreadResponse, Failure> {
        let bytes = bytes.into();
        let remaining = bytes.len();
        if let Some(reservation) = self.reserve(&self.places.memory, remaining) {
            let kept = Kept::Memory(Bytes::from_owner(UnreadBytes {
                bytes,
                _reservation: reservation,
            }));
            return Ok(UnreadResponse { kept, remaining });
        }
        let reservation = self.reserve(&self.places.files, remaining);
        let place = reservation.zip(self.places.folder.clone());
        let (reservation, folder) = place.ok_or_else(too_many_unread)?;
        // The thread holds the permit, because it continues if the request is dropped.
        let writing = spawn_blocking(move || {
            let file = UnreadFile::create(&folder, &bytes, reservation);
            drop((bytes, self));
            file
        });
        let file = writing.await.map_err(io::Error::other).flatten();
        let kept = Kept::File {
            file: Arc::new(file.map_err(|error| file_failure(&error))?),
            next_frame: 0,
            reading: None,
        };
        Ok(UnreadResponse { kept, remaining })
    }

    fn reserve(&self, place: &Arc<Budget>, bytes: usize) -> Option<Reservation> {
        let reservation = place.reservation();
        let (key, end_user) = &self.caller;
        reservation.set_caller(key, end_user, bytes <= SMALL_BODY);
        reservation.grow(bytes).then_some(reservation)
    }
}

fn too_many_unread() -> Failure {
    ErrorCode::Overloaded
        .failure("too many bytes of large responses wait for their clients")
        .with_hint("first read the responses that you have requested")
}

fn file_failure(error: &io::Error) -> Failure {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    tracing::warn!(%error, "a large response cannot be written to a file in spool.dir");
    let code = match error.kind() {
        StorageFull | QuotaExceeded => ErrorCode::StoreFull,
        _ => ErrorCode::Overloaded,
    };
    Failure::new(code, "a large response cannot be kept in a file")
        .with_hint("the server's log names the cause")
}

/// A response that is built, or a part of it. As a body, it passes on its bytes in small frames: the connection copies
/// or queues only these.
pub struct UnreadResponse {
    kept: Kept,
    /// The number of bytes that were not passed on.
    remaining: usize,
}

enum Kept {
    /// The bytes that were not passed on.
    Memory(Bytes),
    File {
        file: Arc<UnreadFile>,
        next_frame: usize,
        reading: Option<JoinHandle<io::Result<Bytes>>>,
    },
}

/// Bytes of a response that the client has not received. Slices of them keep all of them in memory.
struct UnreadBytes {
    bytes: Bytes,
    _reservation: Reservation,
}

impl AsRef<[u8]> for UnreadBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Kept {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        match self {
            Self::Memory(bytes) => {
                let length = bytes.len().min(FRAME_MAX);
                Poll::Ready(Ok(bytes.split_to(length)))
            }
            Self::File {
                file,
                next_frame,
                reading,
            } => {
                let task = reading.get_or_insert_with(|| {
                    let (file, number) = (file.clone(), *next_frame);
                    spawn_blocking(move || file.read_frame(number))
                });
                let read = ready!(Pin::new(task).poll(cx));
                *reading = None;
                *next_frame += 1;
                Poll::Ready(read.map_err(io::Error::other).flatten())
            }
        }
    }
}

impl HttpBody for UnreadResponse {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        if this.remaining == 0 {
            return Poll::Ready(None);
        }
        let frame = ready!(this.kept.poll_next(cx)).map(|bytes| {
            this.remaining -= bytes.len();
            Frame::data(bytes)
        });
        Poll::Ready(Some(frame))
    }

    fn is_end_stream(&self) -> bool {
        self.remaining == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining as u64)
    }
}

impl From<UnreadResponse> for Body {
    fn from(response: UnreadResponse) -> Self {
        Self::new(response)
    }
}
