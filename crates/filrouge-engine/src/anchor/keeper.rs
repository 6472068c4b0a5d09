//! Threads that record a ledger's newest position while it commits.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use filrouge_store::{Ledger, Position};
use filrouge_types::{ErrorCode, Failure, lock};

use super::{Anchor, AnchorState, WitnessFile};

/// The interval at which the anchor is advanced, and so about the time by which it lags behind the newest durable
/// commit.
const ADVANCE_EVERY: Duration = Duration::from_millis(50);

/// A thread that records positions at an interval.
///
/// While the thread runs, it skips commits that contain only drafts. When it stops, it records the newest commits of
/// any kind.
struct Recorder {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Why the newest attempt to record a position failed; `None` if it succeeded.
    last_failure: Arc<Mutex<Option<String>>>,
}

impl Recorder {
    /// Starts the thread. It passes `record` the last recorded position and the one to record.
    fn start(
        name: &'static str,
        interval: Duration,
        ledger: Arc<dyn Ledger>,
        record: impl Fn(&Position, &Position) -> Result<(), Failure> + Send + 'static,
    ) -> Result<Self, Failure> {
        let (stop, stopped) = mpsc::channel();
        let last_failure = Arc::new(Mutex::new(None));
        let thread_failure = last_failure.clone();
        let run = move || {
            let mut last_recorded: Option<Position> = None;
            loop {
                let is_stopping = stopped.recv_timeout(interval) != Err(RecvTimeoutError::Timeout);
                let position = if is_stopping {
                    ledger.position()
                } else {
                    ledger.anchor_position()
                };
                if last_recorded.as_ref() != Some(&position) {
                    let before = last_recorded.clone().unwrap_or_default();
                    let result = record(&before, &position);
                    let mut failure = lock(&thread_failure);
                    match result {
                        Ok(()) => {
                            last_recorded = Some(position);
                            *failure = None;
                        }
                        Err(error) => {
                            if failure.is_none() {
                                tracing::error!(%error, "the {name} cannot be advanced");
                            }
                            *failure = Some(error.detail);
                        }
                    }
                }
                if is_stopping {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name(format!("filrouge-{name}"));
        let thread = thread.spawn(run).map_err(|e| {
            ErrorCode::StoreUnavailable.failure(format!("no thread for the {name}: {e}"))
        })?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
            last_failure,
        })
    }

    fn failure(&self) -> Option<String> {
        lock(&self.last_failure).clone()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("a thread that records the store's position panicked");
        }
    }
}

/// Advances an anchor, and a witness file if there is one, while a ledger commits, until the keeper is dropped.
pub struct AnchorKeeper {
    anchor: Recorder,
    kept: Anchor,
    ledger: Arc<dyn Ledger>,
    witness: Option<Recorder>,
    /// Why the anchor cannot prove that the store was not rolled back before the anchor was created.
    unconfirmed_reason: Option<String>,
}

impl AnchorKeeper {
    /// Starts a thread that advances `anchor` as `ledger` commits.
    ///
    /// # Errors
    /// `store_unavailable` when no thread can be started.
    pub fn start(anchor: Anchor, ledger: Arc<dyn Ledger>) -> Result<Self, Failure> {
        let kept = anchor.clone();
        let advance = move |_: &Position, position: &Position| anchor.advance(position);
        Ok(Self {
            anchor: Recorder::start("anchor", ADVANCE_EVERY, ledger.clone(), advance)?,
            kept,
            ledger,
            witness: None,
            unconfirmed_reason: None,
        })
    }

    /// Also appends statements to `witness` at this `interval`: one for each lane of `ledger` that has new commits
    /// since its previous statement.
    ///
    /// # Errors
    /// `store_unavailable` when no thread can be started.
    pub fn with_witness(
        mut self,
        witness: WitnessFile,
        interval: Duration,
        ledger: Arc<dyn Ledger>,
    ) -> Result<Self, Failure> {
        let append = move |before: &Position, position: &Position| witness.append(before, position);
        self.witness = Some(Recorder::start("witness file", interval, ledger, append)?);
        Ok(self)
    }

    /// Sets why the anchor cannot prove that the store was not rolled back before the anchor was created; `None` if it
    /// can, or if an operator has accepted the store.
    #[must_use]
    pub fn with_unconfirmed_reason(mut self, reason: Option<String>) -> Self {
        self.unconfirmed_reason = reason;
        self
    }

    /// Compares each lane of the store, as it is now, with the anchor.
    ///
    /// # Errors
    /// As [`Anchor::check`].
    pub async fn check(&self) -> Result<AnchorState, Failure> {
        self.kept.check(self.ledger.as_ref()).await
    }

    /// Why the newest attempt to advance the anchor or the witness file failed, or why the anchor cannot exclude an
    /// earlier rollback ([`Self::with_unconfirmed_reason`]); `None` if neither applies.
    pub fn failure(&self) -> Option<String> {
        let witness = || self.witness.as_ref().and_then(Recorder::failure);
        self.anchor
            .failure()
            .or_else(witness)
            .or_else(|| self.unconfirmed_reason.clone())
    }
}
