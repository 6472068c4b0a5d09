//! How far a copy is, on stderr: a bar on a terminal, else a line for each stage and for each second of it.

use std::io::{IsTerminal, stderr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use filrouge_engine::anchor::Anchor;
use filrouge_store::copy::{Stage, Watch};
use filrouge_store::{Keyring, Position};
use filrouge_types::{ErrorCode, Failure};
use indicatif::ProgressBar;

use crate::output::{bar, say};

/// Between two lines of one stage.
const SHOW_EVERY: Duration = Duration::from_secs(1);

pub(super) struct Progress {
    stop: Arc<AtomicBool>,
    anchors: PathBuf,
    keyring: Arc<Keyring>,
    bar: Option<ProgressBar>,
    /// The stage that was shown, and when.
    shown: Option<(Stage, Instant)>,
}

impl Progress {
    /// Ends the copy once `stop` is set; makes the new store's anchor among `anchors`.
    pub(super) fn new(stop: Arc<AtomicBool>, anchors: PathBuf, keyring: Arc<Keyring>) -> Self {
        let bar = stderr()
            .is_terminal()
            .then(|| bar("{msg:22} {bar:40} {pos}/{len}"));
        Self {
            stop,
            anchors,
            keyring,
            bar,
            shown: None,
        }
    }

    fn show(&mut self, stage: Stage, done: u64, all: u64) {
        let words = match stage {
            Stage::Source => "verifying the source",
            Stage::Commits => "copying commits",
            Stage::Sessions => "copying sessions",
            Stage::Copy => "verifying the copy",
        };
        if let Some(bar) = &self.bar {
            bar.set_message(words);
            bar.set_length(all);
            bar.set_position(done);
            return;
        }
        let shown = self
            .shown
            .is_some_and(|(s, at)| s == stage && at.elapsed() < SHOW_EVERY);
        if !shown {
            self.shown = Some((stage, Instant::now()));
            say(format_args!("{words}: {done}/{all}"));
        }
    }
}

impl Watch for Progress {
    fn step(&mut self, stage: Stage, done: u64, all: u64) -> Result<(), Failure> {
        if self.stop.load(Ordering::Relaxed) {
            let what = "the copy was stopped";
            return Err(Failure::new(ErrorCode::StoreUnavailable, what));
        }
        self.show(stage, done, all);
        Ok(())
    }

    fn witness(&mut self, store: &str, position: Position) -> Result<(), Failure> {
        Anchor::new(&self.anchors, store, self.keyring.clone()).set(&position)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
