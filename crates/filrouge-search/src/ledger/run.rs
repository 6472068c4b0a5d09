//! Runs a feed in the background of a server: in small steps, with pauses during which the machine serves callers.

use std::pin::pin;
use std::time::{Duration, Instant};

use filrouge_types::Failure;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::feed::{FeedStep, LedgerFeed, StepLimits};

/// The minimum pause after the first new commit, so that the commits of this time are examined together.
const MIN_COMMIT_PAUSE: Duration = Duration::from_millis(100);
/// A pause is this many times as long as the step before it: `BUSY_PAUSE_FACTOR` times while commits arrive, because
/// these have priority, otherwise `PAUSE_FACTOR` times.
const PAUSE_FACTOR: u32 = 4;
const BUSY_PAUSE_FACTOR: u32 = 24;
/// The shortest and the longest pause between two steps.
const PAUSE_RANGE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));
/// The pause after a failure. Also the longest pause without a commit: other processes may have left work.
const CHECK_EVERY: Duration = Duration::from_secs(2);
/// The maximum time for which a stop waits for the step that is running.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// The approximate limits of one step.
const STEP: StepLimits = StepLimits {
    bytes: 2 << 20,
    time: Duration::from_millis(40),
};

impl LedgerFeed {
    /// Feeds the index until `stopping` becomes true: follows the ledger's commits, and runs steps of maintenance and
    /// embedding while no commit arrives. Retries when the ledger or the index does not answer.
    pub async fn run(&self, mut stopping: watch::Receiver<bool>) {
        let mut commits = self.commits();
        let mut failing = false;
        while !*stopping.borrow() {
            commits.borrow_and_update();
            let began = Instant::now();
            let Some(step) = unless_stopped(self.step(STEP), &mut stopping).await else {
                return;
            };
            if let Err(error) = &step
                && !failing
            {
                tracing::warn!(%error, "the search index cannot be kept up to date with the ledger");
            }
            if step.is_ok() && failing {
                tracing::info!("the search index is kept up to date again");
            }
            failing = step.is_err();
            let took = began.elapsed();
            if matches!(step, Ok(FeedStep::Done)) {
                let stop = stopping.clone();
                if unless_stopped(self.run_maintenance(&commits, &stop), &mut stopping)
                    .await
                    .is_none()
                {
                    return;
                }
            }
            tokio::select! {
                () = self.wait_for_next_step(&step, took, &mut commits) => {}
                () = wait_for_stop(&mut stopping) => return,
            }
        }
    }

    /// Waits until the next step is due.
    async fn wait_for_next_step(
        &self,
        step: &Result<FeedStep, Failure>,
        took: Duration,
        commits: &mut watch::Receiver<u64>,
    ) {
        match step {
            Ok(FeedStep::More) => sleep(pause(took, commits)).await,
            Err(_) => sleep(CHECK_EVERY).await,
            Ok(FeedStep::Done) => tokio::select! {
                changed = commits.changed() => match changed {
                    Ok(()) => sleep((took * BUSY_PAUSE_FACTOR).clamp(MIN_COMMIT_PAUSE, PAUSE_RANGE.1)).await,
                    // The ledger was dropped: no more commits can arrive.
                    Err(_) => std::future::pending::<()>().await,
                },
                () = sleep(CHECK_EVERY) => {}
            },
        }
    }

    /// Runs small steps of maintenance and embedding until no work is left, a commit arrives, a step fails, or the feed
    /// is stopped.
    async fn run_maintenance(
        &self,
        commits: &watch::Receiver<u64>,
        stopping: &watch::Receiver<bool>,
    ) {
        while !*stopping.borrow() && commits.has_changed().is_ok_and(|changed| !changed) {
            let began = Instant::now();
            let more = match self.call_index(|index| index.tidy()).await {
                Ok(false) => self.embed().await,
                more => more,
            };
            match more {
                Ok(true) => sleep(pause(began.elapsed(), commits)).await,
                Ok(false) => return,
                Err(error) => {
                    tracing::warn!(%error, "the search index cannot be tidied up");
                    return;
                }
            }
        }
    }
}

/// Returns the pause after a step that took `took`.
fn pause(took: Duration, commits: &watch::Receiver<u64>) -> Duration {
    let factor = match commits.has_changed() {
        Ok(true) => BUSY_PAUSE_FACTOR,
        Ok(false) | Err(_) => PAUSE_FACTOR,
    };
    (took * factor).clamp(PAUSE_RANGE.0, PAUSE_RANGE.1)
}

/// Returns the result of `work`; `None` if the feed is stopped meanwhile. After a stop, it still waits up to
/// [`STOP_TIMEOUT`] until `work` ends, because the blocking thread of `work` needs the runtime.
async fn unless_stopped<T>(
    work: impl Future<Output = T>,
    stopping: &mut watch::Receiver<bool>,
) -> Option<T> {
    let mut work = pin!(work);
    tokio::select! {
        done = &mut work => return Some(done),
        () = wait_for_stop(stopping) => {}
    }
    let _ = timeout(STOP_TIMEOUT, work).await;
    None
}

/// Waits until `stopping` becomes true.
async fn wait_for_stop(stopping: &mut watch::Receiver<bool>) {
    if stopping.wait_for(|stopping| *stopping).await.is_err() {
        // The sender was dropped, so the feed can no longer be stopped.
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_stop_waits_for_the_running_step() {
        let ended = Arc::new(AtomicBool::new(false));
        let (stop, mut stopping) = watch::channel(false);
        let (begun, ends) = (stop, ended.clone());
        let work = tokio::task::spawn_blocking(move || {
            begun.send_replace(true);
            std::thread::sleep(Duration::from_millis(300));
            ends.store(true, Ordering::SeqCst);
        });
        unless_stopped(work, &mut stopping).await;
        assert!(ended.load(Ordering::SeqCst));
    }
}
