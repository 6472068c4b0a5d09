//! Reads a session that commits have touched: only the touched turns, or the complete session.

use std::collections::BTreeSet;
use std::sync::Mutex;

use filrouge_engine::{Caller, ChangedSession, Engine, Extent, is_of_session};
use filrouge_store::MAC_BYTES;
use filrouge_store::text_index::{
    Coverage, IndexUpdate, IndexedSession, Key, SessionEntry, SessionUpdate, Shard,
};
use filrouge_types::{Failure, lock};

use super::counts::FeedCounts;
use super::documents::{ENTANGLED, UNREADABLE, approximate_bytes, build_update, is_entangled};
use super::on_blocking_thread;
use super::shard::{key_of, shard_of};

/// The outcome of reading a session.
pub(super) enum ReadOutcome {
    /// The index need not change: it contains this state of the session or a later one, or it knows that the session
    /// cannot be read.
    NoUpdate,
    /// The update for the index.
    Changed(Box<SessionUpdate>),
    /// The session no longer exists, or cannot be read: the update removes its documents.
    Gone(IndexUpdate),
    /// Items were redacted without informing the index: the index must forget the session before the feed writes this
    /// or any later session.
    MustForget,
}

/// The updates of a step.
#[derive(Default)]
pub(super) struct StepUpdates {
    pub(super) updates: Vec<IndexUpdate>,
    /// The number of documents in the updates.
    pub(super) documents: u64,
    /// The approximate number of bytes that the updates add to the index.
    pub(super) bytes: usize,
    /// The number of sessions that were read so far.
    pub(super) completed: usize,
    /// The next session, if the index must forget it before it can be read.
    pub(super) must_forget: Option<Key>,
}

impl StepUpdates {
    pub(super) fn add(&mut self, update: SessionUpdate) {
        self.bytes += approximate_bytes(&update);
        self.documents += update.documents.len() as u64;
        self.updates.push(IndexUpdate::Session(update));
    }
}

/// Reads sessions of an engine's ledger, and counts the reads.
pub(super) struct LedgerReader<'f> {
    pub(super) engine: &'f Engine,
    pub(super) counts: &'f Mutex<FeedCounts>,
}

