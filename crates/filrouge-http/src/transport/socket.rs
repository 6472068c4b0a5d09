//! A TCP stream that drops peers that are too slow.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

use super::own_response;
use super::phase::Phase;
use crate::limits::LimitSettings;
use crate::metrics::Metrics;

/// How long a connection may be idle before its first request, and between two requests.
const IDLE: Duration = Duration::from_secs(75);
/// How long a socket that is closing reads and discards what the peer still sends. If it closed at once, the operating
/// system would reset the connection, and the peer might lose the response.
const LINGER: Duration = Duration::from_secs(2);

/// A deadline. Its timer is allocated once and reset for every later use.
#[derive(Default)]
struct Deadline {
    sleep: Option<Pin<Box<Sleep>>>,
    armed: bool,
}

impl Deadline {
    fn arm(&mut self, within: Duration) {
        let at = Instant::now() + within;
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().reset(at),
            None => self.sleep = Some(Box::pin(sleep_until(at))),
        }
        self.armed = true;
    }

    fn disarm(&mut self) {
        self.armed = false;
    }

    /// Whether the deadline is armed and has passed. If it is armed and has not passed, the task is woken when it does.
    fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        match &mut self.sleep {
            Some(sleep) if self.armed => sleep.as_mut().poll(cx).is_ready(),
            _ => false,
        }
    }
}

/// The input for which a read waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Input {
    /// Bytes of a request in progress. The socket sets no deadline for them: other limits apply.
    Request,
    /// The first byte of a head.
    Idle,
    /// The rest of a head.
    Head,
}

/// The stream of one connection, with the deadlines for its peer.
pub(super) struct Socket {
    stream: TcpStream,
    phase: Phase,
    metrics: Arc<Metrics>,
    /// The time limit for a head, counted from its first byte.
    header_timeout: Duration,
    /// How long a single write may wait for the peer.
    write_stall: Duration,
    input: Input,
    read_deadline: Deadline,
    /// For a single write that waits for the peer.
    write_deadline: Deadline,
    /// For the entire response.
    response_deadline: Deadline,
    /// For reading what the peer still sends when the connection closes.
    linger: Deadline,
    /// The unwritten bytes of the response that replaces a refusal by the HTTP library; usually empty.
    replacement: Bytes,
}

fn timed_out() -> io::Error {
    io::ErrorKind::TimedOut.into()
}

