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

use super::notes;
use crate::output::{print_stderr, progress_bar};

/// The minimum time between two lines of one stage.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

pub(super) struct Progress {
    stop: Arc<AtomicBool>,
    anchors: PathBuf,
    keyring: Arc<Keyring>,
    bar: Option<ProgressBar>,
    /// The stage and the time of the last printed line.
    last_line: Option<(CopyStage, Instant)>,
}

impl Progress {
    /// Creates an observer that ends the copy once `stop` is set. The target's anchor is written in the folder
    /// `anchors`.
    pub(super) fn new(stop: Arc<AtomicBool>, anchors: PathBuf, keyring: Arc<Keyring>) -> Self {
        let bar = stderr()
            .is_terminal()
            .then(|| progress_bar("{msg:22} {bar:40} {pos}/{len}"));
        Self {
            stop,
            anchors,
            keyring,
            bar,
            last_line: None,
        }
    }

    fn show(&mut self, stage: CopyStage, done: u64, total: u64) {
        let label = match stage {
            CopyStage::Sessions => "copying sessions",
            CopyStage::Commits => "writing commits",
            CopyStage::Copy => "verifying the copy",
        };
        if let Some(bar) = &self.bar {
            bar.set_message(label);
            bar.set_length(total);
            bar.set_position(done);
            return;
        }
        let is_recent = self
            .last_line
            .is_some_and(|(s, at)| s == stage && at.elapsed() < LINE_INTERVAL);
        if !is_recent {
            self.last_line = Some((stage, Instant::now()));
            print_stderr(format_args!("{label}: {done}/{total}"));
        }
    }
}

impl CopyObserver for Progress {
    fn progress(&mut self, stage: CopyStage, done: u64, total: u64) -> Result<(), Failure> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(ErrorCode::StoreUnavailable.failure("the copy was stopped"));
        }
        self.show(stage, done, total);
        Ok(())
    }

    fn note_value(&mut self, name: &str, value: Vec<u8>, end: &Position) -> Option<Vec<u8>> {
        notes::value_in_copy(name, value, end)
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
