//! The newest turns of a durable session, from a copy in the hot store that is known to equal the ledger's turns
//! (DESIGN §7).
//!
//! One indexed read of the ledger returns the session's owner and the version of its history. The copy is used if it is
//! of that version. While the ledger does not answer, a copy is used only for callers to whom the ledger has shown the
//! session in this process, and the response names the last seq that the copy covers.

use filrouge_store::command::{Scope, Viewer};
use filrouge_store::hot::{HistoryVersion, HotKey, HotTurn, Recent, RecentFill};
use filrouge_store::read::{LedgerSnapshot, TurnOrder, TurnQuery};
use filrouge_store::rows::RECORDS_BYTES;
use filrouge_store::{SlotBounds, WorkSize};
use filrouge_types::{ErrorCode, Failure, SessionId, TurnStatus};

use super::step::hot_turn;
use super::verified::ShownVersion;
use super::view::{HotState, RecentTurns};
use super::{DurablePolicy, TieredLedger, sealed};

/// The minimum number of turns that are read from the ledger to build a copy.
const COPY_TURNS_LEAST: usize = 50;
/// The maximum number of copies that are built at once, of all callers and of one caller.
pub(super) const FILL_SLOTS: SlotBounds = SlotBounds {
    total: 8,
    share: 4,
    reserve: 0,
};

impl ShownVersion {
    /// Reads a session's version, and the viewer's access, from the ledger.
    pub(super) fn read(
        snapshot: &LedgerSnapshot<'_>,
        scope: &Scope,
        session: &SessionId,
    ) -> Result<Self, Failure> {
        let loaded = snapshot.get(scope, session)?;
        let has_permanent_access = match &scope.viewer {
            Viewer::Operator => true,
            Viewer::EndUser(None) => false,
            Viewer::EndUser(identity) => *identity == loaded.row.identity_id,
        };
        let as_of = HistoryVersion {
            seq: loaded.head.last_seq,
            link: loaded.head.link,
        };
        Ok(Self {
            as_of,
            has_permanent_access,
        })
    }

    /// Whether a copy of version `copy` may be shown to the viewer without querying the ledger.
    fn admits(&self, copy: HistoryVersion) -> bool {
        // A newer copy is shown only to the operator and the owner: for any other viewer, the session may have been
        // given an owner since.
        copy == self.as_of || (self.has_permanent_access && copy.seq > self.as_of.seq)
    }
}

/// The reason why a copy cannot be used.
enum Miss {
    /// The hot store has failed.
    HotStoreFails,
    /// There is no copy.
    Absent,
    /// The copy is of another version of the history.
    Stale,
    /// The copy has fewer turns than were requested.
    TooFewTurns,
    /// The requested turns are too large for one page.
    TooLarge,
    /// A turn of the copy fails verification.
    Unreadable,
}

