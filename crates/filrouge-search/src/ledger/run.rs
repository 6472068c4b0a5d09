//! A feed at work beside a server: in small steps, with pauses that leave the machine to whoever asks.

use std::time::{Duration, Instant};

use filrouge_types::Failure;
use tokio::sync::watch;
use tokio::time::sleep;

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
            let step = tokio::select! {
                step = self.step(STEP) => step,
                () = stopped(&mut stopping) => return,
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
            tokio::select! {
                () = self.idle(&step, began.elapsed(), &mut commits) => {}
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
            Ok(Step::Done) => {
                self.tidy(commits).await;
                tokio::select! {
                    changed = commits.changed() => match changed {
                        Ok(()) => sleep((took * EASE_BUSY).clamp(GATHER, PAUSE.1)).await,
                        // A ledger that is gone has no more commits.
                        Err(_) => std::future::pending::<()>().await,
                    },
                    () = sleep(LOOK) => {}
                }
            }
        }
    }

    /// Small steps of tidying and embedding, until there is nothing to do or something to feed.
    async fn tidy(&self, commits: &watch::Receiver<u64>) {
        while commits.has_changed().is_ok_and(|changed| !changed) {
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

async fn stopped(stopping: &mut watch::Receiver<bool>) {
    if stopping.wait_for(|stopping| *stopping).await.is_err() {
        // Nobody is left who could say so.
        std::future::pending::<()>().await;
    }
}
