//! The provider streams that this process records now. They are counted; a recording is flushed before another request
//! ends its turn; and a server that stops waits until they have ended.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use filrouge_types::TurnId;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use filrouge_http::Metrics;

/// How long a request that ends a turn waits until the turn's recording has written its pending content.
const FLUSH_WITHIN: Duration = Duration::from_secs(2);

/// A request to flush: the recording sends through it once it has written its pending content.
pub(crate) type Flush = oneshot::Sender<()>;

/// All recordings of a server.
#[derive(Debug)]
pub(crate) struct Recordings {
    /// For each turn that is being recorded, the channel through which a flush is requested.
    flushes: Mutex<HashMap<TurnId, mpsc::Sender<Flush>>>,
    /// The number of recordings in progress.
    under_way: watch::Sender<usize>,
    gauge: Gauge,
    ended: Family<Vec<(&'static str, String)>, Counter>,
    bytes: Counter,
    unknown_events: Counter,
    drafts: Counter,
}

impl Recordings {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let ended =
            "Provider streams that were recorded, by format and by the final state of their turns";
        let unknown = "Events of provider streams that no decoder knew";
        Self {
            flushes: Mutex::default(),
            under_way: watch::Sender::new(0),
            gauge: metrics.put(
                "streams_under_way",
                "Provider streams that are being recorded",
            ),
            ended: metrics.put("streams", ended),
            bytes: metrics.put("stream_bytes", "Bytes of provider streams"),
            unknown_events: metrics.put("stream_unknown_events", unknown),
            drafts: metrics.put("stream_drafts", "Drafts that were written"),
        }
    }

    fn flushes(&self) -> MutexGuard<'_, HashMap<TurnId, mpsc::Sender<Flush>>> {
        // Each change of the map is a single call, so the map is valid even if a thread panicked.
        self.flushes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers the recording of a turn until the returned handle is dropped. The handle receives requests to flush.
    pub(crate) fn register(&self, turn: TurnId) -> Registered<'_> {
        let (sender, requests) = mpsc::channel(4);
        self.flushes().insert(turn, sender.clone());
        Registered {
            all: self,
            turn,
            sender,
            requests,
        }
    }

    /// Whether this process is recording a turn.
    pub(crate) fn records(&self, turn: TurnId) -> bool {
        self.flushes().contains_key(&turn)
    }

    /// If this process records the turn, waits until the recording has written its pending content, at most
    /// [`FLUSH_WITHIN`]. A request calls this before it ends the turn, so that the turn includes the content.
    pub(crate) async fn flush(&self, turn: TurnId) {
        let Some(recording) = self.flushes().get(&turn).cloned() else {
            return;
        };
        let (done, written) = oneshot::channel();
        let flushing = async {
            // A recording that has ended has no pending content.
            if recording.send(done).await.is_ok() {
                let _ = written.await;
            }
        };
        if timeout(FLUSH_WITHIN, flushing).await.is_err() {
            tracing::warn!(turn_id = %turn, "a recording did not write its pending content in time");
        }
    }

    /// Counts a recording until the returned value is dropped.
    pub(crate) fn begin(&self) -> UnderWay<'_> {
        self.under_way.send_modify(|count| *count += 1);
        self.gauge.inc();
        UnderWay {
            all: self,
            counted: (0, 0),
        }
    }

    /// Waits until no recording is in progress.
    pub(crate) async fn ended(&self) {
        // This cannot fail: `self` owns the sender.
        let _ = self
            .under_way
            .subscribe()
            .wait_for(|count| *count == 0)
            .await;
    }
}

/// A registered recording that can be asked to flush.
pub(crate) struct Registered<'r> {
    all: &'r Recordings,
    turn: TurnId,
    sender: mpsc::Sender<Flush>,
    requests: mpsc::Receiver<Flush>,
}

impl Registered<'_> {
    /// Waits for a request to flush.
    pub(crate) async fn flush_requested(&mut self) -> Flush {
        match self.requests.recv().await {
            Some(flush) => flush,
            // This happens only when all senders are dropped, which is impossible: `self` owns one.
            None => std::future::pending().await,
        }
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        let mut flushes = self.all.flushes();
        // The turn's next recording may already have replaced this one.
        let own = |sender: &mpsc::Sender<Flush>| sender.same_channel(&self.sender);
        if flushes.get(&self.turn).is_some_and(own) {
            flushes.remove(&self.turn);
        }
    }
}

/// A recording in progress, for the counters.
pub(crate) struct UnderWay<'r> {
    all: &'r Recordings,
    /// The numbers of unknown events and drafts that were added to the counters so far.
    counted: (u64, u64),
}

impl UnderWay<'_> {
    /// Counts received bytes.
    pub(crate) fn received(&self, bytes: usize) {
        self.all.bytes.inc_by(bytes as u64);
    }

    /// Updates the counters. `now` has the numbers of unknown events and drafts of this recording so far.
    pub(crate) fn counts(&mut self, now: (u64, u64)) {
        let before = std::mem::replace(&mut self.counted, now);
        let (unknown, drafts) = (&self.all.unknown_events, &self.all.drafts);
        unknown.inc_by(now.0.saturating_sub(before.0));
        drafts.inc_by(now.1.saturating_sub(before.1));
    }

    /// Counts the end of the recording. `outcome` is the turn's status, the code of the lease error that ended the
    /// recording, or `lost` after any other failure.
    pub(crate) fn ended(&self, format: &str, outcome: &str) {
        let labels = [("format", format), ("outcome", outcome)];
        let labels = labels.map(|(name, value)| (name, value.to_owned()));
        self.all.ended.get_or_create(&labels.into()).inc();
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.all.gauge.dec();
        self.all.under_way.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_turns_next_recording_is_flushed_while_the_previous_one_ends() {
        let all = Recordings::new(&Metrics::default());
        let turn = TurnId::from_derived([1; 16]);
        let before = all.register(turn);
        let mut next = all.register(turn);
        drop(before);
        assert!(all.records(turn));
        let flushed = async { next.flush_requested().await.send(()).is_ok() };
        let ((), answered) = tokio::join!(all.flush(turn), flushed);
        assert!(answered);
        drop(next);
        assert!(!all.records(turn));
        all.flush(turn).await;
    }
}
