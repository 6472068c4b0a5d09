//! The newest turns of a durable session, from a copy that is known to be what the ledger would answer (DESIGN §7).
//!
//! The ledger says whose the session is and which history it has, in one indexed read; the copy is used when it is one of
//! that history. While the ledger does not answer, a copy is used for those alone of whom this process knows that they
//! may see it, and says which seq it stands at.

use filrouge_store::command::{Scope, Viewer};
use filrouge_store::hot::{AsOf, Fill, HotKey, HotStore, HotTurn, Recent};
use filrouge_store::read::{Sight, TurnOrder, TurnQuery};
use filrouge_store::rows::RECORDS_BYTES;
use filrouge_store::{Ledger, View};
use filrouge_types::{ErrorCode, Failure, SessionId, TurnStatus};

use super::step::hot_turn;
use super::tally::Tally;
use super::verified::Verified;
use super::view::{HotState, RecentTurns};
use super::{DurablePolicy, TwoScopes, sealed};

/// Fewest turns that a copy is made with.
const FILL: usize = 50;
/// Most copies that are made at once.
pub(super) const FILLS: u32 = 8;

/// What the ledger says of a session.
pub(super) struct Head {
    pub(super) as_of: AsOf,
    /// Whether it is the viewer's for good: nobody else can become its owner.
    pub(super) owned: bool,
}

impl Head {
    pub(super) fn of(
        sight: &Sight<'_, dyn View + '_>,
        scope: &Scope,
        session: &SessionId,
    ) -> Result<Self, Failure> {
        let loaded = sight.get(scope, session)?;
        let owned = match &scope.viewer {
            Viewer::Operator => true,
            Viewer::EndUser(None) => false,
            Viewer::EndUser(identity) => *identity == loaded.row.identity_id,
        };
        let as_of = AsOf {
            seq: loaded.head.last_seq,
            link: loaded.head.link,
        };
        Ok(Self { as_of, owned })
    }
}

/// Why a copy is of no use.
enum Miss {
    /// The hot store has failed.
    Failing,
    /// There is none.
    Absent,
    /// It is one of another history.
    Stale,
    /// It does not reach as far as was asked.
    Short,
    /// It is too large for one page.
    Large,
    /// It is not what was put there.
    Unreadable,
}

/// Whether the ledger has not answered at all.
pub(super) fn is_silent(failure: &Failure) -> bool {
    matches!(
        failure.code,
        ErrorCode::StoreUnavailable | ErrorCode::Overloaded
    )
}