impl LedgerReader<'_> {
    /// Reads a session, unless the index already contains the touched state or a later one. `indexed` is the index's
    /// entry for the session, if there is one.
    pub(super) async fn read_update(
        &self,
        touched: &ChangedSession,
        indexed: Option<&IndexedSession>,
    ) -> Result<ReadOutcome, Failure> {
        let stamp = indexed.map_or([0, 0], |session| session.entry.stamp);
        let is_retry = stamp == [touched.newest, UNREADABLE];
        if stamp[0] >= touched.newest && !is_retry {
            return Ok(ReadOutcome::NoUpdate);
        }
        match self.read_again(touched, indexed, stamp).await {
            Err(failure) if is_of_session(&failure) => {
                self.unreadable(touched, indexed, &failure).await
            }
            read => read,
        }
    }

    /// Reads only the touched turns if they can be read separately, otherwise the complete session. `stamp` is that of
    /// the index's entry; zero for a session that is not indexed.
    async fn read_again(
        &self,
        touched: &ChangedSession,
        indexed: Option<&IndexedSession>,
        stamp: [u64; 2],
    ) -> Result<ReadOutcome, Failure> {
        let must_read_whole = stamp[0] == 0 || touched.must_reread_entirely || touched.erased;
        let is_separable = !must_read_whole && stamp[1] & (ENTANGLED | UNREADABLE) == 0;
        if let Some(indexed) = indexed.filter(|_| is_separable) {
            let turns = Extent::Turns(touched.seq_ranges.clone());
            match self.read(touched, stamp, turns).await? {
                Some(ReadOutcome::Changed(mut update))
                    if !is_entangled(&update) && update.shard == indexed.shard =>
                {
                    // The session's other turns may have changed in later commits, so the update counts only as the
                    // state that was touched.
                    update.entry.stamp[0] = touched.newest;
                    return Ok(ReadOutcome::Changed(update));
                }
                Some(ReadOutcome::MustForget) => return Ok(ReadOutcome::MustForget),
                _ => {}
            }
        }
        let read = self.read(touched, stamp, Extent::Entire).await?;
        Ok(read.unwrap_or_else(|| ReadOutcome::Gone(IndexUpdate::Removed(key_of(touched)))))
    }

    /// Reads the part `extent` of a session; returns `None` if the session does not exist.
    async fn read(
        &self,
        touched: &ChangedSession,
        stamp: [u64; 2],
        extent: Extent,
    ) -> Result<Option<ReadOutcome>, Failure> {
        let whole = extent == Extent::Entire;
        self.count(|counts| {
            counts.sessions += 1;
            counts.complete += u64::from(whole);
        });
        let operator = Caller::operator(touched.tenant.clone());
        let feed = &self.engine.index_feed;
        let at_commit = feed
            .read_session(&operator, &touched.session, extent)
            .await?;
        let Some(at_commit) = at_commit else {
            return Ok(None);
        };
        if stamp[0] != 0 && touched.adds_redaction(&at_commit.conversation) {
            return Ok(Some(ReadOutcome::MustForget));
        }
        let tenant = touched.tenant.clone();
        let update =
            on_blocking_thread(move || Box::new(build_update(&tenant, &at_commit, whole))).await?;
        Ok(Some(ReadOutcome::Changed(update)))
    }

    /// Returns the outcome for a session that cannot be read. Only this session is affected: it has no documents in the
    /// index until it can be read.
    async fn unreadable(
        &self,
        touched: &ChangedSession,
        indexed: Option<&IndexedSession>,
        failure: &Failure,
    ) -> Result<ReadOutcome, Failure> {
        self.count(|counts| counts.unreadable += 1);
        let (session_id, code) = (&touched.session, failure.code);
        tracing::warn!(%session_id, %code, "a session cannot be read for the search index");
        let shard = self.shard_of_unreadable(touched, indexed).await?;
        let stamp = [touched.newest, UNREADABLE];
        let entry = match indexed {
            Some(indexed) if indexed.entry.stamp == stamp && indexed.shard == shard => {
                return Ok(ReadOutcome::NoUpdate);
            }
            Some(indexed) => indexed.entry.clone(),
            None => SessionEntry {
                key: touched.session.as_str().into(),
                ..SessionEntry::default()
            },
        };
        Ok(ReadOutcome::Gone(IndexUpdate::Session(SessionUpdate {
            shard,
            entry: SessionEntry { stamp, ..entry },
            coverage: Coverage::All,
            documents: Vec::new(),
        })))
    }

    /// The shard of a session that cannot be read: that of its owner, so that only the owner's searches name it. If not
    /// even the owner can be read, the shard that the index has; if it has none, one that belongs to no owner.
    async fn shard_of_unreadable(
        &self,
        touched: &ChangedSession,
        indexed: Option<&IndexedSession>,
    ) -> Result<Shard, Failure> {
        let operator = Caller::operator(touched.tenant.clone());
        let nothing = Extent::Units {
            turns: BTreeSet::new(),
            items: BTreeSet::new(),
        };
        let feed = &self.engine.index_feed;
        match feed
            .read_session(&operator, &touched.session, nothing)
            .await
        {
            Ok(Some(session)) => Ok(shard_of(&touched.tenant, session.owner)),
            Err(failure) if !is_of_session(&failure) => Err(failure),
            _ => Ok(indexed.map_or_else(
                || shard_of(&touched.tenant, [0; MAC_BYTES]),
                |indexed| indexed.shard.clone(),
            )),
        }
    }

    fn count(&self, add: impl FnOnce(&mut FeedCounts)) {
        add(&mut lock(self.counts));
    }
}
