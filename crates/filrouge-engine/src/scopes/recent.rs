//! The newest turns of a durable session, from a copy in the hot store that is known to equal the ledger's turns
//! (DESIGN §7).
//!
//! One indexed read of the ledger returns the session's owner and the version of its history. The copy is used if it is
//! of that version. While the ledger does not answer, a copy is used only for callers who may see it as far as this
//! process knows, and the response names the seq up to which the copy goes.

use filrouge_store::command::{Scope, Viewer};
use filrouge_store::hot::{HistoryVersion, HotKey, HotStore, HotTurn, Recent, RecentFill};
use filrouge_store::read::{TurnOrder, TurnQuery, VerifiedSnapshot};
use filrouge_store::rows::RECORDS_BYTES;
use filrouge_store::{Ledger, View};
use filrouge_types::{ErrorCode, Failure, SessionId, TurnStatus};

use super::step::hot_turn;
use super::tally::TierTally;
use super::verified::Verified;
use super::view::{HotState, RecentTurns};
use super::{DurablePolicy, TieredLedger, sealed};

/// The minimum number of turns that are read from the ledger to build a copy.
const FILL: usize = 50;
/// The maximum number of copies that are built at once.
pub(super) const FILLS: u32 = 8;

/// What the ledger says about a session: the version of its history, and the viewer's access.
pub(super) struct LedgerHead {
    pub(super) as_of: HistoryVersion,
    /// Whether the viewer's access is permanent, because it is the operator or the session's owner.
    pub(super) owned: bool,
}

impl LedgerHead {
    pub(super) fn of(
        snapshot: &VerifiedSnapshot<'_, dyn View + '_>,
        scope: &Scope,
        session: &SessionId,
    ) -> Result<Self, Failure> {
        let loaded = snapshot.get(scope, session)?;
        let owned = match &scope.viewer {
            Viewer::Operator => true,
            Viewer::EndUser(None) => false,
            Viewer::EndUser(identity) => *identity == loaded.row.identity_id,
        };
        let as_of = HistoryVersion {
            seq: loaded.head.last_seq,
            link: loaded.head.link,
        };
        Ok(Self { as_of, owned })
    }
}

/// The reason why a copy cannot be used.
enum Miss {
    /// The hot store has failed.
    Failing,
    /// There is no copy.
    Absent,
    /// The copy is of another version of the history.
    Stale,
    /// The copy has fewer turns than were requested.
    Short,
    /// The requested turns are too large for one page.
    Large,
    /// A turn of the copy fails verification.
    Unreadable,
}

/// Whether the failure means that the ledger does not answer.
pub(super) fn is_silent(failure: &Failure) -> bool {
    matches!(
        failure.code,
        ErrorCode::StoreUnavailable | ErrorCode::Overloaded
    )
}