/// Whether the failure means that the ledger does not answer.
pub(super) fn is_ledger_outage(failure: &Failure) -> bool {
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
        let requested = limit.saturating_add(1);
        let (head, copy) =
            tokio::join!(self.head(scope, session), self.hot.recent(&key, requested));
        let copy = self.tally.observe(copy);
        match head {
            Ok(head) => {
                self.shown_sessions.record_shown(key, scope, head);
                Ok(self.current_page(key, scope, session, limit, head.as_of, copy))
            }
            Err(failure) if is_ledger_outage(&failure) => {
                self.page_during_outage(&key, scope, limit, copy, failure)
            }
            Err(failure) if ephemeral && failure.code == ErrorCode::SessionNotFound => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    async fn head(&self, scope: &Scope, session: &SessionId) -> Result<ShownVersion, Failure> {
        // The query names the session, so that the store fetches it in one round trip.
        self.ledger
            .query_session(scope, session, ShownVersion::read)
            .await
    }

    /// The page of a copy that is of `as_of`, the ledger's current version. If there is none, starts to build a copy
    /// for the next reader.
    fn current_page(
        &self,
        key: HotKey,
        scope: &Scope,
        session: &SessionId,
        limit: usize,
        as_of: HistoryVersion,
        copy: Result<Option<Recent>, Failure>,
    ) -> Option<RecentTurns> {
        let page = copy.map_err(|_| Miss::HotStoreFails).and_then(|copy| {
            let copy = copy.ok_or(Miss::Absent)?;
            if copy.as_of != as_of {
                return Err(Miss::Stale);
            }
            self.page(&key, copy, limit)
        });
        let tally = &self.tally;
        let miss = match page {
            Ok(page) => {
                tally.count(|counts| counts.recent_hits += 1);
                return Some(page);
            }
            Err(miss) => miss,
        };
        let needs_fill = match miss {
            Miss::HotStoreFails | Miss::TooLarge => false,
            Miss::Unreadable | Miss::Stale => true,
            // A session without turns has nothing to copy.
            Miss::Absent => as_of.seq > 0,
            Miss::TooFewTurns => self.reaches_further(&key, as_of.seq, limit),
        };
        tally.count(|counts| match miss {
            Miss::HotStoreFails | Miss::Unreadable => counts.recent_unreadable += 1,
            Miss::Stale => counts.recent_stale += 1,
            Miss::Absent | Miss::TooLarge | Miss::TooFewTurns => counts.recent_absent += 1,
        });
        if needs_fill {
            self.copied_extents.insert(key, (as_of.seq, limit));
            self.fill(key, scope, session, limit);
        }
        None
    }

    /// Whether a copy built now, up to `seq` and for `limit` turns, could have more turns than the previous copy.
    fn reaches_further(&self, key: &HotKey, seq: u64, limit: usize) -> bool {
        let last = self.copied_extents.get(key);
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
        let shown = self.shown_sessions.shown_to(key, scope);
        if !shown.is_some_and(|shown| shown.admits(as_of)) {
            return Err(failure);
        }
        let oldest = copy.turns.first().map(|turn| turn.ordinal);
        let is_short = copy.turns.len() <= limit && !copy.all;
        let as_complete = Recent { all: true, ..copy };
        let Ok(mut page) = self.page(key, as_complete, limit) else {
            return Err(failure);
        };
        if is_short {
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
        let excess = turns.len().checked_sub(limit).filter(|excess| *excess > 0);
        let next_cursor = match excess {
            Some(excess) => turns.drain(..excess).next_back().map(|t| cursor(t.ordinal)),
            None if copy.all => None,
            None => return Err(Miss::TooFewTurns),
        };
        let mut bytes = 0;
        let mut shown = Vec::with_capacity(turns.len());
        for turn in turns {
            let json = sealed::open(&self.keyring, key, turn.ordinal, turn.record);
            let json = json.ok_or(Miss::Unreadable)?;
            bytes += json.len();
            shown.push(json);
        }
        // The ledger ends a page early at about this many bytes. At which turn depends on the ledger's own count, which
        // is unknown here.
        if bytes >= RECORDS_BYTES {
            return Err(Miss::TooLarge);
        }
        Ok(RecentTurns {
            turns: shown,
            next_cursor,
            as_of_seq: None,
        })
    }

    /// Builds a copy from the ledger in the background, unless all [`FILL_SLOTS`], or the caller's, are held.
    fn fill(&self, key: HotKey, scope: &Scope, session: &SessionId, limit: usize) {
        let Some(slot) = self
            .fill_slots
            .try_acquire(&scope.caller(), WorkSize::Small)
        else {
            return;
        };
        let (ledger, hot) = (self.ledger.clone(), self.hot.clone());
        let tally = self.tally.clone();
        let operator = Scope::new(scope.tenant.clone(), Viewer::Operator);
        let (viewer, session) = (scope.clone(), session.clone());
        tokio::spawn(async move {
            let _slot = slot;
            let filled = async {
                let bounds = hot.bounds();
                let turns_max = usize::try_from(bounds.turns).unwrap_or(usize::MAX);
                let query = TurnQuery {
                    status: Some(TurnStatus::Finalized),
                    order: TurnOrder::Newest,
                    limit: limit.saturating_add(1).max(COPY_TURNS_LEAST).min(turns_max),
                    ..TurnQuery::default()
                };
                let newest = ledger.query_listed(&viewer, move |snapshot| {
                    let head = snapshot.get(&operator, &session)?.head;
                    let (turns, next) = snapshot.turns(&operator, &session, &query)?;
                    let turns = turns
                        .iter()
                        .map(|turn| hot_turn(turn, &key, snapshot.keyring));
                    Ok(RecentFill {
                        as_of: HistoryVersion {
                            seq: head.last_seq,
                            link: head.link,
                        },
                        turns: turns.collect::<Result<Vec<HotTurn>, Failure>>()?,
                        all: next.is_none(),
                    })
                });
                let fill = keep_newest_within(newest.await?, bounds.bytes);
                tally.observe(hot.fill(&key, fill).await)?;
                tally.count(|counts| counts.recent_fills += 1);
                Ok::<(), Failure>(())
            };
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

/// Keeps the newest turns that fit in `bytes`.
fn keep_newest_within(mut fill: RecentFill, bytes: u64) -> RecentFill {
    let mut bytes_left = bytes;
    let fitting = fill.turns.iter().rev().take_while(|turn| {
        let remaining = bytes_left.checked_sub(turn.record.len() as u64);
        bytes_left = remaining.unwrap_or(0);
        remaining.is_some()
    });
    let excess = fill.turns.len() - fitting.count();
    if excess > 0 {
        fill.turns.drain(..excess);
        fill.all = false;
    }
    fill
}
