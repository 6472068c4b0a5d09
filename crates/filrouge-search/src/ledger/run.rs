//! A feed at work beside a server: in small steps, with pauses that leave the machine to whoever asks.

use std::pin::pin;
use std::time::{Duration, Instant};

use filrouge_types::Failure;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::feed::{Effort, LedgerFeed, Step};

/// Commits that follow each other quicker than this are looked at together.
const GATHER: Duration = Duration::from_millis(100);
/// A pause is so many times as long as the step before it; while commits come, which need the machine more, longer.
const EASE: u32 = 4;
const EASE_BUSY: u32 = 24;
/// The shortest and the longest pause between two steps.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));
/// How long is waited after a failure, and how often is looked for what other processes have left to be read.
const LOOK: Duration = Duration::from_secs(2);
/// How long a stop waits for a step that is under way.
const END: Duration = Duration::from_secs(5);
/// What one step takes on at most, about.
const STEP: Effort = Effort {
    bytes: 2 << 20,
    time: Duration::from_millis(40),
};

impl LedgerFeed {
    /// Feeds until `stopping` turns true: follows the ledger's commits, and tidies the index up while there are none.
    /// A ledger or an index that does not answer is asked again.
    pub async fn run(&self, mut stopping: watch::Receiver<bool>) {
        let mut commits = self.commits();
        let mut failing = false;
        while !*stopping.borrow() {
            commits.borrow_and_update();
            let began = Instant::now();
            let Some(step) = whole(self.step(STEP), &mut stopping).await else {
                return;
            };
            if let Err(error) = &step
                && !failing
            {
                tracing::warn!(%error, "the search index cannot be kept in step with the ledger");
            }
            if step.is_ok() && failing {
                tracing::info!("the search index is being kept in step again");
            }
            failing = step.is_err();
            let took = began.elapsed();
            if matches!(step, Ok(Step::Done)) {
                let stop = stopping.clone();
                if whole(self.tidy(&commits, &stop), &mut stopping)
                    .await
                    .is_none()
                {
                    return;
                }
            }
            tokio::select! {
                () = self.idle(&step, took, &mut commits) => {}
                () = stopped(&mut stopping) => return,
            }
        }
    }

    /// Waits until the next step is due.
    async fn idle(
        &self,
        step: &Result<Step, Failure>,
        took: Duration,
        commits: &mut watch::Receiver<u64>,
    ) {
        match step {
            Ok(Step::More) => sleep(pause(took, commits)).await,
            Err(_) => sleep(LOOK).await,
            Ok(Step::Done) => tokio::select! {
                changed = commits.changed() => match changed {
                    Ok(()) => sleep((took * EASE_BUSY).clamp(GATHER, PAUSE.1)).await,
                    // A ledger that is gone has no more commits.
                    Err(_) => std::future::pending::<()>().await,
                },
                () = sleep(LOOK) => {}
            },
        }
    }

    /// Small steps of tidying and embedding, until there is nothing to do, something to feed, or a stop.
    async fn tidy(&self, commits: &watch::Receiver<u64>, stopping: &watch::Receiver<bool>) {
        while !*stopping.borrow() && commits.has_changed().is_ok_and(|changed| !changed) {
            let began = Instant::now();
            let more = match self.indexed(|index| index.tidy()).await {
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

/// The pause behind a step.
fn pause(took: Duration, commits: &watch::Receiver<u64>) -> Duration {
    let ease = match commits.has_changed() {
        Ok(true) => EASE_BUSY,
        Ok(false) | Err(_) => EASE,
    };
    (took * ease).clamp(PAUSE.0, PAUSE.1)
}

/// What `work` gives; `None` when it was stopped meanwhile. Then too it ends first, if it does within [`END`]: what it does
/// on another thread needs the runtime.
async fn whole<T>(
    work: impl Future<Output = T>,
    stopping: &mut watch::Receiver<bool>,
) -> Option<T> {
    let mut work = pin!(work);
    tokio::select! {
        done = &mut work => return Some(done),
        () = stopped(stopping) => {}
    }
    let _ = timeout(END, work).await;
    None
}

async fn stopped(stopping: &mut watch::Receiver<bool>) {
    if stopping.wait_for(|stopping| *stopping).await.is_err() {
        // Nobody is left who could say so.
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_stop_waits_for_the_step_under_way() {
        let ended = Arc::new(AtomicBool::new(false));
        let (stop, mut stopping) = watch::channel(false);
        let (begun, ends) = (stop, ended.clone());
        let work = tokio::task::spawn_blocking(move || {
            begun.send_replace(true);
            std::thread::sleep(Duration::from_millis(300));
            ends.store(true, Ordering::SeqCst);
        });
        whole(work, &mut stopping).await;
        assert!(ended.load(Ordering::SeqCst));
    }
}