impl TieredLedger {
    /// The newest finalized turns of a session, if a copy is available that is known to equal the ledger's turns, or
    /// that may be used while the ledger does not answer. `None` means that the caller must query the ledger.
    ///
    /// # Errors
    /// `session_not_found`, `integrity_error`, and those of the ledger.
    pub async fn recent_turns(
        &self,
        scope: &Scope,
        session: &SessionId,
        limit: usize,
    ) -> Result<Option<RecentTurns>, Failure> {
        let ephemeral = self.options.durable == DurablePolicy::Authenticated;
        // Under `durable = authenticated`, a durable session that still grows has an owner, so an anonymous caller does
        // not see it.
        if ephemeral && scope.viewer == Viewer::EndUser(None) || self.hot.failure().is_some() {
            return Ok(None);
        }
        let key = self.key(scope, session);
        let wanted = limit.saturating_add(1);
        let (head, copy) = tokio::join!(self.head(scope, session), self.hot.recent(&key, wanted));
        let copy = self.tally.observe(copy);
        match head {
            Ok(head) => {
                self.verified.note_shown(key, scope, head.as_of, head.owned);
                Ok(self.fresh(key, scope, session, limit, head.as_of, copy))
            }
            Err(failure) if is_silent(&failure) => {
                self.page_during_outage(&key, scope, limit, copy, failure)
            }
            Err(failure) if ephemeral && failure.code == ErrorCode::SessionNotFound => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    async fn head(&self, scope: &Scope, session: &SessionId) -> Result<LedgerHead, Failure> {
        let (viewer, id) = (scope.clone(), session.clone());
        // The query names the session, so that the store fetches it in one round trip.
        let read_head = move |snapshot: &VerifiedSnapshot<'_, dyn View + '_>| {
            LedgerHead::of(snapshot, &viewer, &id)
        };
        self.ledger.query_session(scope, session, read_head).await
    }

    /// The page of a copy that is of `as_of`, the ledger's current version. If there is none, starts to build a copy
    /// for the next reader.
    fn fresh(
        &self,
        key: HotKey,
        scope: &Scope,
        session: &SessionId,
        limit: usize,
        as_of: HistoryVersion,
        copy: Result<Option<Recent>, Failure>,
    ) -> Option<RecentTurns> {
        let found = copy.map_err(|_| Miss::Failing).and_then(|copy| {
            let copy = copy.ok_or(Miss::Absent)?;
            if copy.as_of != as_of {
                return Err(Miss::Stale);
            }
            self.page(&key, copy, limit)
        });
        let tally = &self.tally;
        let miss = match found {
            Ok(page) => {
                tally.count(|counts| counts.recent_hits += 1);
                return Some(page);
            }
            Err(miss) => miss,
        };
        let fill = match miss {
            Miss::Failing | Miss::Large => false,
            Miss::Unreadable | Miss::Stale => true,
            // A session without turns has nothing to copy.
            Miss::Absent => as_of.seq > 0,
            Miss::Short => self.reaches_further(&key, as_of.seq, limit),
        };
        tally.count(|counts| match miss {
            Miss::Failing | Miss::Unreadable => counts.recent_unreadable += 1,
            Miss::Stale => counts.recent_stale += 1,
            Miss::Absent | Miss::Large | Miss::Short => counts.recent_absent += 1,
        });
        if fill {
            self.filled.insert(key, (as_of.seq, limit));
            self.fill(key, scope, session, limit);
        }
        None
    }

    /// Whether a copy built now, up to `seq` and for `limit` turns, could have more turns than the previous copy.
    fn reaches_further(&self, key: &HotKey, seq: u64, limit: usize) -> bool {
        let last = self.filled.get(key);
        last.is_none_or(|(copied_seq, copied_limit)| copied_seq != seq || copied_limit < limit)
    }

    /// The page of a copy that is used while the ledger does not answer.
    fn page_during_outage(
        &self,
        key: &HotKey,
        scope: &Scope,
        limit: usize,
        copy: Result<Option<Recent>, Failure>,
        failure: Failure,
    ) -> Result<Option<RecentTurns>, Failure> {
        let Some(copy) = copy.ok().flatten() else {
            return Err(failure);
        };
        let as_of = copy.as_of;
        let admitted = self.verified.shown_to(key, scope);
        if !admitted.is_some_and(|verified| verified.admits(as_of)) {
            return Err(failure);
        }
        let oldest = copy.turns.first().map(|turn| turn.ordinal);
        let short = copy.turns.len() <= limit && !copy.all;
        let all = Recent { all: true, ..copy };
        let Ok(mut page) = self.page(key, all, limit) else {
            return Err(failure);
        };
        if short {
            // The next page starts with the turn before the oldest one of the copy; only the ledger has it.
            page.next_cursor = oldest.filter(|n| *n > 1).map(|n| cursor(n - 1));
        }
        self.tally.count(|counts| counts.recent_as_of += 1);
        page.as_of_seq = Some(as_of.seq);
        Ok(Some(page))
    }

    /// A page of a copy. It equals the page that the ledger would return for the copied version.
    fn page(&self, key: &HotKey, copy: Recent, limit: usize) -> Result<RecentTurns, Miss> {
        let mut turns = copy.turns;
        let more = turns.len().checked_sub(limit).filter(|more| *more > 0);
        let next_cursor = match more {
            Some(more) => turns.drain(..more).next_back().map(|t| cursor(t.ordinal)),
            None if copy.all => None,
            None => return Err(Miss::Short),
        };
        let mut bytes = 0;
        let mut shown = Vec::with_capacity(turns.len());
        for turn in turns {
            let json = sealed::open(&self.keyring, key, turn.ordinal, turn.record);
            let json = json.ok_or(Miss::Unreadable)?;
            bytes += json.len();
            shown.push(json);
        }
        // The ledger ends a page early at about this many bytes. The exact place depends on the ledger's own count,
        // which is unknown here.
        if bytes >= RECORDS_BYTES {
            return Err(Miss::Large);
        }
        Ok(RecentTurns {
            turns: shown,
            next_cursor,
            as_of_seq: None,
        })
    }

    /// Builds a copy from the ledger in the background, unless too many are being built.
    fn fill(&self, key: HotKey, scope: &Scope, session: &SessionId, limit: usize) {
        let Ok(filling) = self.filling.clone().try_acquire_owned() else {
            return;
        };
        let (ledger, hot) = (self.ledger.clone(), self.hot.clone());
        let tally = self.tally.clone();
        let operator = Scope::new(scope.tenant.clone(), Viewer::Operator);
        let session = session.clone();
        tokio::spawn(async move {
            let _filling = filling;
            let filled = fill(
                ledger.as_ref(),
                hot.as_ref(),
                &tally,
                key,
                operator,
                session,
                limit,
            );
            if let Err(failure) = filled.await {
                tracing::debug!(%key, code = failure.code.as_str(), "[SESSIONS][HOT] no copy was made");
            }
        });
    }

    /// Compares a session's copy in the hot store with the ledger; queries both.
    ///
    /// # Errors
    /// `session_not_found`, `hot_unavailable`, and those of the ledger.
    pub async fn compare(&self, scope: &Scope, session: &SessionId) -> Result<HotState, Failure> {
        let key = self.key(scope, session);
        // The ledger is read last: a write in between makes the copy look older, never newer.
        let copy = self.tally.observe(self.hot.recent(&key, 1).await)?;
        let ledger = self.head(scope, session).await?.as_of;
        let Some(copy) = copy.map(|copy| copy.as_of) else {
            return Ok(HotState::Absent);
        };
        Ok(if copy == ledger {
            HotState::Same
        } else if copy.seq < ledger.seq {
            HotState::Behind(ledger.seq - copy.seq)
        } else {
            HotState::Other
        })
    }
}

/// The ledger's cursor for a page that starts with the newest version of turn number `ordinal`.
fn cursor(ordinal: u64) -> String {
    ((ordinal << 8) | 0xff).to_string()
}

/// Builds a copy of the session's newest finalized turns from the ledger, and stores it in the hot store.
async fn fill(
    ledger: &dyn Ledger,
    hot: &dyn HotStore,
    tally: &TierTally,
    key: HotKey,
    scope: Scope,
    session: SessionId,
    limit: usize,
) -> Result<(), Failure> {
    let bounds = hot.bounds();
    let turns_max = usize::try_from(bounds.turns).unwrap_or(usize::MAX);
    let query = TurnQuery {
        status: Some(TurnStatus::Finalized),
        order: TurnOrder::Newest,
        limit: limit.saturating_add(1).max(FILL).min(turns_max),
        ..TurnQuery::default()
    };
    let newest = ledger.query(move |snapshot| {
        let head = snapshot.get(&scope, &session)?.head;
        let (turns, next) = snapshot.turns(&scope, &session, &query)?;
        let turns = turns
            .iter()
            .map(|turn| hot_turn(turn, &key, snapshot.keyring));
        let fill = RecentFill {
            as_of: HistoryVersion {
                seq: head.last_seq,
                link: head.link,
            },
            turns: turns.collect::<Result<Vec<HotTurn>, Failure>>()?,
            all: next.is_none(),
        };
        Ok(fill)
    });
    let fill = within(newest.await?, bounds.bytes);
    tally.observe(hot.fill(&key, fill).await)?;
    tally.count(|counts| counts.recent_fills += 1);
    Ok(())
}

/// Keeps the newest turns that fit in `bytes`.
fn within(mut fill: RecentFill, bytes: u64) -> RecentFill {
    let mut room = bytes;
    let fitting = fill.turns.iter().rev().take_while(|turn| {
        let left = room.checked_sub(turn.record.len() as u64);
        room = left.unwrap_or(0);
        left.is_some()
    });
    let over = fill.turns.len() - fitting.count();
    if over > 0 {
        fill.turns.drain(..over);
        fill.all = false;
    }
    fill
}

impl Verified {
    /// Whether a copy of version `copy` may be shown to the viewer without querying the ledger.
    fn admits(&self, copy: HistoryVersion) -> bool {
        // A newer copy is shown only to the operator and the owner: for any other viewer, the session may have been
        // given an owner since.
        copy == self.as_of || (self.owned && copy.seq > self.as_of.seq)
    }
}
