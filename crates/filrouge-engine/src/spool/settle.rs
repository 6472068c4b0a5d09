//! What becomes of an entry that the ledger has answered: it is crossed out, or kept as a dead letter.

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
    /// Crosses an entry out that the ledger has taken, or keeps it as a dead letter. After a failure it still waits.
    pub(super) fn settle(
        &self,
        key: &Key,
        (nth, entry): (usize, &Entry),
        done: &Done,
    ) -> io::Result<()> {
        let id = entry.place.id;
        let mut files = self.files();
        let (last, alone) = {
            let state = self.state();
            // It was erased meanwhile.
            if !state.is_head(key, (nth, id)) {
                return Ok(());
            }
            let last = state.queues.get(key).is_some_and(|queue| queue.len() == 1);
            (last, state.load(nth).entries == 1)
        };
        if let (Err(failure), Some(_)) = (&done.answer, &entry.lease) {
            return self.overtaken(&mut files, key, failure);
        }
        if let Err(failure) = &done.answer {
            self.bury(&mut files, key, nth, &[entry], failure)?;
        }
        if let Some(folder) = files.at(nth) {
            // Done twice, one that covers whatever is there would cover more than it was meant to; and a fence that was given
            // is told once. Nothing of its session follows before it is crossed out.
            let once = done.answer.is_ok() && is_done_once(entry, done);
            let crossed = match folder.done(&[id], last || once) {
                // There is room for nothing on a full disk, but for less.
                Err(_) if alone => folder.empty(),
                crossed => crossed,
            };
            match crossed {
                Err(error) if once => return Err(error),
                // It is done again after a restart, which changes nothing.
                Err(error) => {
                    tracing::warn!(%error, "[SPOOL] an entry that is done with is not crossed out");
                }
                Ok(()) => {}
            }
        }
        self.settled_one(key, (nth, id), done);
        self.tidied(&mut files, nth)
    }

    /// Takes an entry out of memory.
    fn settled_one(&self, key: &Key, id: (usize, u64), done: &Done) {
        let now = self.clock.now();
        let mut state = self.state();
        state.pop(key, id);
        match (&done.answer, &done.command) {
            (Ok(stored), Some(command)) => {
                state.counts.drained += 1;
                state.change(key, |known| known.learn(command, &stored.outcome, now));
            }
            (Ok(_), _) => state.counts.drained += 1,
            // Somebody else has the session: what is known of it is of no use any more.
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

    /// The ledger does not accept the lease: what was written here under it is refused with it, also where somebody else's
    /// fence has the same number. All dead letters are on disk before anything is crossed out, and the leases are crossed out
    /// last, so that a process that dies in between finds them first. After a failure everything still waits.
    fn overtaken(&self, files: &mut Files, key: &Key, failure: &Failure) -> io::Result<()> {
        // Nothing is queued behind these while the files are locked.
        let waits = self.state().waits_of(key);
        tracing::warn!(tenant_id = %word(key.0.as_str()), call_id = %word(key.1.as_str()), err = %failure.code, writes = waits.len(), "[SPOOL] somebody else has taken the session");
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
            state.take_out(key);
            state.known.forget(key);
        }
        self.settled.send_modify(|n| *n += 1);
        let touched: BTreeSet<usize> = folders.into_keys().collect();
        touched
            .into_iter()
            .try_for_each(|nth| self.tidied(files, nth))
    }

    /// Keeps entries of a folder as dead letters, those that are not yet.
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
            tracing::error!(tenant_id = %word(key.0.as_str()), call_id = %word(key.1.as_str()), %what, letter = dead.refusal.letter, err = %failure.code, "[SPOOL] the ledger has refused a write: a dead letter");
        }
        Ok(())
    }

    /// Takes out what waits of a session that is erased; its contents are on disk until the files are written anew. After a
    /// restart before that, the ledger refuses them, and nothing is kept.
    pub(super) fn discard(&self, key: &Key) {
        let files = self.files();
        let writes = self.state().take_out(key);
        drop(files);
        if writes > 0 {
            tracing::warn!(tenant_id = %word(key.0.as_str()), call_id = %word(key.1.as_str()), writes, "[SPOOL] the session is erased: what waited of it is gone");
            self.settled.send_modify(|n| *n += 1);
        }
    }

    /// Keeps the file of entries short, and takes away a folder that somebody else had left and that is empty now.
    fn tidied(&self, files: &mut Files, nth: usize) -> io::Result<()> {
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

fn is_done_once(entry: &Entry, done: &Done) -> bool {
    let covers = |write: &Write| matches!(write, Write::PutCheckpoint(put) if put.seq.is_none());
    entry.lease.is_some() || done.command.as_ref().is_some_and(|c| covers(&c.write))
}

fn dead(entry: &Entry, refusal: Refusal, failure: &Failure) -> Dead {
    // What was erased is not kept here either.
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
