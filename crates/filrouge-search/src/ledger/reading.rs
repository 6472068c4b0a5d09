//! What has become of one session: the turns that were touched are read, or all of it.

use std::sync::{Mutex, PoisonError};

use filrouge_engine::{Caller, Engine, Extent, Standing, Touched};
use filrouge_store::text_index::{
    Coverage, IndexUpdate, IndexedSession, Key, SessionEntry, SessionUpdate,
};
use filrouge_types::{Channel, ErrorCode, Failure};

use super::aside;
use super::counts::FeedCounts;
use super::documents::{ENTANGLED, UNREADABLE, is_entangled, made, weight};
use super::shard::key_of;

/// What a session has come to.
pub(super) enum Reading {
    /// It was read at a later commit already.
    Known,
    /// What the index is told of it.
    Changed(Box<SessionUpdate>),
    /// It is not there any more, or cannot be read.
    Gone(IndexUpdate),
    /// Something was redacted, and the index was not told: it has to forget before anything is put.
    Untold,
}

/// What a step puts.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) updates: Vec<IndexUpdate>,
    pub(super) documents: u64,
    pub(super) weight: usize,
    /// How many sessions are done with it.
    pub(super) taken: usize,
    /// A session behind them that has to be forgotten first.
    pub(super) untold: Option<Key>,
}

impl Batch {
    pub(super) fn put(&mut self, update: SessionUpdate) {
        self.weight += weight(&update);
        self.documents += update.documents.len() as u64;
        self.updates.push(IndexUpdate::Session(update));
    }
}

/// Reads sessions of an engine's ledger, and counts it.
pub(super) struct Reader<'f> {
    pub(super) engine: &'f Engine,
    pub(super) counts: &'f Mutex<FeedCounts>,
}

impl Reader<'_> {
    /// Reads a session again.
    pub(super) async fn reading(
        &self,
        touched: &Touched,
        known: Option<&IndexedSession>,
    ) -> Result<Reading, Failure> {
        let stamp = known.map_or([0, 0], |known| known.entry.stamp);
        if stamp[0] >= touched.newest {
            return Ok(Reading::Known);
        }
        match self.read_again(touched, known, stamp).await {
            Err(failure) if is_of_session(&failure) => {
                Ok(self.unreadable(touched, known, &failure))
            }
            read => read,
        }
    }

    /// The turns that were touched, if they can be read by themselves; else all.
    async fn read_again(
        &self,
        touched: &Touched,
        known: Option<&IndexedSession>,
        stamp: [u64; 2],
    ) -> Result<Reading, Failure> {
        let all_is_new = stamp[0] == 0 || touched.whole || touched.erased;
        let apart = !all_is_new && stamp[1] & (ENTANGLED | UNREADABLE) == 0;
        if let Some(known) = known.filter(|_| apart) {
            let turns = Extent::Turns(touched.spans.clone());
            match self.read(touched, stamp, turns).await? {
                Some(Reading::Changed(mut update))
                    if !is_entangled(&update) && update.shard == known.shard =>
                {
                    // Later commits may have touched other turns.
                    update.entry.stamp[0] = touched.newest;
                    return Ok(Reading::Changed(update));
                }
                Some(Reading::Untold) => return Ok(Reading::Untold),
                _ => {}
            }
        }
        let read = self.read(touched, stamp, Extent::Whole).await?;
        Ok(read.unwrap_or_else(|| Reading::Gone(IndexUpdate::Gone(key_of(touched)))))
    }

    /// `None` of a session that is not there.
    async fn read(
        &self,
        touched: &Touched,
        stamp: [u64; 2],
        extent: Extent,
    ) -> Result<Option<Reading>, Failure> {
        let whole = extent == Extent::Whole;
        self.count(|counts| {
            counts.sessions += 1;
            counts.whole += u64::from(whole);
        });
        let operator = Caller::operator(touched.tenant.clone());
        let feed = &self.engine.index_feed;
        let standing = feed.standing(&operator, &touched.session, extent).await?;
        let Some(standing) = standing else {
            return Ok(None);
        };
        if stamp[0] != 0 && redacts(touched, &standing) {
            return Ok(Some(Reading::Untold));
        }
        let tenant = touched.tenant.clone();
        let update = aside(move || Box::new(made(&tenant, &standing, whole))).await?;
        Ok(Some(Reading::Changed(update)))
    }

    /// A session that cannot be read costs itself: nothing of it is in the index until it changes.
    fn unreadable(
        &self,
        touched: &Touched,
        known: Option<&IndexedSession>,
        failure: &Failure,
    ) -> Reading {
        self.count(|counts| counts.unreadable += 1);
        let (session_id, code) = (&touched.session, failure.code);
        tracing::warn!(%session_id, %code, "a session cannot be read for the search index");
        let Some(known) = known else {
            return Reading::Known;
        };
        Reading::Gone(IndexUpdate::Session(SessionUpdate {
            shard: known.shard.clone(),
            entry: SessionEntry {
                stamp: [touched.newest, UNREADABLE],
                ..known.entry.clone()
            },
            coverage: Coverage::Whole,
            documents: Vec::new(),
        }))
    }

    fn count(&self, add: impl FnOnce(&mut FeedCounts)) {
        add(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Whether redactions are among what was touched.
fn redacts(touched: &Touched, standing: &Standing) -> bool {
    let within = |seq| {
        touched
            .spans
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&seq))
    };
    let mut loose = standing.conversation.loose.iter();
    loose.any(|item| item.body.channel == Channel::Redaction && within(item.seq))
}

/// Whether a failure is one session's own, and not the store's.
pub(crate) const fn is_of_session(failure: &Failure) -> bool {
    matches!(
        failure.code,
        ErrorCode::IntegrityError | ErrorCode::KeyMissing | ErrorCode::LimitExceeded
    )
}