impl Socket {
    pub(super) fn new(
        stream: TcpStream,
        phase: Phase,
        settings: &LimitSettings,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            stream,
            phase,
            metrics,
            header_timeout: settings.header_timeout,
            write_stall: settings.write_stall,
            input: Input::Request,
            read_deadline: Deadline::default(),
            write_deadline: Deadline::default(),
            response_deadline: Deadline::default(),
            linger: Deadline::default(),
            replacement: Bytes::new(),
        }
    }

    /// Updates the deadline for reading after a read that returned `bytes` bytes; 0 if none have arrived yet.
    fn update_read_deadline(&mut self, bytes: usize) {
        if !self.phase.is_waiting() {
            self.input = Input::Request;
            self.read_deadline.disarm();
        } else if bytes > 0 {
            if self.input != Input::Head {
                self.input = Input::Head;
                self.read_deadline.arm(self.header_timeout);
            }
        } else if self.input == Input::Request {
            self.input = Input::Idle;
            self.read_deadline.arm(IDLE);
        }
    }

    /// Returns the error for a peer that was silent for too long. If the peer has sent a part of a head, first tries to
    /// send it a response.
    fn read_timed_out(&mut self) -> io::Error {
        if self.input == Input::Head {
            self.metrics.count_dropped_connection("head");
            // No other response is in progress, so this one cannot interleave with it. If the system's send buffer has
            // no room, this response is lost.
            let _ = self.stream.try_write(&own_response::too_slow());
        }
        timed_out()
    }

    /// Limits the time of a write that waits for the peer; `poll` is what the write returned. There is one limit for
    /// each single write, and one for the entire response: otherwise a peer that reads a few bytes now and then could
    /// prolong the response forever.
    fn limit_write_time<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if let Some(within) = self.phase.take_response_limit() {
            self.response_deadline.arm(within);
        }
        if poll.is_ready() {
            self.write_deadline.disarm();
            return poll;
        }
        if !self.write_deadline.armed {
            self.write_deadline.arm(self.write_stall);
        }
        if self.write_deadline.is_over(cx) || self.response_deadline.is_over(cx) {
            self.metrics.count_dropped_connection("write");
            return Poll::Ready(Err(timed_out()));
        }
        Poll::Pending
    }

    /// Prepares a response in filrouge's error format if `first`, which the HTTP library is about to write, begins the
    /// library's own refusal of a head. Returns whether it did: then the caller must discard the library's bytes.
    fn replace_refusal(&mut self, first: &[u8]) -> bool {
        if !self.phase.is_waiting() {
            return false;
        }
        match own_response::replacement_of(first) {
            Some(replacement) => {
                self.metrics.count_refused_connection("head");
                self.phase.mark_unread();
                self.replacement = replacement;
                true
            }
            None => false,
        }
    }

    /// Writes the remaining bytes of the response that replaces a refusal, if there is one.
    fn poll_replacement(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.replacement.is_empty() {
            let poll = Pin::new(&mut self.stream).poll_write(cx, &self.replacement);
            let written = ready!(self.limit_write_time(cx, poll))?;
            let _ = self.replacement.split_to(written);
        }
        Poll::Ready(Ok(()))
    }

    /// Reads and discards what the peer still sends, until the peer closes its side or [`LINGER`] has passed.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.linger.armed {
            self.linger.arm(LINGER);
        }
        let mut scratch = [0; 16 << 10];
        // The number of reads per poll is limited, so that other connections run too.
        for _ in 0..16 {
            let mut buffer = ReadBuf::new(&mut scratch);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending if self.linger.is_over(cx) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
        if self.linger.is_over(cx) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let poll = Pin::new(&mut this.stream).poll_read(cx, buffer);
        this.update_read_deadline(buffer.filled().len() - before);
        if poll.is_pending() && this.read_deadline.is_over(cx) {
            return Poll::Ready(Err(this.read_timed_out()));
        }
        poll
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.replace_refusal(bytes) {
            return Poll::Ready(Ok(bytes.len()));
        }
        let poll = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.limit_write_time(cx, poll)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if slices
            .first()
            .is_some_and(|first| this.replace_refusal(first))
        {
            return Poll::Ready(Ok(slices.iter().map(|s| s.len()).sum()));
        }
        let poll = Pin::new(&mut this.stream).poll_write_vectored(cx, slices);
        this.limit_write_time(cx, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_replacement(cx))?;
        ready!(Pin::new(&mut this.stream).poll_flush(cx))?;
        this.phase.mark_flushed();
        if this.phase.is_waiting() {
            this.response_deadline.disarm();
        }
        // The next read may come long after the response was written, so the idle time starts now.
        this.update_read_deadline(0);
        if this.read_deadline.is_over(cx) {
            return Poll::Ready(Err(this.read_timed_out()));
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_replacement(cx))?;
        ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
        if this.phase.is_unread() {
            ready!(this.poll_linger(cx));
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::time::{sleep, timeout};

    use super::*;

    /// Writes an endless response to a peer that reads a little every 20 ms, with the time limit `within` for the
    /// entire response. Returns the error that ended the response, or `Err` if it still runs after 2 s.
    async fn endless_response(
        within: Option<Duration>,
    ) -> Result<io::Error, tokio::time::error::Elapsed> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let settings = LimitSettings {
            write_stall: Duration::from_secs(5),
            ..LimitSettings::default()
        };
        let phase = Phase::default();
        let mut socket = Socket::new(stream, phase.clone(), &settings, Arc::default());
        phase.begin();
        if let Some(time) = within {
            phase.set_response_limit(time);
        }
        let reader = tokio::spawn(async move {
            let mut buffer = vec![0; 256 << 10];
            while peer.read(&mut buffer).await.is_ok_and(|n| n > 0) {
                sleep(Duration::from_millis(20)).await;
            }
        });
        let writing = async {
            loop {
                if let Err(error) = socket.write_all(&[b' '; 1 << 16]).await {
                    return error;
                }
            }
        };
        let ended = timeout(Duration::from_secs(2), writing).await;
        reader.abort();
        ended
    }

    #[tokio::test]
    async fn a_complete_response_is_limited_in_time_and_a_stream_is_not() {
        let error = endless_response(Some(Duration::from_millis(300)))
            .await
            .unwrap();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(endless_response(None).await.is_err(), "it continues");
    }
}
