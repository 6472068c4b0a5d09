//! Removes from the queue an entry that the ledger has accepted (it is marked done) or refused (it becomes a dead
//! letter).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use filrouge_store::command::Write;
use filrouge_types::{ErrorCode, Failure};

use super::Core;
use super::drain::DrainResult;
use super::files::Files;
use super::folder::{DeadLetter, Entry};
use super::frame::DeadLetterReason;
use super::known::SessionKey;
use super::state::{DeadLetterLocation, refusal};
use crate::calls::log_word;

impl Core {
    /// Removes the first entry from its queue. An entry that the ledger has accepted is marked done; one that it has
    /// refused becomes a dead letter. The entry is given with the index of its folder.
    ///
    /// # Errors
    /// If the disk cannot be written; then the entry stays queued, unless only the final clean-up failed.
    pub(super) fn finish_entry(
        &self,
        key: &SessionKey,
        (folder_index, entry): (usize, &Entry),
        result: &DrainResult,
    ) -> io::Result<()> {
        let id = entry.info.id;
        let mut files = self.files();
        let (is_last_of_session, is_last_of_folder) = {
            let state = self.state();
            // If the entry is no longer the first one, its session was erased in the meantime.
            if !state.is_first(key, (folder_index, id)) {
                return Ok(());
            }
            let is_last_of_session = state.queues.get(key).is_some_and(|queue| queue.len() == 1);
            (is_last_of_session, state.load(folder_index).entries == 1)
        };
        if let (Err(failure), Some(_)) = (&result.answer, &entry.lease) {
            return self.refuse_session(&mut files, key, failure);
        }
        if let Err(failure) = &result.answer {
            self.add_dead_letters(&mut files, key, folder_index, &[entry], failure)?;
        }
        if let Some(folder) = files.folder(folder_index) {
            // Some accepted entries must not be sent to the ledger again after a restart, so their marks are flushed
            // before the session's next write. A checkpoint without seq would cover more items when sent again, and a
            // lease would be refused as stale once a newer one was granted.
            let must_persist = result.answer.is_ok() && must_not_be_resent(entry, result);
            let marked = match folder.mark_done(&[id], is_last_of_session || must_persist) {
                // If the disk is full, the mark cannot be written, but a file without other entries can be truncated.
                Err(_) if is_last_of_folder => folder.truncate_queue(),
                marked => marked,
            };
            match marked {
                Err(error) if must_persist => return Err(error),
                // After a restart the entry is sent again, which changes nothing in the ledger.
                Err(error) => {
                    tracing::warn!(%error, "[SPOOL] a drained entry is not marked done");
                }
                Ok(()) => {}
            }
        }
        self.remove_entry(key, (folder_index, id), result);
        self.tidy(&mut files, folder_index)
    }

    /// Removes an entry from the queue in memory.
    fn remove_entry(&self, key: &SessionKey, id: (usize, u64), result: &DrainResult) {
        let now = self.clock.now();
        let mut state = self.state();
        state.pop(key, id);
        match (&result.answer, &result.command) {
            (Ok(stored), Some(command)) => {
                state.counts.drained += 1;
                state.change(key, |known| known.update(command, &stored.outcome, now));
            }
            (Ok(_), _) => state.counts.drained += 1,
            // The refusal shows that the known state of the session is obsolete.
            (Err(_), _) if !state.is_queued(key) => {
                state.known.forget(key);
            }
            (Err(_), _) => {}
        }
        let (is_spool_empty, drained) = (state.entries == 0, state.counts.drained);
        let is_drained = !state.is_queued(key);
        drop(state);
        if is_spool_empty {
            tracing::info!(drained, "[SPOOL] nothing waits any more");
        }
        if is_drained {
            self.drained.send_modify(|n| *n += 1);
        }
    }

