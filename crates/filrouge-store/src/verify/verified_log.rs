//! What a process knows about the store that it has open. Both durable backends keep it.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use filrouge_types::{ErrorCode, Failure, lock};
use tokio::sync::watch;

use super::known_heads::{CommitRange, HeadCheck, KnownHeads, commit_no_of, in_lane, read_commits};
use super::suspects::Suspects;
use crate::keyring::Keyring;
use crate::lane::{Lane, Lanes};
use crate::ledger::{LanePosition, Position};
use crate::record::MacCheck;
use crate::rows::{LogRow, View};

/// The newest commit of each lane that this process has verified, the newest state of all heads, and the data that was
/// changed outside filrouge (DESIGN §9).
pub struct VerifiedLog {
    keyring: Arc<Keyring>,
    check: MacCheck,
    lanes: Lanes,
    /// The newest verified commit of each lane; `None` if the lane has none.
    newest: Mutex<Vec<Option<Arc<LogRow>>>>,
    /// The newest verified commit of each lane that an anchor must record. Later commits contain only drafts.
    anchor_position: Mutex<Position>,
    /// The data that was changed outside filrouge. Reads and writes of it are refused.
    suspects: RwLock<Arc<Suspects>>,
    known_heads: KnownHeads,
    /// Publishes the number of verified commits of all lanes.
    commits: watch::Sender<u64>,
}

impl VerifiedLog {
    /// Creates the state of a store about which nothing is known yet. With [`MacCheck::Unverified`], nothing is
    /// compared or followed.
    pub fn new(keyring: Arc<Keyring>, check: MacCheck, lanes: Lanes) -> Self {
        Self {
            keyring,
            check,
            lanes,
            newest: Mutex::new(vec![None; usize::from(lanes.count())]),
            anchor_position: Mutex::default(),
            suspects: RwLock::default(),
            known_heads: KnownHeads::default(),
            commits: watch::Sender::new(0),
        }
    }

