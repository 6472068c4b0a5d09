//! Lines of an input, each looked at before the SDK reads it. What it would leave out without a word is told instead.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::faults::{Fault, look};

/// So many bytes are read at once.
const CHUNK: usize = 16 * 1024;

/// An input of which only well-formed lines are read on. The end of the input ends a line, too.
pub(crate) struct Lines<R> {
    input: R,
    chunk: Box<[u8]>,
    most: usize,
    /// The line that is being read.
    line: Vec<u8>,
    /// What of it was too long; its end is waited for.
    too_long: bool,
    /// What is handed on, and how much of it was.
    good: Vec<u8>,
    given: usize,
    ended: bool,
    faults: UnboundedSender<Fault>,
}

impl<R> Lines<R> {
    /// Lines of at most `most` bytes, and where faults are told.
    pub(crate) fn new(input: R, most: usize) -> (Self, UnboundedReceiver<Fault>) {
        let (faults, told) = unbounded_channel();
        let lines = Self {
            input,
            chunk: vec![0; CHUNK].into(),
            most,
            line: Vec::new(),
            too_long: false,
            good: Vec::new(),
            given: 0,
            ended: false,
            faults,
        };
        (lines, told)
    }

    fn take(&mut self, read: usize) {
        let chunk = std::mem::take(&mut self.chunk);
        let mut rest = chunk.get(..read).unwrap_or_default();
        while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
            let (head, tail) = rest.split_at(at);
            self.grow(head);
            self.end_line();
            rest = tail.get(1..).unwrap_or_default();
        }
        self.grow(rest);
        self.chunk = chunk;
    }

    fn grow(&mut self, more: &[u8]) {
        if self.line.len() + more.len() > self.most {
            self.line = Vec::new();
            self.too_long = true;
        }
        if !self.too_long {
            self.line.extend_from_slice(more);
        }
    }

    fn end_line(&mut self) {
        let mut line = std::mem::take(&mut self.line);
        let fault = if std::mem::take(&mut self.too_long) {
            let most = self.most;
            Some(Fault::unread(format!("a message has at most {most} bytes")))
        } else if line.trim_ascii().is_empty() {
            return;
        } else {
            look(&line).err()
        };
        match fault {
            // Where nobody listens any more, nobody waits either.
            Some(fault) => drop(self.faults.send(fault)),
            None => {
                line.push(b'\n');
                self.good.append(&mut line);
            }
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Lines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            let left = this.good.get(this.given..).unwrap_or_default();
            if !left.is_empty() {
                let piece = left.get(..left.len().min(into.remaining()));
                let piece = piece.unwrap_or_default();
                into.put_slice(piece);
                this.given += piece.len();
                return Poll::Ready(Ok(()));
            }
            this.good.clear();
            this.given = 0;
            if this.ended {
                return Poll::Ready(Ok(()));
            }
            let mut chunk = ReadBuf::new(&mut this.chunk);
            ready!(Pin::new(&mut this.input).poll_read(context, &mut chunk))?;
            let read = chunk.filled().len();
            if read == 0 {
                this.ended = true;
                this.end_line();
            } else {
                this.take(read);
            }
        }
    }
}
