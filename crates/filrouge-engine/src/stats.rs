//! Statistics of a session and its descendants: turns, items, tools, tokens (DESIGN §10).

use std::collections::{BTreeSet, HashMap};

use filrouge_store::command::Scope;
use filrouge_store::read::{Findings, LedgerSnapshot, VerifiedSession, in_session};
use filrouge_store::verify::Finding;
use filrouge_types::{Result, SessionId, Timestamp, TurnId, TurnStatus};
use serde::Serialize;

use crate::caller::{Caller, Permission};
use crate::engine::Stats;
use crate::lineage::{Relative, descendants};

mod by_day;
mod copies;
mod item;
#[cfg(test)]
mod tests;
mod usage;

pub use by_day::{DayFigures, DayKey, SessionDays};
use copies::CountedItems;
pub use copies::Origin;
pub use usage::{Tokens, tokens as usage_tokens};

/// The maximum number of items of descendants that are examined.
const ITEMS_MAX: u64 = 1_000_000;
/// The maximum number of distinct agents, and of models, that are listed.
const NAMES_MAX: usize = 1000;
/// The number of items and turns per read.
const PAGE: usize = 500;

/// The number of turns in each state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct TurnsByStatus {
    /// Turns that are being answered.
    pub open: u64,
    /// Turns that were abandoned before they ended.
    pub interrupted: u64,
    /// Turns that were answered.
    pub finalized: u64,
    /// Turns that were ended by an error.
    pub failed: u64,
    /// Turns that were ended by the user.
    pub cancelled: u64,
}

impl TurnsByStatus {
    pub(crate) const fn count_of(&mut self, status: TurnStatus) -> &mut u64 {
        match status {
            TurnStatus::Open => &mut self.open,
            TurnStatus::Interrupted => &mut self.interrupted,
            TurnStatus::Finalized => &mut self.finalized,
            TurnStatus::Failed => &mut self.failed,
            TurnStatus::Cancelled => &mut self.cancelled,
        }
    }
}

/// Sums over sessions. Of a replaced turn only the items are counted, so that no token is counted twice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Statistics {
    /// The number of sessions.
    pub sessions: u64,
    /// The number of turns; a turn and its replacements count as one.
    pub turns: u64,
    /// The turns by state.
    pub turns_by_status: TurnsByStatus,
    /// The number of items, including redacted ones.
    pub items: u64,
    /// The messages between user and agent in the neutral language: questions (one per turn), finals, partials, and the
    /// requests to and responses of a human in the loop.
    pub messages: u64,
    /// The number of tool calls.
    pub tool_calls: u64,
    /// The number of tool results with `ok: false`.
    pub tool_errors: u64,
    /// The agents that spoke; at most 1,000.
    #[schema(value_type = Vec<String>)]
    pub agents: BTreeSet<Box<str>>,
    /// The models that wrote items; at most 1,000.
    #[schema(value_type = Vec<String>)]
    pub models: BTreeSet<Box<str>>,
    /// The tokens, each counted once.
    pub tokens: Tokens,
    /// Items whose `usage` has an unknown shape; their tokens are not counted.
    pub usage_unknown: u64,
    /// When the first item happened, by its caller's clock if given, otherwise by the store's.
    pub first_at: Option<Timestamp>,
    /// When the last item happened.
    pub last_at: Option<Timestamp>,
    /// Milliseconds between the two.
    pub duration_ms: Option<u64>,
}

/// Statistics of a session and its descendants, as far as the caller can see them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct SessionStatistics {
    /// The session.
    pub session_id: SessionId,
    /// The session without its descendants.
    pub own: Statistics,
    /// The session with its descendants.
    pub with_descendants: Statistics,
    /// The session with its descendants, without items that were copied from another session: imported items that are
    /// older than their session, and items that a session counted earlier contains as well.
    pub without_copied: Statistics,
    /// Whether descendants or names were left out because there are too many.
    pub truncated: bool,
    /// Damaged sessions that may be descendants; they and the sessions that they started are left out. Absent if there
    /// are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}

impl Stats {
    /// Statistics of a session and its descendants, from one consistent snapshot of the store.
    ///
    /// Of descendants at most 1,000 sessions and 1,000,000 items are examined.
    ///
    /// # Errors
    /// `session_not_found`, `session_erased`, `integrity_error`, and the ledger's errors.
    pub async fn of(&self, caller: &Caller, session: &SessionId) -> Result<SessionStatistics> {
        let scope = &caller.scope(Permission::Read)?;
        self.ledger
            .query_session(scope, session, move |snapshot, scope, id| {
                statistics(snapshot, scope, id.clone(), ITEMS_MAX)
            })
            .await
    }
}

