//! The progress of a copy on stderr: a bar on a terminal, else one line per stage, and one per second within a stage.

use std::io::{IsTerminal, stderr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use filrouge_engine::anchor::Anchor;
use filrouge_store::copy::{CopyObserver, CopyStage};
use filrouge_store::{Keyring, Position};
use filrouge_types::{ErrorCode, Failure};
use indicatif::ProgressBar;

use crate::output::{bar, say};

/// The minimum time between two lines of one stage.
const SHOW_EVERY: Duration = Duration::from_secs(1);

pub(super) struct Progress {
    stop: Arc<AtomicBool>,
    anchors: PathBuf,
    keyring: Arc<Keyring>,
    bar: Option<ProgressBar>,
    /// The stage of the last line, and when it was printed.
    shown: Option<(CopyStage, Instant)>,
}

impl Progress {
    /// Creates an observer that ends the copy once `stop` is set. The target's anchor is written in the folder
    /// `anchors`.
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

    fn show(&mut self, stage: CopyStage, done: u64, all: u64) {
        let words = match stage {
            CopyStage::Source => "verifying the source",
            CopyStage::Commits => "copying commits",
            CopyStage::Sessions => "copying sessions",
            CopyStage::Copy => "verifying the copy",
        };
        if let Some(bar) = &self.bar {
            bar.set_message(words);
            bar.set_length(all);
            bar.set_position(done);
            return;
        }
        let is_recent = self
            .shown
            .is_some_and(|(s, at)| s == stage && at.elapsed() < SHOW_EVERY);
        if !is_recent {
            self.shown = Some((stage, Instant::now()));
            say(format_args!("{words}: {done}/{all}"));
        }
    }
}

impl CopyObserver for Progress {
    fn progress(&mut self, stage: CopyStage, done: u64, all: u64) -> Result<(), Failure> {
        if self.stop.load(Ordering::Relaxed) {
            let what = "the copy was stopped";
            return Err(Failure::new(ErrorCode::StoreUnavailable, what));
        }
        self.show(stage, done, all);
        Ok(())
    }

    fn write_anchor(&mut self, store: &str, position: Position) -> Result<(), Failure> {
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