    /// Starts with the current state of a store that is being opened. Sessions that disagree with the commit log become
    /// suspects, so already the first read of them is refused. The newest commit of each lane counts as verified.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn initialize<V: View + ?Sized>(&self, view: &V) -> Result<(), Failure> {
        self.compare(view)?;
        for lane in self.lanes.iter() {
            match view.newest_log(lane) {
                Ok(newest) => self.advance(newest),
                // The comparison has already marked the entire store as suspect.
                Err(failure) if failure.code == ErrorCode::IntegrityError => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    /// Whether nothing is verified, because the store was opened without its keys.
    #[must_use]
    pub fn is_unverified(&self) -> bool {
        self.check == MacCheck::Unverified
    }

    /// The data that was changed outside filrouge, as known so far.
    pub fn suspects(&self) -> Arc<Suspects> {
        let suspects = self.suspects.read();
        suspects.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds suspects. Sessions and notes stay suspect until [`Self::compare`] finds them in their newest state; the
    /// entire store stays suspect as long as the process runs.
    pub fn add_suspects(&self, added: Suspects) {
        self.replace_suspects(&Suspects::default(), added);
    }

    /// Replaces the suspect sessions and notes of `earlier` by `found`, and keeps those that were added since.
    fn replace_suspects(&self, earlier: &Suspects, found: Suspects) {
        if earlier.is_empty() && found.is_empty() {
            return;
        }
        if !found.is_empty() {
            tracing::error!(suspects = %found, "the store was changed outside filrouge");
        }
        let repaired = earlier.without(&found);
        let (sessions, notes) = (repaired.sessions.len(), repaired.notes.len());
        if sessions + notes > 0 {
            let text = "sessions or notes that were changed outside filrouge are in their newest state again";
            tracing::warn!(sessions, notes, "{text}");
        }
        let suspects = self.suspects.write();
        let mut suspects = suspects.unwrap_or_else(PoisonError::into_inner);
        *suspects = Arc::new(suspects.without(earlier).merged_with(found));
    }

    /// The newest state of all heads and notes, with which the writer compares rows.
    pub const fn known_heads(&self) -> &KnownHeads {
        &self.known_heads
    }

    /// The check of rows that a read compares with the newest state.
    pub const fn head_check(&self) -> HeadCheck<'_> {
        HeadCheck {
            known: Some(&self.known_heads),
            uncommitted: &[],
            applied: None,
        }
    }

    /// Adds to the suspects what reads and writes found when they compared rows with [`Self::known_heads`]. Returns
    /// whether they found anything.
    pub fn add_found_suspects(&self) -> bool {
        let found = self.known_heads.take_suspects();
        let has_found = !found.is_empty();
        self.add_suspects(found);
        has_found
    }

    /// The store's lanes.
    pub const fn lanes(&self) -> Lanes {
        self.lanes
    }

    /// The newest commit of a lane that this process has verified.
    pub fn newest(&self, lane: Lane) -> Option<Arc<LogRow>> {
        lock(&self.newest)[lane.index()].clone()
    }

    /// The newest commit of each lane that this process has verified.
    pub fn newest_of_all(&self) -> Vec<Option<Arc<LogRow>>> {
        lock(&self.newest).clone()
    }

    /// The position of the newest verified commit of each lane.
    pub fn position(&self) -> Position {
        let newest = lock(&self.newest);
        let lanes = newest
            .iter()
            .map(|row| LanePosition::of_commit(row.as_deref()));
        Position::new(lanes.collect())
    }

    /// The position of the newest verified commit of each lane that may contain more than drafts: the one to anchor.
    pub fn anchor_position(&self) -> Position {
        lock(&self.anchor_position).clone()
    }

    /// The sender that publishes the commit count, of verified commits.
    pub const fn commits(&self) -> &watch::Sender<u64> {
        &self.commits
    }

    /// Records that these commits are verified, and publishes the number of verified commits once. Ignores a commit that
    /// is not newer than the newest known one of its lane.
    pub fn advance(&self, rows: impl IntoIterator<Item = LogRow>) {
        let (mut all_newest, mut added) = (lock(&self.newest), 0);
        for row in rows {
            let newest = &mut all_newest[row.lane.index()];
            let before = commit_no_of(newest.as_deref());
            if row.commit_no <= before {
                continue;
            }
            if !(row.commit_no == before + 1 && row.has_only_drafts()) {
                lock(&self.anchor_position).set(row.lane, LanePosition::of_commit(Some(&row)));
            }
            self.known_heads.advance(&row);
            added += row.commit_no - before;
            *newest = Some(Arc::new(row));
        }
        if added > 0 {
            self.commits.send_modify(|commits| *commits += added);
        }
    }

    /// Verifies the commits of a lane in the snapshot `view` after `verified`, up to `newest`, the newest one of the
    /// snapshot. `verified` is the newest commit of the lane that was verified before the snapshot began, so the snapshot
    /// must contain it.
    /// If commits were removed or changed, or do not continue the chain of their predecessors, the entire store becomes
    /// suspect. `fetched` are further commits that the caller has already read: if they or `newest` directly follow
    /// `verified`, they are used instead of a query.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn verify_new_commits<V: View + ?Sized>(
        &self,
        view: &V,
        lane: Lane,
        verified: Option<&LogRow>,
        newest: Option<&LogRow>,
        fetched: &[LogRow],
    ) -> Result<(), Failure> {
        if self.is_unverified() {
            return Ok(());
        }
        let (before, after) = (commit_no_of(verified), commit_no_of(newest));
        let damage = if after < before {
            let in_lane = in_lane(self.lanes, lane);
            Some(format!(
                "commits {} to {before}{in_lane} were removed",
                after + 1
            ))
        } else if after == before {
            let in_lane = in_lane(self.lanes, lane);
            (verified != newest).then(|| format!("commit {after}{in_lane} was changed"))
        } else {
            let fetched: Vec<LogRow> = match fetched.is_empty() {
                true => newest.cloned().into_iter().collect(),
                false => fetched.to_vec(),
            };
            let heads = &self.known_heads;
            let commits = CommitRange {
                lane,
                previous: verified.cloned(),
                last: after,
            };
            let followed = read_commits(view, &self.keyring, commits, fetched, |row| {
                heads.advance(row);
                Ok(())
            });
            match followed {
                Ok(last) if commit_no_of(last.as_ref()) < after => {
                    Some("commits are missing".to_owned())
                }
                Ok(last) => {
                    self.advance(last);
                    None
                }
                Err(failure) if failure.code == ErrorCode::IntegrityError => Some(failure.detail),
                Err(failure) => return Err(failure),
            }
        };
        if let Some(detail) = damage {
            self.add_suspects(Suspects::entire_store(detail));
        }
        Ok(())
    }

    /// Compares all sessions and notes with the commit log. Those that differ become suspects. Those that were suspects
    /// before, and are in their newest state again, no longer are: a comparison checks all that made them suspects.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn compare<V: View + ?Sized>(&self, view: &V) -> Result<(), Failure> {
        if self.check != MacCheck::Keyed {
            return Ok(());
        }
        let earlier = self.suspects();
        let found = self.known_heads.compare(view, &self.keyring)?;
        match found.store.is_some() {
            // Nothing is known about single sessions.
            true => self.add_suspects(found),
            false => self.replace_suspects(&earlier, found),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Wake, Waker};

    use filrouge_types::Timestamp;

    use super::*;
    use crate::digest::MaskedDigest;

    /// A subscriber, and the commit count at each time that it is woken.
    struct Subscriber(watch::Receiver<u64>, Mutex<Vec<u64>>);

    impl Wake for Subscriber {
        fn wake(self: Arc<Self>) {
            let commit_count = *self.0.borrow();
            lock(&self.1).push(commit_count);
        }
    }

    #[test]
    fn subscribers_are_woken_after_the_commits_of_all_lanes() {
        let lanes = Lanes::new(2).unwrap();
        let keyring = Arc::new(Keyring::single([7; 32]));
        let log = VerifiedLog::new(keyring.clone(), MacCheck::Keyed, lanes);
        let (mut receiver, observed) = (log.commits().subscribe(), log.commits().subscribe());
        let subscriber = Arc::new(Subscriber(observed, Mutex::default()));
        let waker = Waker::from(subscriber.clone());
        let mut changed = pin!(receiver.changed());
        let polled = changed.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        log.advance(lanes.iter().map(|lane| {
            let (at, digest) = (Timestamp::from_micros(1), MaskedDigest::from_bytes([0; 36]));
            LogRow::after(None, lane, at, &[], digest, &keyring)
        }));
        assert_eq!(*lock(&subscriber.1), [2]);
    }
}
