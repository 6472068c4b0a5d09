//! The end of an agent's stderr.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use filrouge_types::lock;
use tokio::io::AsyncReadExt as _;
use tokio::process::ChildStderr;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::text::Decoder;

/// How long to wait for the end of stderr: a process that left the agent's group may keep it open.
const STDERR_END_WAIT: Duration = Duration::from_secs(1);

/// Reads all of stderr and keeps its end. Dropping it stops reading.
#[derive(Debug)]
pub(super) struct StderrTail {
    tail: Arc<Mutex<VecDeque<u8>>>,
    reader: JoinSet<()>,
}

impl StderrTail {
    pub(super) fn start(stderr: Option<ChildStderr>, bytes: usize) -> Self {
        let tail = Arc::new(Mutex::new(VecDeque::new()));
        let read = stderr.map(|stderr| read_stderr(stderr, Arc::clone(&tail), bytes));
        let reader = JoinSet::from_iter(read);
        Self { tail, reader }
    }

    /// Waits for the end of stderr, at most [`STDERR_END_WAIT`], and returns the text that was kept.
    pub(super) async fn text(&mut self) -> String {
        // The reader ends when the pipe is closed. After a timeout, the text consists of the bytes that were read so
        // far.
        let _ = timeout(STDERR_END_WAIT, self.reader.join_next()).await;
        let tail = lock(&self.tail);
        let bytes: Vec<u8> = tail.iter().copied().collect();
        drop(tail);
        // The kept bytes may begin within a UTF-8 character.
        let start = bytes.iter().take_while(|b| **b & 0xc0 == 0x80).count();
        let mut decoder = Decoder::default();
        let mut text = decoder.push(bytes.get(start..).unwrap_or_default());
        text.push_str(&decoder.finish());
        text
    }
}

async fn read_stderr(mut stderr: ChildStderr, tail: Arc<Mutex<VecDeque<u8>>>, limit: usize) {
    let mut buffer = vec![0; 4 << 10];
    while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
        let mut tail = lock(&tail);
        tail.extend(buffer.get(..count).unwrap_or_default());
        let excess = tail.len().saturating_sub(limit);
        tail.drain(..excess);
    }
}
