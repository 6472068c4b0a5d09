//! The provider streams that this process records now. They are counted; a recording is flushed before another request
//! ends its turn; and a server that stops waits until they have ended.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use filrouge_types::{TurnId, lock};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use filrouge_http::Metrics;

/// How long a request that ends a turn waits until the turn's recording has written its pending content.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// A request to flush: the recording answers it through this channel once it has written its pending content.
pub(crate) type Flush = oneshot::Sender<()>;

/// All recordings of a server.
#[derive(Debug)]
pub(crate) struct Recordings {
    /// For each turn that is being recorded, the channel through which a flush is requested.
    flushes: Mutex<HashMap<TurnId, mpsc::Sender<Flush>>>,
    /// The number of recordings in progress.
    in_progress: watch::Sender<usize>,
    gauge: Gauge,
    ended: Family<Vec<(&'static str, String)>, Counter>,
    bytes: Counter,
    unknown_events: Counter,
    drafts: Counter,
}

impl Recordings {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let ended_help =
            "Provider streams that were recorded, by format and by the final state of their turns";
        let unknown_help = "Events of provider streams that no decoder knew";
        Self {
            flushes: Mutex::default(),
            in_progress: watch::Sender::new(0),
            gauge: metrics.register(
                "streams_under_way",
                "Provider streams that are being recorded",
            ),
            ended: metrics.register("streams", ended_help),
            bytes: metrics.register("stream_bytes", "Bytes of provider streams"),
            unknown_events: metrics.register("stream_unknown_events", unknown_help),
            drafts: metrics.register("stream_drafts", "Drafts that were written"),
        }
    }

    /// Registers the recording of a turn until the returned handle is dropped. The handle receives requests to flush.
    pub(crate) fn register(&self, turn: TurnId) -> FlushHandle<'_> {
        let (sender, requests) = mpsc::channel(4);
        lock(&self.flushes).insert(turn, sender.clone());
        FlushHandle {
            recordings: self,
            turn,
            sender,
            requests,
        }
    }

    /// Whether this process is recording a turn.
    pub(crate) fn is_recording(&self, turn: TurnId) -> bool {
        lock(&self.flushes).contains_key(&turn)
    }

    /// If this process records the turn, waits until the recording has written its pending content, at most
    /// [`FLUSH_WITHIN`]. A request calls this before it ends the turn, so that the turn includes the content.
    pub(crate) async fn flush(&self, turn: TurnId) {
        let Some(recording) = lock(&self.flushes).get(&turn).cloned() else {
            return;
        };
        let (sender, flushed) = oneshot::channel();
        let flushing = async {
            // A recording that has ended has no pending content.
            if recording.send(sender).await.is_ok() {
                let _ = flushed.await;
            }
        };
        if timeout(FLUSH_TIMEOUT, flushing).await.is_err() {
            tracing::warn!(turn_id = %turn, "a recording did not write its pending content in time");
        }
    }

    /// Counts a recording until the returned value is dropped.
    pub(crate) fn begin(&self) -> RecordingInProgress<'_> {
        self.in_progress.send_modify(|count| *count += 1);
        self.gauge.inc();
        RecordingInProgress {
            recordings: self,
            counted: (0, 0),
        }
    }

    /// Waits until no recording is in progress.
    pub(crate) async fn wait_until_ended(&self) {
        // This cannot fail: `self` owns the sender.
        let mut in_progress = self.in_progress.subscribe();
        let _ = in_progress.wait_for(|count| *count == 0).await;
    }
}

/// A registered recording that can be asked to flush.
pub(crate) struct FlushHandle<'r> {
    recordings: &'r Recordings,
    turn: TurnId,
    sender: mpsc::Sender<Flush>,
    requests: mpsc::Receiver<Flush>,
}

impl FlushHandle<'_> {
    /// Waits for a request to flush.
    pub(crate) async fn flush_requested(&mut self) -> Flush {
        match self.requests.recv().await {
            Some(flush) => flush,
            // This happens only when all senders are dropped, which is impossible: `self` owns one.
            None => std::future::pending().await,
        }
    }
}

impl Drop for FlushHandle<'_> {
    fn drop(&mut self) {
        let mut flushes = lock(&self.recordings.flushes);
        // The turn's next recording may already have replaced this one.
        let is_own = |sender: &mpsc::Sender<Flush>| sender.same_channel(&self.sender);
        if flushes.get(&self.turn).is_some_and(is_own) {
            flushes.remove(&self.turn);
        }
    }
}

/// A recording in progress, for the counters.
pub(crate) struct RecordingInProgress<'r> {
    recordings: &'r Recordings,
    /// The numbers of unknown events and drafts that were added to the counters so far.
    counted: (u64, u64),
}

impl RecordingInProgress<'_> {
    /// Counts received bytes.
    pub(crate) fn count_bytes(&self, bytes: usize) {
        self.recordings.bytes.inc_by(bytes as u64);
    }

    /// Updates the counters. `current` has the numbers of unknown events and drafts of this recording so far.
    pub(crate) fn update_counts(&mut self, current: (u64, u64)) {
        let previous = std::mem::replace(&mut self.counted, current);
        let (unknown_events, drafts) = (&self.recordings.unknown_events, &self.recordings.drafts);
        unknown_events.inc_by(current.0.saturating_sub(previous.0));
        drafts.inc_by(current.1.saturating_sub(previous.1));
    }

    /// Counts the end of the recording. `outcome` is the turn's status, the code of the lease error that ended the
    /// recording, or `lost` after any other failure.
    pub(crate) fn count_end(&self, format: &str, outcome: &str) {
        let labels = [("format", format), ("outcome", outcome)];
        let labels = labels.map(|(name, value)| (name, value.to_owned()));
        self.recordings.ended.get_or_create(&labels.into()).inc();
    }
}

impl Drop for RecordingInProgress<'_> {
    fn drop(&mut self) {
        self.recordings.gauge.dec();
        self.recordings.in_progress.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_turns_next_recording_is_flushed_while_the_previous_one_ends() {
        let recordings = Recordings::new(&Metrics::default());
        let turn = TurnId::from_derived([1; 16]);
        let previous = recordings.register(turn);
        let mut next = recordings.register(turn);
        drop(previous);
        assert!(recordings.is_recording(turn));
        let flushed = async { next.flush_requested().await.send(()).is_ok() };
        let ((), answered) = tokio::join!(recordings.flush(turn), flushed);
        assert!(answered);
        drop(next);
        assert!(!recordings.is_recording(turn));
        recordings.flush(turn).await;
    }
}
