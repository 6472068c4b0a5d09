//! Everything that has changed brought in at once: for a first build, and for who waits for it.

use std::sync::mpsc::sync_channel;

use filrouge_store::text_index::IndexUpdate;
use filrouge_types::Failure;

use super::compare::Compared;
use super::source_index::SourceIndex;
use super::step::{gone, text_bytes};

/// Bytes of text that are brought in together.
const BATCH_BYTES: usize = 12 << 20;
/// Sessions that were read and wait.
const WAITING: usize = 2;
/// How often it is looked whether something has changed meanwhile.
const ROUNDS: usize = 3;

/// How far an update is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Sessions that were read.
    pub sessions: usize,
    /// Of so many.
    pub of: usize,
    /// Documents that were put.
    pub documents: usize,
    /// Bytes of their texts, folded.
    pub text_bytes: usize,
    /// Whether another process feeds the index: nothing was done here.
    pub elsewhere: bool,
}

impl SourceIndex {
    /// Brings everything in that has changed, on two threads, until it is done or `stopped` says so: then what was
    /// brought in stays. Tells `each` how far it is.
    ///
    /// # Errors
    /// As [`SourceIndex::step`].
    pub fn update(
        &self,
        each: &mut dyn FnMut(Progress),
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<Progress, Failure> {
        let mut progress = Progress::default();
        let fed = self.try_update(&mut progress, each, stopped);
        fed.inspect_err(|why| self.note(why))?;
        Ok(progress)
    }

    fn try_update(
        &self,
        progress: &mut Progress,
        each: &mut dyn FnMut(Progress),
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
            progress.of = progress.sessions + compared.todo.len();
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
        progress: &mut Progress,
        each: &mut dyn FnMut(Progress),
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), Failure> {
        let first = gone(compared);
        if !first.is_empty() {
            self.index.change(None, &first, None)?;
        }
        let (give, take) = sync_channel(WAITING);
        std::thread::scope(|threads| {
            threads.spawn(move || {
                for todo in &compared.todo {
                    let read = self.read(todo);
                    let failed = read.is_err();
                    // Nobody takes it any more: the index has failed, or all is to stop.
                    if give.send(read).is_err() || failed || stopped() {
                        return;
                    }
                }
            });
            let (mut batch, mut bytes) = (Vec::new(), 0);
            for read in take {
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