    /// Handles a queued lease that the ledger refuses. All queued writes of the session become dead letters, because
    /// they were accepted under that lease. This includes writes under a fence whose number the ledger has meanwhile
    /// granted to another holder.
    ///
    /// All dead letters are on disk before any entry is marked done, and leases are marked done last. So after a crash
    /// in between, the next process sends the lease first and is refused again. If a disk write fails, everything stays
    /// queued.
    fn refuse_session(
        &self,
        files: &mut Files,
        key: &SessionKey,
        failure: &Failure,
    ) -> io::Result<()> {
        // The files are locked, so no other task adds entries to the queue.
        let queued = self.state().entries_of(key);
        tracing::warn!(tenant_id = %log_word(key.0.as_str()), call_id = %log_word(key.1.as_str()), err = %failure.code, writes = queued.len(), "[SPOOL] another caller has acquired the session's lease");
        let mut folders: BTreeMap<usize, (Vec<&Entry>, Vec<u64>)> = BTreeMap::new();
        for (folder_index, entry) in &queued {
            let (writes, leases) = folders.entry(*folder_index).or_default();
            match entry.lease {
                None => writes.push(entry),
                Some(_) => leases.push(entry.info.id),
            }
        }
        for (folder_index, (writes, _)) in &folders {
            self.add_dead_letters(files, key, *folder_index, writes, failure)?;
        }
        for (folder_index, (writes, leases)) in &folders {
            let writes = writes.iter().map(|entry| entry.info.id);
            let ids: Vec<u64> = writes.chain(leases.iter().rev().copied()).collect();
            if let Some(folder) = files.folder(*folder_index) {
                folder.mark_done(&ids, true)?;
            }
        }
        {
            let mut state = self.state();
            state.remove_session(key);
            state.known.forget(key);
        }
        self.drained.send_modify(|n| *n += 1);
        let folder_indexes: BTreeSet<usize> = folders.into_keys().collect();
        folder_indexes
            .into_iter()
            .try_for_each(|folder_index| self.tidy(files, folder_index))
    }

    /// Writes entries of a folder as dead letters, except those that already are dead letters.
    fn add_dead_letters(
        &self,
        files: &mut Files,
        key: &SessionKey,
        folder_index: usize,
        entries: &[&Entry],
        failure: &Failure,
    ) -> io::Result<()> {
        let now = self.clock.now();
        let Some(folder) = files.folder(folder_index) else {
            return Ok(());
        };
        let mut letters = Vec::new();
        for entry in entries {
            if !folder.is_dead_letter(entry.info.id) {
                let id = folder.next_id();
                letters.push(new_dead_letter(entry, refusal(id, now, failure), failure));
            }
        }
        folder.add_dead_letters(&letters)?;
        let mut state = self.state();
        for letter in &letters {
            state.counts.refused += 1;
            state
                .dead
                .push(DeadLetterLocation::new(folder_index, letter));
        }
        drop(state);
        for letter in &letters {
            let what = letter.info.as_ref().map_or("-", |info| &info.what);
            tracing::error!(tenant_id = %log_word(key.0.as_str()), call_id = %log_word(key.1.as_str()), %what, letter = letter.refusal.letter, err = %failure.code, "[SPOOL] the ledger has refused a write: it becomes a dead letter");
        }
        Ok(())
    }

    /// Removes the queued entries of an erased session from memory. Their contents stay on disk until the caller
    /// rewrites the files. If the process restarts before that, the ledger refuses the entries, and their dead letters
    /// have no contents.
    pub(super) fn discard(&self, key: &SessionKey) {
        let files = self.files();
        let writes = self.state().remove_session(key);
        drop(files);
        if writes > 0 {
            tracing::warn!(tenant_id = %log_word(key.0.as_str()), call_id = %log_word(key.1.as_str()), writes, "[SPOOL] the session is erased: its queued writes are discarded");
            self.drained.send_modify(|n| *n += 1);
        }
    }

    /// Rewrites a folder's queue file if most of it belongs to entries that are done, and empties it if no entry is
    /// queued. Then removes the folder if it came from another process and has no dead letters.
    fn tidy(&self, files: &mut Files, folder_index: usize) -> io::Result<()> {
        let Some(folder) = files.folder(folder_index) else {
            return Ok(());
        };
        let load = self.state().load(folder_index);
        if load.entries > 0 {
            if folder.needs_rewrite(load.bytes) {
                let queued: Vec<Arc<Entry>> = self.state().entries_of_folder(folder_index);
                folder.rewrite(queued.iter().map(AsRef::as_ref))?;
            }
            return Ok(());
        }
        folder.truncate_queue()?;
        if folder_index > 0
            && let Some(folder) = files.folders.get_mut(folder_index).and_then(Option::take)
        {
            let remaining = folder.remove_if_empty()?;
            if let Some(slot) = files.folders.get_mut(folder_index) {
                *slot = remaining;
            }
        }
        Ok(())
    }
}

/// Whether an accepted entry must not be sent to the ledger again: a lease, or a checkpoint without seq.
fn must_not_be_resent(entry: &Entry, result: &DrainResult) -> bool {
    let write = result.command.as_ref().map(|command| &command.write);
    entry.lease.is_some() || matches!(write, Some(Write::PutCheckpoint(put)) if put.seq.is_none())
}

fn new_dead_letter(entry: &Entry, refusal: DeadLetterReason, failure: &Failure) -> DeadLetter {
    // The session was erased, so its contents are not kept here either.
    let is_erased = failure.code == ErrorCode::SessionErased;
    DeadLetter {
        info: Some(entry.info.clone()),
        refusal,
        body: if is_erased {
            Vec::new()
        } else {
            entry.body.clone()
        },
    }
}
