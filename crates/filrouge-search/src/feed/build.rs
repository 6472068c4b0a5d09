//! Indexes all changes of a source in one call, for a first build and for callers that wait until the index is up to
//! date.

use std::sync::mpsc::sync_channel;

use filrouge_store::text_index::IndexUpdate;
use filrouge_types::Failure;

use super::compare::Comparison;
use super::source_index::SourceIndex;
use super::step::{removals, text_bytes};

/// Read sessions are collected until they contain this number of bytes of text; then they are written to the index in
/// one change.
const BATCH_BYTES: usize = 12 << 20;
/// The maximum number of sessions that are read ahead while the index is being written.
const MAX_READ_AHEAD: usize = 2;
/// The maximum number of rounds of an update. Each round lists the source again, because it may have changed during the
/// round before.
const MAX_ROUNDS: usize = 3;

/// The progress of an update.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BuildProgress {
    /// The number of sessions that were read.
    pub sessions: usize,
    /// The total number of sessions to read.
    pub total: usize,
    /// The number of documents in these sessions.
    pub documents: usize,
    /// The number of bytes of folded text written to the index.
    pub text_bytes: usize,
    /// Whether another process feeds the index, so that this one did nothing.
    pub is_locked: bool,
}

impl SourceIndex {
    /// Indexes all changed sessions, until none is left or `stopped` returns true; sessions indexed by then remain
    /// indexed. A second thread reads sessions while this one writes the index. Reports its progress to `report`, and
    /// returns it.
    ///
    /// # Errors
    /// As [`SourceIndex::step`].
    pub fn update(
        &self,
        report: &mut dyn FnMut(BuildProgress),
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<BuildProgress, Failure> {
        let mut progress = BuildProgress::default();
        let outcome = self.try_update(&mut progress, report, stopped);
        outcome.inspect_err(|failure| self.log_failure(failure))?;
        Ok(progress)
    }

    fn try_update(
        &self,
        progress: &mut BuildProgress,
        report: &mut dyn FnMut(BuildProgress),
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), Failure> {
        let Some(_lock) = self.try_lock()? else {
            progress.is_locked = true;
            return Ok(());
        };
        for _ in 0..MAX_ROUNDS {
            let comparison = self.comparison(&self.list_source()?)?;
            if (comparison.to_read.is_empty() && comparison.removed.is_empty()) || stopped() {
                break;
            }
            progress.total = progress.sessions + comparison.to_read.len();
            report(*progress);
            let outcome = self.run_round(&comparison, progress, report, stopped);
            self.drop_comparison();
            outcome?;
        }
        Ok(())
    }

    /// Removes the sessions that no longer exist from the index, then reads and indexes the changed ones.
    fn run_round(
        &self,
        comparison: &Comparison,
        progress: &mut BuildProgress,
        report: &mut dyn FnMut(BuildProgress),
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), Failure> {
        let removals = removals(comparison);
        if !removals.is_empty() {
            self.index.change(None, &removals, None)?;
        }
        let (sender, receiver) = sync_channel(MAX_READ_AHEAD);
        std::thread::scope(|threads| {
            threads.spawn(move || {
                for session in &comparison.to_read {
                    let read = self.read_session(session);
                    let failed = read.is_err();
                    // `send` fails after an error of the index, which drops the receiver.
                    if sender.send(read).is_err() || failed || stopped() {
                        return;
                    }
                }
            });
            let (mut batch, mut bytes) = (Vec::new(), 0);
            for read in receiver {
                progress.sessions += 1;
                if let Some(update) = read? {
                    bytes += text_bytes(&update);
                    progress.documents += update.documents.len();
                    batch.push(IndexUpdate::Session(update));
                }
                if bytes >= BATCH_BYTES {
                    self.index.change(None, &batch, None)?;
                    progress.text_bytes += bytes;
                    (batch, bytes) = (Vec::new(), 0);
                }
                report(*progress);
            }
            if !batch.is_empty() {
                self.index.change(None, &batch, None)?;
                progress.text_bytes += bytes;
            }
            Ok(())
        })
    }
}