impl TwoScopes {
    /// The newest finalized turns of a session that are shown, when a copy of them is at hand that is known to be what
    /// the ledger would answer; `None` sends to the ledger.
    ///
    /// # Errors
    /// `session_not_found`, `integrity_error`, and the ledger's.
    pub async fn recent_turns(
        &self,
        scope: &Scope,
        session: &SessionId,
        limit: usize,
    ) -> Result<Option<RecentTurns>, Failure> {
        let ephemeral = self.options.durable == DurablePolicy::Authenticated;
        // Whoever is nobody sees no durable session that grows.
        if ephemeral && scope.viewer == Viewer::EndUser(None) || self.hot.failure().is_some() {
            return Ok(None);
        }
        let key = self.key(scope, session);
        let wanted = limit.saturating_add(1);
        let (head, copy) = tokio::join!(self.head(scope, session), self.hot.recent(&key, wanted));
        let copy = self.tally.noted(copy);
        match head {
            Ok(head) => {
                self.verified.saw(key, scope, head.as_of, head.owned);
                Ok(self.fresh(key, scope, session, limit, head.as_of, copy))
            }
            Err(failure) if is_silent(&failure) => self.as_of(&key, scope, limit, copy, failure),
            Err(failure) if ephemeral && failure.code == ErrorCode::SessionNotFound => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    async fn head(&self, scope: &Scope, session: &SessionId) -> Result<Head, Failure> {
        let (viewer, of) = (scope.clone(), session.clone());
        // Named, so that the store fetches it in one round trip.
        let question = move |sight: &Sight<'_, dyn View + '_>| Head::of(sight, &viewer, &of);
        self.ledger.ask_in(scope, session, question).await
    }

    /// The page of a copy of the ledger's history; without one, a copy is made for the next reader.
    fn fresh(
        &self,
        key: HotKey,
        scope: &Scope,
        session: &SessionId,
        limit: usize,
        as_of: AsOf,
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
            // Of a session without turns there is nothing to copy.
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

    /// Whether a copy made now reaches further than the one that was made last.
    fn reaches_further(&self, key: &HotKey, seq: u64, limit: usize) -> bool {
        let last = self.filled.get(key);
        last.is_none_or(|(made, most)| made != seq || most < limit)
    }

    /// The page of a copy while the ledger does not answer.
    fn as_of(
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
        let admitted = self.verified.of(key, scope);
        if !admitted.is_some_and(|known| known.admits(as_of)) {
            return Err(failure);
        }
        let oldest = copy.turns.first().map(|turn| turn.ordinal);
        let short = copy.turns.len() <= limit && !copy.all;
        let all = Recent { all: true, ..copy };
        let Ok(mut page) = self.page(key, all, limit) else {
            return Err(failure);
        };
        if short {
            // From the turn before on, which the ledger has.
            page.next_cursor = oldest.filter(|n| *n > 1).map(|n| cursor(n - 1));
        }
        self.tally.count(|counts| counts.recent_as_of += 1);
        page.as_of_seq = Some(as_of.seq);
        Ok(Some(page))
    }

    /// A page as the ledger would answer it.
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
        // The ledger ends a page early that has so many; where, its own count says.
        if bytes >= RECORDS_BYTES {
            return Err(Miss::Large);
        }
        Ok(RecentTurns {
            turns: shown,
            next_cursor,
            as_of_seq: None,
        })
    }

    /// Makes a copy from the ledger, in the background; not when many are being made already.
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
            let made = fill(
                ledger.as_ref(),
                hot.as_ref(),
                &tally,
                key,
                operator,
                session,
                limit,
            );
            if let Err(failure) = made.await {
                tracing::debug!(%key, code = failure.code.as_str(), "[SESSIONS][HOT] no copy was made");
            }
        });
    }

    /// Compares a session's copy in the hot store with the ledger: asks both.
    ///
    /// # Errors
    /// `session_not_found`, `hot_unavailable`, and the ledger's.
    pub async fn compare(&self, scope: &Scope, session: &SessionId) -> Result<HotState, Failure> {
        let key = self.key(scope, session);
        // The ledger last: what is written in between makes the copy look older, never newer.
        let copy = self.tally.noted(self.hot.recent(&key, 1).await)?;
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

/// As the ledger's: from the newest version of the turn on.
fn cursor(ordinal: u64) -> String {
    ((ordinal << 8) | 0xff).to_string()
}

async fn fill(
    ledger: &dyn Ledger,
    hot: &dyn HotStore,
    tally: &Tally,
    key: HotKey,
    scope: Scope,
    session: SessionId,
    limit: usize,
) -> Result<(), Failure> {
    let bounds = hot.bounds();
    let most = usize::try_from(bounds.turns).unwrap_or(usize::MAX);
    let query = TurnQuery {
        status: Some(TurnStatus::Finalized),
        order: TurnOrder::Newest,
        limit: limit.saturating_add(1).max(FILL).min(most),
        ..TurnQuery::default()
    };
    let question = ledger.ask(move |sight| {
        let head = sight.get(&scope, &session)?.head;
        let (turns, next) = sight.turns(&scope, &session, &query)?;
        let turns = turns.iter().map(|turn| hot_turn(turn, &key, sight.keyring));
        let fill = Fill {
            as_of: AsOf {
                seq: head.last_seq,
                link: head.link,
            },
            turns: turns.collect::<Result<Vec<HotTurn>, Failure>>()?,
            all: next.is_none(),
        };
        Ok(fill)
    });
    let fill = within(question.await?, bounds.bytes);
    tally.noted(hot.fill(&key, fill).await)?;
    tally.count(|counts| counts.recent_fills += 1);
    Ok(())
}

/// The newest turns that have room.
fn within(mut fill: Fill, bytes: u64) -> Fill {
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
    /// Whether a copy that stands there may be shown to the viewer without asking the ledger.
    fn admits(&self, copy: AsOf) -> bool {
        // Somebody may have become the owner since; then the copy would be another one.
        copy == self.as_of || (self.owned && copy.seq > self.as_of.seq)
    }
}
