//! The queue of writes to a durable store. One thread takes the writes from it, applies as many as have collected in
//! one transaction with one flush, and then answers their callers.

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use filrouge_types::{ErrorCode, Failure, lock};
use tokio::sync::{mpsc, oneshot};

use crate::command::{Command, Outcome, Write};
use crate::fair_slots::{FairSlots, Slot, SlotBounds, WorkSize};
use crate::keyring::{Entropy, OsEntropy};
use crate::lane::Lane;
use crate::read::in_session;

mod group;
mod pending;

pub use group::{Aborted, GroupOutcome, GroupTx, apply_group, is_store_failure};
pub use pending::{BusyLanes, PendingWrites};

/// The maximum number of writes in the queue, and of those that a writer has taken from it. One caller may have as many
/// writes in both; its further writes wait for its own, those of other callers for their turn. Writes that wait for a
/// busy lane do not count, so that they do not delay those of other lanes.
const QUEUE_MAX: usize = 1024;
/// The maximum number of writes per transaction. It limits how long a write waits for the others.
const GROUP_MAX: usize = 256;
/// A group accepts no further write once its writes have this many bytes.
const GROUP_BYTES: usize = 32 << 20;

/// A write, and the channel for its answer.
pub struct Request {
    /// The write.
    pub command: Command,
    /// The lane that the write changes. [`PendingWrites`] sets it when it takes the write from the queue.
    pub lane: Lane,
    /// Whether the write needs a transaction of its own, because it was one of several whose transaction failed.
    alone: bool,
    /// When a transaction first left the write pending because its lane was not free.
    waits_since: Option<Instant>,
    reply: oneshot::Sender<Result<Outcome, Failure>>,
    /// Released when the write is answered, or when it waits for its lane.
    slot: Option<Slot>,
}

impl Request {
    /// How long the write has waited for its lane.
    pub fn waited(&self) -> Duration {
        let since = self.waits_since;
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Answers the caller.
    fn answer(self, outcome: Result<Outcome, Failure>) {
        if self.reply.send(outcome).is_err() {
            // A committed write remains, and a retry with the same key finds it.
            tracing::debug!("the caller of this write has disconnected");
        }
    }

    /// Answers the caller with the failure of the write's transaction.
    fn refuse(self, failure: &Failure) {
        let refusal = Err(failure.clone());
        let refusal = match self.command.write.session_id() {
            Some(id) => in_session(id, refusal),
            None => refusal,
        };
        self.answer(refusal);
    }
}

/// The receiving end of a queue, for the writer's thread.
pub type Requests = mpsc::Receiver<Request>;

/// The sending end of a queue, and the writer's thread.
pub struct WriteQueue {
    /// `None` once the queue is closed, and for a store that is only read.
    sender: Mutex<Option<mpsc::Sender<Request>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    entropy: Arc<dyn Entropy>,
    slots: FairSlots,
}

fn slots() -> FairSlots {
    FairSlots::new(SlotBounds {
        total: 2 * QUEUE_MAX,
        share: QUEUE_MAX,
        reserve: 0,
    })
}

fn unavailable(what: &str) -> Failure {
    Failure::new(ErrorCode::StoreUnavailable, what)
}

/// The failure of an operation on a closed store.
pub fn closed_failure() -> Failure {
    unavailable("the store is closed").with_hint("the server is stopping; try again soon")
}

impl WriteQueue {
    /// Starts a writer's thread, which runs `work` until the queue is closed and empty.
    ///
    /// # Errors
    /// `store_unavailable` if the thread cannot be started.
    pub fn start(
        entropy: Arc<dyn Entropy>,
        work: impl FnOnce(Requests) + Send + 'static,
    ) -> Result<Self, Failure> {
        let (sender, requests) = mpsc::channel(QUEUE_MAX);
        let thread = std::thread::Builder::new().name("filrouge-writer".to_owned());
        let thread = thread.spawn(move || work(requests));
        let thread = thread.map_err(|e| unavailable(&format!("no thread for the writer: {e}")))?;
        Ok(Self {
            sender: Mutex::new(Some(sender)),
            thread: Mutex::new(Some(thread)),
            entropy,
            slots: slots(),
        })
    }

    /// A queue that accepts no writes, for a store that is only read.
    #[must_use]
    pub fn refusing() -> Self {
        Self {
            sender: Mutex::new(None),
            thread: Mutex::new(None),
            entropy: Arc::new(OsEntropy),
            slots: slots(),
        }
    }

    fn sender(&self) -> Option<mpsc::Sender<Request>> {
        lock(&self.sender).clone()
    }

