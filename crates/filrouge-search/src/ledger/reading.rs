//! What has become of one session: the turns that were touched are read, or all of it.

use filrouge_engine::{Extent, Standing, Touched};
use filrouge_store::text_index::{
    Coverage, IndexUpdate, IndexedSession, Key, SessionEntry, SessionUpdate,
};
use filrouge_types::{Channel, ErrorCode, Failure};

use super::documents::{ENTANGLED, Made, UNREADABLE, made};
use super::feed::{LedgerFeed, aside, key_of};

/// What a session has come to.
pub(super) enum Reading {
    /// It was read at a later commit already.
    Known,
    /// What the index is told of it.
    Changed(Box<Made>),
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
    pub(super) fn put(&mut self, made: Made) {
        self.weight += made.weight();
        self.documents += made.documents();
        self.updates.push(made.update());
    }
}

impl LedgerFeed {
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
        let read = match self.read_some(touched, known, stamp).await {
            Ok(Some(made)) => Ok(Some(made)),
            Ok(None) => self.read_whole(touched, stamp).await,
            Err(failure) => Err(failure),
        };
        match read {
            Ok(Some(Read::Made(made))) => Ok(Reading::Changed(made)),
            Ok(Some(Read::Untold)) => Ok(Reading::Untold),
            Ok(None) => Ok(Reading::Gone(IndexUpdate::Gone(key_of(touched)))),
            Err(failure) if is_its_own(&failure) => Ok(self.unreadable(touched, known, &failure)),
            Err(failure) => Err(failure),
        }
    }

    /// The turns that were touched; `None` when all has to be read.
    async fn read_some(
        &self,
        touched: &Touched,
        known: Option<&IndexedSession>,
        stamp: [u64; 2],
    ) -> Result<Option<Read>, Failure> {
        let Some(known) = known.filter(|_| stamp[0] != 0) else {
            return Ok(None);
        };
        if touched.whole || touched.erased || stamp[1] & (ENTANGLED | UNREADABLE) != 0 {
            return Ok(None);
        }
        let extent = Extent::Turns(touched.spans.clone());
        let Some(standing) = self.standing(touched, extent).await? else {
            return Ok(None);
        };
        if redacts(touched, &standing) {
            return Ok(Some(Read::Untold));
        }
        let mut made = self.made(touched, standing, false).await?;
        if made.is_entangled() || made.update.shard != known.shard {
            return Ok(None);
        }
        // Later commits may have touched other turns.
        made.update.entry.stamp[0] = touched.newest;
        Ok(Some(Read::Made(made)))
    }

    async fn read_whole(
        &self,
        touched: &Touched,
        stamp: [u64; 2],
    ) -> Result<Option<Read>, Failure> {
        self.counting().whole += 1;
        let Some(standing) = self.standing(touched, Extent::Whole).await? else {
            return Ok(None);
        };
        if stamp[0] != 0 && redacts(touched, &standing) {
            return Ok(Some(Read::Untold));
        }
        let made = self.made(touched, standing, true).await?;
        Ok(Some(Read::Made(made)))
    }

    async fn standing(
        &self,
        touched: &Touched,
        extent: Extent,
    ) -> Result<Option<Standing>, Failure> {
        self.counting().sessions += 1;
        let (tenant, session) = (&touched.tenant, &touched.session);
        self.engine
            .index_feed
            .standing(tenant, session, extent)
            .await
    }

    async fn made(
        &self,
        touched: &Touched,
        standing: Standing,
        whole: bool,
    ) -> Result<Box<Made>, Failure> {
        let tenant = touched.tenant.clone();
        aside(move || Box::new(made(&tenant, &standing, whole))).await
    }

    /// A session that cannot be read costs itself: nothing of it is in the index until it changes.
    fn unreadable(
        &self,
        touched: &Touched,
        known: Option<&IndexedSession>,
        failure: &Failure,
    ) -> Reading {
        self.counting().unreadable += 1;
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
}

/// What was read.
enum Read {
    Made(Box<Made>),
    Untold,
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

/// Whether a failure is the session's own, and not the store's.
const fn is_its_own(failure: &Failure) -> bool {
    matches!(
        failure.code,
        ErrorCode::IntegrityError | ErrorCode::KeyMissing | ErrorCode::LimitExceeded
    )
}
