//! Removes from the queue an entry that the ledger has accepted (it is marked done) or refused (it becomes a dead
//! letter).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use filrouge_store::command::Write;
use filrouge_types::{ErrorCode, Failure};

use super::Core;
use super::drain::Done;
use super::files::Files;
use super::folder::{Dead, Entry};
use super::frame::Refusal;
use super::known::Key;
use super::state::{Letter, refusal};
use crate::calls::word;

impl Core {
    /// Removes from its queue an entry that the ledger has accepted; makes one that the ledger has refused a dead
    /// letter. `nth` is the index of the entry's folder.
    ///
    /// # Errors
    /// If the disk cannot be written; then the entry stays queued, unless only the final clean-up failed.
    pub(super) fn settle(
        &self,
        key: &Key,
        (nth, entry): (usize, &Entry),
        done: &Done,
    ) -> io::Result<()> {
        let id = entry.place.id;
        let mut files = self.files();
        let (last, is_only) = {
            let state = self.state();
            // If the entry is no longer the first one, its session was erased in the meantime.
            if !state.is_head(key, (nth, id)) {
                return Ok(());
            }
            let last = state.queues.get(key).is_some_and(|queue| queue.len() == 1);
            (last, state.load(nth).entries == 1)
        };
        if let (Err(failure), Some(_)) = (&done.answer, &entry.lease) {
            return self.bury_overtaken(&mut files, key, failure);
        }
        if let Err(failure) = &done.answer {
            self.bury(&mut files, key, nth, &[entry], failure)?;
        }
        if let Some(folder) = files.at(nth) {
            // Some accepted entries must not be sent to the ledger again after a restart, so their marks are flushed
            // before the session's next write: a checkpoint without seq would then cover more, and a lease would be
            // refused as stale once a newer one was granted.
            let once = done.answer.is_ok() && must_not_repeat(entry, done);
            let marked = match folder.done(&[id], last || once) {
                // A full disk has no room for the mark, but a file without other queued entries can be truncated.
                Err(_) if is_only => folder.empty(),
                marked => marked,
            };
            match marked {
                Err(error) if once => return Err(error),
                // After a restart the entry is sent again, which changes nothing in the ledger.
                Err(error) => {
                    tracing::warn!(%error, "[SPOOL] a settled entry is not marked done");
                }
                Ok(()) => {}
            }
        }
        self.remove_settled(key, (nth, id), done);
        self.tidy(&mut files, nth)
    }

    /// Removes a settled entry from memory.
    fn remove_settled(&self, key: &Key, id: (usize, u64), done: &Done) {
        let now = self.clock.now();
        let mut state = self.state();
        state.pop(key, id);
        match (&done.answer, &done.command) {
            (Ok(stored), Some(command)) => {
                state.counts.drained += 1;
                state.change(key, |known| known.learn(command, &stored.outcome, now));
            }
            (Ok(_), _) => state.counts.drained += 1,
            // The refusal shows that the known state of the session is obsolete.
            (Err(_), _) if !state.is_queued(key) => {
                state.known.forget(key);
            }
            (Err(_), _) => {}
        }
        let (empty, drained) = (state.entries == 0, state.counts.drained);
        let is_settled = !state.is_queued(key);
        drop(state);
        if empty {
            tracing::info!(drained, "[SPOOL] nothing waits any more");
        }
        if is_settled {
            self.settled.send_modify(|n| *n += 1);
        }
    }