/// Computes the statistics of a session and its descendants; `items_left` is the maximum number of items of descendants
/// that are examined.
fn statistics(
    snapshot: &LedgerSnapshot<'_>,
    scope: &Scope,
    session_id: SessionId,
    mut items_left: u64,
) -> Result<SessionStatistics> {
    let loaded = snapshot.get(scope, &session_id)?;
    let mut findings = Findings::default();
    let descendants = descendants(snapshot, scope, &session_id, &mut findings)?;
    let mut truncated = descendants.truncated;
    let mut counted_items = CountedItems::new(!descendants.sessions.is_empty());
    let [mut own, mut without_copied] = in_session(
        &session_id,
        session_sums(snapshot, &loaded, &mut counted_items),
    )?;
    let mut with_descendants = own.clone();
    for (_, Relative { session_id: id, .. }) in descendants.sessions {
        let loaded = snapshot.get(scope, &id)?;
        let Some(remaining) = items_left.checked_sub(loaded.head.last_seq) else {
            truncated = true;
            break;
        };
        items_left = remaining;
        let [all, original] = in_session(&id, session_sums(snapshot, &loaded, &mut counted_items))?;
        with_descendants.add(&all);
        without_copied.add(&original);
    }
    for sums in [&mut own, &mut with_descendants, &mut without_copied] {
        truncated |= sums.finish();
    }
    Ok(SessionStatistics {
        session_id,
        own,
        with_descendants,
        without_copied,
        truncated,
        findings: findings.into_vec(),
    })
}

/// The state of a turn while its session's items are counted.
struct TurnState {
    status: TurnStatus,
    /// Whether a newer version replaced the turn.
    replaced: bool,
    /// Whether an item of the turn was counted that is not a copy.
    original: bool,
}

/// All turns of a session. The result has a few bytes per turn, and no texts.
fn turns(
    snapshot: &LedgerSnapshot<'_>,
    session: &VerifiedSession,
) -> Result<HashMap<TurnId, TurnState>> {
    let mut turns = HashMap::new();
    let (mut before, mut newer) = (None, None);
    loop {
        let rows = snapshot.turn_rows_descending(session, before, PAGE)?;
        let Some(last) = rows.last() else {
            return Ok(turns);
        };
        before = Some(last.place());
        for row in rows {
            // The newest version of a turn comes first.
            let replaced = newer.replace(row.ordinal) == Some(row.ordinal);
            let state = TurnState {
                status: row.status,
                replaced,
                original: false,
            };
            turns.insert(row.turn_id, state);
        }
    }
}

/// Two sums over a session: over all its items, and over those that are not copied from another session.
fn session_sums(
    snapshot: &LedgerSnapshot<'_>,
    session: &VerifiedSession,
    counted_items: &mut CountedItems,
) -> Result<[Statistics; 2]> {
    let origin = Origin::of(&session.row.metadata);
    let mut turns = turns(snapshot, session)?;
    let mut all = Statistics {
        sessions: 1,
        ..Statistics::default()
    };
    let mut original = all.clone();
    for turn in turns.values().filter(|t| !t.replaced) {
        all.add_turn(turn.status);
    }
    let (mut after, mut open_question) = (0, None);
    loop {
        let (page, next) = snapshot.items_of(session, after, PAGE)?;
        after = page.last().map_or(after, |i| i.seq);
        for item in page {
            let turn = item.turn_id.and_then(|id| turns.get_mut(&id));
            let contribution = match &turn {
                Some(turn) if turn.replaced => Statistics {
                    items: 1,
                    ..Statistics::default()
                },
                _ => item::statistics_of(&item, &origin, &mut open_question),
            };
            all.add(&contribution);
            if counted_items.is_copy(session.pk, &item, &origin) {
                continue;
            }
            original.add(&contribution);
            if let Some(turn) = turn.filter(|t| !t.replaced && !t.original) {
                turn.original = true;
                original.add_turn(turn.status);
            }
        }
        if next.is_none() {
            return Ok([all, original]);
        }
    }
}

impl Statistics {
    fn add_turn(&mut self, status: TurnStatus) {
        self.turns += 1;
        *self.turns_by_status.count_of(status) += 1;
    }

    fn add(&mut self, other: &Self) {
        self.sessions += other.sessions;
        self.turns += other.turns;
        let mut counts = other.turns_by_status;
        for status in TurnStatus::ALL {
            *self.turns_by_status.count_of(status) += *counts.count_of(status);
        }
        self.items += other.items;
        self.messages += other.messages;
        self.tool_calls += other.tool_calls;
        self.tool_errors += other.tool_errors;
        self.usage_unknown += other.usage_unknown;
        self.tokens.add(&other.tokens);
        add_names(&mut self.agents, &other.agents);
        add_names(&mut self.models, &other.models);
        let first = [self.first_at, other.first_at];
        self.first_at = first.into_iter().flatten().min();
        self.last_at = self.last_at.max(other.last_at);
    }

    /// Computes the duration and removes names beyond the limit. Returns whether names were removed.
    fn finish(&mut self) -> bool {
        let both = self.first_at.zip(self.last_at);
        self.duration_ms = both.map(|(a, b)| b.as_micros().abs_diff(a.as_micros()) / 1000);
        let mut removed = false;
        for names in [&mut self.agents, &mut self.models] {
            if names.len() > NAMES_MAX {
                names.pop_last();
                removed = true;
            }
        }
        removed
    }
}

/// Adds names up to one more than the limit, which shows [`Statistics::finish`] that there are too many.
fn add_names(names: &mut BTreeSet<Box<str>>, more: &BTreeSet<Box<str>>) {
    for name in more {
        if names.len() <= NAMES_MAX && !names.contains(name) {
            names.insert(name.clone());
        }
    }
}
