//! The provider streams that are being recorded: counted, asked to write what they hold before somebody ends their
//! turns, and waited for when the server stops.

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

/// How long a recording is waited for that is to write what it holds.
const FLUSH_WITHIN: Duration = Duration::from_secs(2);

/// Answered once the recording has written what it holds.
pub(crate) type Flush = oneshot::Sender<()>;

/// All streams of a server.
#[derive(Debug)]
pub(crate) struct Recordings {
    /// Where each turn's recording is asked to write.
    flushes: Mutex<HashMap<TurnId, mpsc::Sender<Flush>>>,
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
            "Provider streams that were recorded, by format and by what their turns were then";
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
        // Each change of the map is one call.
        self.flushes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The turn is recorded from now on: what is given tells when it is to write what it holds.
    pub(crate) fn listen(&self, turn: TurnId) -> Listening<'_> {
        let (sender, asked) = mpsc::channel(4);
        self.flushes().insert(turn, sender.clone());
        Listening {
            all: self,
            turn,
            sender,
            asked,
        }
    }

    /// Whether a turn is being recorded here.
    pub(crate) fn records(&self, turn: TurnId) -> bool {
        self.flushes().contains_key(&turn)
    }

    /// Lets the recording of a turn, if there is one here, write what it holds: whoever ends the turn keeps that.
    pub(crate) async fn flush(&self, turn: TurnId) {
        let Some(recording) = self.flushes().get(&turn).cloned() else {
            return;
        };
        let (done, written) = oneshot::channel();
        let asking = async {
            // One that has ended meanwhile holds nothing.
            if recording.send(done).await.is_ok() {
                let _ = written.await;
            }
        };
        if timeout(FLUSH_WITHIN, asking).await.is_err() {
            tracing::warn!(turn_id = %turn, "a recording did not write what it holds in time");
        }
    }

    /// One more, until what is given is dropped.
    pub(crate) fn begin(&self) -> UnderWay<'_> {
        self.under_way.send_modify(|count| *count += 1);
        self.gauge.inc();
        UnderWay {
            all: self,
            counted: (0, 0),
        }
    }

    /// Waits until there is none.
    pub(crate) async fn ended(&self) {
        // The sender is here.
        let _ = self
            .under_way
            .subscribe()
            .wait_for(|count| *count == 0)
            .await;
    }
}

/// A recording that can be asked to write.
pub(crate) struct Listening<'r> {
    all: &'r Recordings,
    turn: TurnId,
    sender: mpsc::Sender<Flush>,
    asked: mpsc::Receiver<Flush>,
}

impl Listening<'_> {
    /// Waits until it is asked.
    pub(crate) async fn asked(&mut self) -> Flush {
        match self.asked.recv().await {
            Some(flush) => flush,
            // Nobody asks any more.
            None => std::future::pending().await,
        }
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        let mut flushes = self.all.flushes();
        // The turn's next recording may have begun already.
        let own = |sender: &mpsc::Sender<Flush>| sender.same_channel(&self.sender);
        if flushes.get(&self.turn).is_some_and(own) {
            flushes.remove(&self.turn);
        }
    }
}

/// A stream that is being recorded.
pub(crate) struct UnderWay<'r> {
    all: &'r Recordings,
    counted: (u64, u64),
}

impl UnderWay<'_> {
    /// So many bytes have come.
    pub(crate) fn received(&self, bytes: usize) {
        self.all.bytes.inc_by(bytes as u64);
    }

    /// It has brought so many unknown events and drafts so far.
    pub(crate) fn counts(&mut self, now: (u64, u64)) {
        let before = std::mem::replace(&mut self.counted, now);
        let (unknown, drafts) = (&self.all.unknown_events, &self.all.drafts);
        unknown.inc_by(now.0.saturating_sub(before.0));
        drafts.inc_by(now.1.saturating_sub(before.1));
    }

    /// It has ended. The outcome is what its turn was then, the code of the lease that refused it, or `lost`.
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
    async fn a_turns_next_recording_is_asked_while_the_one_before_still_ends() {
        let all = Recordings::new(&Metrics::default());
        let turn = TurnId::from_derived([1; 16]);
        let before = all.listen(turn);
        let mut next = all.listen(turn);
        drop(before);
        assert!(all.records(turn));
        let asked = async { next.asked().await.send(()).is_ok() };
        let ((), answered) = tokio::join!(all.flush(turn), asked);
        assert!(answered);
        drop(next);
        assert!(!all.records(turn));
        all.flush(turn).await;
    }
}