    /// Handles a queued lease that the ledger refuses: all queued writes of the session become dead letters, because
    /// they were accepted under that lease. This includes writes under a fence whose number another holder has got as
    /// well.
    ///
    /// All dead letters are on disk before any entry is marked done, and leases are marked done last. So after a crash
    /// in between, the next process sends the lease first and is refused again. If a disk write fails, everything stays
    /// queued.
    fn bury_overtaken(&self, files: &mut Files, key: &Key, failure: &Failure) -> io::Result<()> {
        // The files are locked, so nothing is added to the queue meanwhile.
        let waits = self.state().entries_of(key);
        tracing::warn!(tenant_id = %word(key.0.as_str()), call_id = %word(key.1.as_str()), err = %failure.code, writes = waits.len(), "[SPOOL] another caller has acquired the session's lease");
        let mut folders: BTreeMap<usize, (Vec<&Entry>, Vec<u64>)> = BTreeMap::new();
        for (nth, entry) in &waits {
            let (writes, leases) = folders.entry(*nth).or_default();
            match entry.lease {
                None => writes.push(entry),
                Some(_) => leases.push(entry.place.id),
            }
        }
        for (nth, (writes, _)) in &folders {
            self.bury(files, key, *nth, writes, failure)?;
        }
        for (nth, (writes, leases)) in &folders {
            let writes = writes.iter().map(|entry| entry.place.id);
            let ids: Vec<u64> = writes.chain(leases.iter().rev().copied()).collect();
            if let Some(folder) = files.at(*nth) {
                folder.done(&ids, true)?;
            }
        }
        {
            let mut state = self.state();
            state.remove_session(key);
            state.known.forget(key);
        }
        self.settled.send_modify(|n| *n += 1);
        let touched: BTreeSet<usize> = folders.into_keys().collect();
        touched
            .into_iter()
            .try_for_each(|nth| self.tidy(files, nth))
    }

    /// Writes entries of a folder as dead letters, except those that already are dead letters.
    fn bury(
        &self,
        files: &mut Files,
        key: &Key,
        nth: usize,
        entries: &[&Entry],
        failure: &Failure,
    ) -> io::Result<()> {
        let now = self.clock.now();
        let Some(folder) = files.at(nth) else {
            return Ok(());
        };
        let mut letters = Vec::new();
        for entry in entries {
            if !folder.is_buried(entry.place.id) {
                let letter = folder.next_id();
                letters.push(dead(entry, refusal(letter, now, failure), failure));
            }
        }
        folder.bury(&letters)?;
        let mut state = self.state();
        for dead in &letters {
            state.counts.refused += 1;
            state.dead.push(Letter::of(nth, dead));
        }
        drop(state);
        for dead in &letters {
            let what = dead.place.as_ref().map_or("-", |place| &place.what);
            tracing::error!(tenant_id = %word(key.0.as_str()), call_id = %word(key.1.as_str()), %what, letter = dead.refusal.letter, err = %failure.code, "[SPOOL] the ledger has refused a write: it becomes a dead letter");
        }
        Ok(())
    }

    /// Removes the queued entries of an erased session from memory. Their contents stay on disk until the caller
    /// rewrites the files. If the process restarts before that, the ledger refuses the entries, and their dead letters
    /// have no contents.
    pub(super) fn discard(&self, key: &Key) {
        let files = self.files();
        let writes = self.state().remove_session(key);
        drop(files);
        if writes > 0 {
            tracing::warn!(tenant_id = %word(key.0.as_str()), call_id = %word(key.1.as_str()), writes, "[SPOOL] the session is erased: its queued writes are discarded");
            self.settled.send_modify(|n| *n += 1);
        }
    }

    /// Rewrites a folder's queue file if most of it is settled entries, and empties it if no entry is queued. Then
    /// removes the folder if it came from another process and has no dead letters.
    fn tidy(&self, files: &mut Files, nth: usize) -> io::Result<()> {
        let Some(folder) = files.at(nth) else {
            return Ok(());
        };
        let load = self.state().load(nth);
        if load.entries > 0 {
            if folder.is_worn(load.bytes) {
                let waiting: Vec<Arc<Entry>> = self.state().of_folder(nth);
                folder.rewrite(waiting.iter().map(AsRef::as_ref))?;
            }
            return Ok(());
        }
        folder.empty()?;
        if nth > 0
            && let Some(folder) = files.folders.get_mut(nth).and_then(Option::take)
        {
            let kept = folder.remove_if_empty()?;
            if let Some(slot) = files.folders.get_mut(nth) {
                *slot = kept;
            }
        }
        Ok(())
    }
}

fn must_not_repeat(entry: &Entry, done: &Done) -> bool {
    let covers = |write: &Write| matches!(write, Write::PutCheckpoint(put) if put.seq.is_none());
    entry.lease.is_some() || done.command.as_ref().is_some_and(|c| covers(&c.write))
}

fn dead(entry: &Entry, refusal: Refusal, failure: &Failure) -> Dead {
    // The session was erased, so its contents are not kept here either.
    let erased = failure.code == ErrorCode::SessionErased;
    Dead {
        place: Some(entry.place.clone()),
        refusal,
        body: if erased {
            Vec::new()
        } else {
            entry.body.clone()
        },
    }
}
