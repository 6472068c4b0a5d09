//! Indexes all changes at once: for a first build, and for callers who wait for it.

use std::sync::mpsc::sync_channel;

use filrouge_store::text_index::IndexUpdate;
use filrouge_types::Failure;

use super::compare::Compared;
use super::source_index::SourceIndex;
use super::step::{gone, text_bytes};

/// The number of bytes of text per change of the index.
const BATCH_BYTES: usize = 12 << 20;
/// The maximum number of read sessions that wait for the index.
const WAITING: usize = 2;
/// The maximum number of rounds of an update: each lists the source again, since it may have changed meanwhile.
const ROUNDS: usize = 3;

/// The progress of an update.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BuildProgress {
    /// The number of sessions that were read.
    pub sessions: usize,
    /// The total number of sessions to read.
    pub total: usize,
    /// The number of documents of the read sessions.
    pub documents: usize,
    /// The number of bytes of folded text written to the index.
    pub text_bytes: usize,
    /// Whether another process feeds the index, so that this one did nothing.
    pub elsewhere: bool,
}

impl SourceIndex {
    /// Indexes all changed sessions, on two threads, until it is done or `stopped` returns true; sessions indexed by
    /// then remain indexed. Reports its progress to `each`.
    ///
    /// # Errors
    /// As [`SourceIndex::step`].
    pub fn update(
        &self,
        each: &mut dyn FnMut(BuildProgress),
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<BuildProgress, Failure> {
        let mut progress = BuildProgress::default();
        let updated = self.try_update(&mut progress, each, stopped);
        updated.inspect_err(|why| self.note(why))?;
        Ok(progress)
    }

    fn try_update(
        &self,
        progress: &mut BuildProgress,
        each: &mut dyn FnMut(BuildProgress),
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), Failure> {
        let Some(_feeding) = self.feeding()? else {
            progress.elsewhere = true;
            return Ok(());
        };
        for _ in 0..ROUNDS {
            let compared = self.compared(&self.listed()?)?;
            if (compared.todo.is_empty() && compared.gone.is_empty()) || stopped() {
                break;
            }
            progress.total = progress.sessions + compared.todo.len();
            each(*progress);
            let round = self.round(&compared, progress, each, stopped);
            self.changed();
            round?;
        }
        Ok(())
    }

    fn round(
        &self,
        compared: &Compared,
        progress: &mut BuildProgress,
        each: &mut dyn FnMut(BuildProgress),
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), Failure> {
        let removals = gone(compared);
        if !removals.is_empty() {
            self.index.change(None, &removals, None)?;
        }
        let (sender, receiver) = sync_channel(WAITING);
        std::thread::scope(|threads| {
            threads.spawn(move || {
                for todo in &compared.todo {
                    let read = self.read(todo);
                    let failed = read.is_err();
                    // The receiver was dropped if the index has failed.
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
                each(*progress);
            }
            if !batch.is_empty() {
                self.index.change(None, &batch, None)?;
                progress.text_bytes += bytes;
            }
            Ok(())
        })
    }
}