    /// Queues a write, and waits until it is committed or refused.
    ///
    /// # Errors
    /// The refusals of the rules, and failures of the store.
    pub async fn write(&self, command: Command) -> Result<Outcome, Failure> {
        if let Write::Close(close) = &command.write {
            close.pack(self.entropy.as_ref())?;
        }
        let (reply, answer) = oneshot::channel();
        let caller = command.scope.caller();
        let slot = self.slots.acquire(&caller, WorkSize::Small).await;
        let sender = self.sender().ok_or_else(closed_failure)?;
        let request = Request {
            command,
            lane: Lane::FIRST,
            alone: false,
            waits_since: None,
            reply,
            slot,
        };
        let sent = sender.send(request).await;
        sent.map_err(|_| closed_failure())?;
        drop(sender);
        answer.await.map_err(|_| {
            unavailable("the writer stopped before it answered")
                .with_hint("retry with the same key: a committed write is not repeated")
        })?
    }

    /// The number of waiting writes.
    pub fn queued(&self) -> u64 {
        let queued = self.sender().map_or(0, |s| QUEUE_MAX - s.capacity());
        queued as u64
    }

    /// Closes the queue. Returns the writer's thread, which ends after the queued writes; `None` if it was closed
    /// before.
    fn stop(&self) -> Option<JoinHandle<()>> {
        lock(&self.sender).take();
        lock(&self.thread).take()
    }

    /// Closes the queue, and waits for the queued writes.
    pub async fn close(&self) {
        if let Some(thread) = self.stop() {
            let joined = tokio::task::spawn_blocking(move || thread.join()).await;
            if !matches!(joined, Ok(Ok(()))) {
                tracing::error!("the writer thread ended by a panic");
            }
        }
    }
}

impl Drop for WriteQueue {
    fn drop(&mut self) {
        if let Some(thread) = self.stop()
            && thread.join().is_err()
        {
            tracing::error!("the writer thread ended by a panic");
        }
    }
}

/// The outcome of each write of a group, or the reason why its transaction was rolled back.
pub type GroupResult = Result<Vec<Result<Outcome, Failure>>, Aborted>;

/// The size of a group so far.
#[derive(Default)]
struct GroupSize {
    writes: usize,
    bytes: usize,
}

impl GroupSize {
    /// Whether the group accepts another write.
    const fn has_room(&self) -> bool {
        self.writes < GROUP_MAX && self.bytes < GROUP_BYTES
    }

    fn add(&mut self, request: &Request) {
        self.writes += 1;
        self.bytes += request.command.write.content_len();
    }
}

/// Answers the requests with their outcomes.
fn answer_all(requests: Vec<Request>, outcomes: Vec<Result<Outcome, Failure>>) {
    for (request, outcome) in requests.into_iter().zip(outcomes) {
        request.answer(outcome);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc as blocking};

    use filrouge_types::{IdentityId, TenantId};
    use tokio::task::{JoinSet, yield_now};

    use super::*;
    use crate::command::{PutNote, Scope, Viewer};

    fn write_of(name: &str) -> Command {
        let identity = IdentityId::new(name).unwrap();
        let note = PutNote {
            name: name.into(),
            expected: 0,
            value: Vec::new(),
        };
        Command {
            scope: Scope::new(TenantId::default_tenant(), Viewer::EndUser(Some(identity))),
            write: Write::PutNote(note),
        }
    }

    #[tokio::test]
    async fn a_caller_with_many_writes_delays_no_other() {
        let (open, opened) = blocking::channel::<()>();
        let (written, order) = blocking::channel();
        let work = move |mut requests: Requests| {
            opened.recv().ok();
            while let Some(request) = requests.blocking_recv() {
                written.send(request.command.scope.viewer.clone()).ok();
                request.answer(Ok(Outcome::Note(true)));
            }
        };
        let queue = Arc::new(WriteQueue::start(Arc::new(OsEntropy), work).unwrap());
        let mut tasks = JoinSet::new();
        let mut write = |name: &'static str| {
            let queue = queue.clone();
            tasks.spawn(async move { queue.write(write_of(name)).await.unwrap() });
        };
        for _ in 0..3 * QUEUE_MAX {
            write("ann");
        }
        write("bob");
        // Her share, and his write.
        while queue.slots.held() < QUEUE_MAX + 1 {
            yield_now().await;
        }
        open.send(()).unwrap();
        tasks.join_all().await;
        let bob = write_of("bob").scope.viewer;
        let position = order.try_iter().position(|viewer| viewer == bob);
        assert!(position.unwrap() <= QUEUE_MAX, "{position:?}");
        queue.close().await;
    }
}
