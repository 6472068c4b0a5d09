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

use super::own_answer;
use super::phase::Phase;
use crate::limits::LimitSettings;
use crate::metrics::Metrics;

/// How long a connection may be idle between two requests.
const IDLE: Duration = Duration::from_secs(75);
/// How long the socket reads and discards what a refused request still sends, so that its sender receives the
/// response: closing at once would make the system reset the connection.
const LINGER: Duration = Duration::from_secs(2);

/// A deadline whose timer is allocated once and then moved.
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

    /// Whether it is armed and has passed; otherwise the task is woken when it passes.
    fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        match &mut self.sleep {
            Some(sleep) if self.armed => sleep.as_mut().poll(cx).is_ready(),
            _ => false,
        }
    }
}

/// The input for which a read waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// Bytes of a request in progress: limited elsewhere.
    Request,
    /// The first byte of a head.
    Idle,
    /// The rest of a head.
    Head,
}

/// The stream of one connection.
pub(super) struct Socket {
    stream: TcpStream,
    phase: Phase,
    metrics: Arc<Metrics>,
    header_timeout: Duration,
    write_stall: Duration,
    reading: Reading,
    read_deadline: Deadline,
    write_deadline: Deadline,
    answer_deadline: Deadline,
    linger: Deadline,
    /// The response to write instead of the protocol's own refusal.
    own: Bytes,
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
            reading: Reading::Request,
            read_deadline: Deadline::default(),
            write_deadline: Deadline::default(),
            answer_deadline: Deadline::default(),
            linger: Deadline::default(),
            own: Bytes::new(),
        }
    }

    /// Updates the limits after a read that returned `bytes`, or none yet.
    fn watch_read(&mut self, bytes: usize) {
        if !self.phase.is_waiting() {
            self.reading = Reading::Request;
            self.read_deadline.disarm();
        } else if bytes > 0 {
            if self.reading != Reading::Head {
                self.reading = Reading::Head;
                self.read_deadline.arm(self.header_timeout);
            }
        } else if self.reading == Reading::Request {
            self.reading = Reading::Idle;
            self.read_deadline.arm(IDLE);
        }
    }

    /// The error for a peer that was silent for too long.
    fn give_up_reading(&mut self) -> io::Error {
        if self.reading == Reading::Head {
            self.metrics.connection_dropped("head");
            // No response is in progress, so this one cannot interleave with another; it is lost if the peer does not
            // read it.
            let _ = self.stream.try_write(&own_answer::too_slow());
        }
        timed_out()
    }

    /// Limits a write that waits for the peer: each single write, and the entire response, which a peer that reads a
    /// few bytes now and then could otherwise prolong forever.
    fn watch_write<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if let Some(within) = self.phase.take_out_within() {
            self.answer_deadline.arm(within);
        }
        if poll.is_ready() {
            self.write_deadline.disarm();
            return poll;
        }
        if !self.write_deadline.armed {
            self.write_deadline.arm(self.write_stall);
        }
        if self.write_deadline.is_over(cx) || self.answer_deadline.is_over(cx) {
            self.metrics.connection_dropped("write");
            return Poll::Ready(Err(timed_out()));
        }
        Poll::Pending
    }

    /// Replaces the protocol's own refusal by a response that callers can parse.
    fn replaces(&mut self, first: &[u8]) -> bool {
        if !self.phase.is_waiting() {
            return false;
        }
        match own_answer::replacement_of(first) {
            Some(own) => {
                self.metrics.connection_refused("head");
                self.phase.leave_unread();
                self.own = own;
                true
            }
            None => false,
        }
    }

    fn poll_own(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.own.is_empty() {
            let poll = Pin::new(&mut self.stream).poll_write(cx, &self.own);
            let written = ready!(self.watch_write(cx, poll))?;
            let _ = self.own.split_to(written);
        }
        Poll::Ready(Ok(()))
    }

    /// Reads and discards what the peer still sends, until it ends or [`LINGER`] has passed.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.linger.armed {
            self.linger.arm(LINGER);
        }
        let mut scratch = [0; 16 << 10];
        // A limit on the rounds lets other connections run.
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
        this.watch_read(buffer.filled().len() - before);
        if poll.is_pending() && this.read_deadline.is_over(cx) {
            return Poll::Ready(Err(this.give_up_reading()));
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
        if this.replaces(bytes) {
            return Poll::Ready(Ok(bytes.len()));
        }
        let poll = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.watch_write(cx, poll)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if slices.first().is_some_and(|first| this.replaces(first)) {
            return Poll::Ready(Ok(slices.iter().map(|s| s.len()).sum()));
        }
        let poll = Pin::new(&mut this.stream).poll_write_vectored(cx, slices);
        this.watch_write(cx, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_own(cx))?;
        ready!(Pin::new(&mut this.stream).poll_flush(cx))?;
        this.phase.flushed();
        if this.phase.is_waiting() {
            this.answer_deadline.disarm();
        }
        // The next read may come long after the response was written, so the idle time starts here.
        this.watch_read(0);
        if this.read_deadline.is_over(cx) {
            return Poll::Ready(Err(this.give_up_reading()));
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_own(cx))?;
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

    /// An endless response to a peer that reads a little every 20 ms.
    async fn answering(within: Option<Duration>) -> Result<io::Error, tokio::time::error::Elapsed> {
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
            phase.out_within(time);
        }
        let reader = tokio::spawn(async move {
            let mut piece = vec![0; 256 << 10];
            while peer.read(&mut piece).await.is_ok_and(|n| n > 0) {
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
        let error = answering(Some(Duration::from_millis(300))).await.unwrap();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(answering(None).await.is_err(), "it continues");
    }
}
