//! The figures of one session by day, agent and model.

use std::collections::{BTreeMap, HashMap};

use filrouge_store::read::{LedgerSnapshot, VerifiedSession, in_session};
use filrouge_types::{Item, Result, SessionId, TurnId, TurnStatus};

use super::copies::{CountedItems, Origin};
use super::item::statistics_of;
use super::usage::Tokens;
use super::{PAGE, TurnState, turns};
use crate::caller::{Caller, Permission};
use crate::engine::Stats;

/// The maximum number of rows of a session. Figures that would need further ones are counted without agent and model.
const ROWS_MAX: usize = 10_000;
/// A day in microseconds.
const DAY: i64 = 86_400_000_000;

/// What the figures of a row are about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DayKey {
    /// The day in UTC, counted from 1970-01-01.
    pub day: i64,
    /// The agent; `None` for items without one.
    pub agent: Option<Box<str>>,
    /// The model; `None` for items without one.
    pub model: Option<Box<str>>,
}

/// Figures of one day, agent and model. An item counts on the day on which it happened. A turn counts on the day of its
/// first item, for the last agent and the last model that wrote in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DayFigures {
    /// The turns, without replaced ones.
    pub turns: u64,
    /// The turns that were ended by an error.
    pub failed: u64,
    /// The tokens.
    pub tokens: Tokens,
    /// Items whose `usage` has an unknown shape; their tokens are not counted.
    pub usage_unknown: u64,
}

/// The figures of a session, at most 10,000 rows.
pub type SessionDays = BTreeMap<DayKey, DayFigures>;

impl Stats {
    /// The figures of a session without its descendants, by day, agent and model. Their sums are those of
    /// [`SessionStatistics::own`](super::SessionStatistics::own), without items that are older than their imported
    /// session. Reads the entire session.
    ///
    /// # Errors
    /// `session_not_found`, `session_erased`, `integrity_error`, and the ledger's errors.
    pub async fn by_day(&self, caller: &Caller, session: &SessionId) -> Result<SessionDays> {
        let scope = &caller.scope(Permission::Read)?;
        self.ledger
            .query_session(scope, session, move |snapshot, scope, id| {
                let loaded = snapshot.get(scope, id)?;
                in_session(id, days(snapshot, &loaded))
            })
            .await
    }
}

fn days(snapshot: &LedgerSnapshot<'_>, session: &VerifiedSession) -> Result<SessionDays> {
    let origin = Origin::of(&session.row.metadata);
    let states = turns(snapshot, session)?;
    let mut counted_items = CountedItems::new(false);
    let (mut tally, mut after) = (DayTally::default(), 0);
    loop {
        let (page, next) = snapshot.items_of(session, after, PAGE)?;
        after = page.last().map_or(after, |item| item.seq);
        for item in &page {
            let state = item.turn_id.and_then(|id| states.get(&id));
            let is_replaced = state.is_some_and(|state| state.replaced);
            if !is_replaced && !counted_items.is_copy(session.pk, item, &origin) {
                tally.add(item, &origin);
            }
        }
        if next.is_none() {
            return Ok(tally.finish(&states));
        }
    }
}

/// The figures so far.
#[derive(Default)]
struct DayTally {
    rows: SessionDays,
    /// For each turn, what it counts for.
    turns: HashMap<TurnId, DayKey>,
}

impl DayTally {
    fn add(&mut self, item: &Item, origin: &Origin) {
        let day = item.when().as_micros().div_euclid(DAY);
        let (agent, model) = (&item.body.agent, &item.body.model);
        if let Some(id) = item.turn_id {
            let turn = self.turns.entry(id).or_insert(DayKey {
                day,
                agent: None,
                model: None,
            });
            if agent.is_some() {
                turn.agent.clone_from(agent);
            }
            if model.is_some() {
                turn.model.clone_from(model);
            }
        }
        let counted = statistics_of(item, origin, &mut None);
        if counted.tokens == Tokens::default() && counted.usage_unknown == 0 {
            return;
        }
        let key = DayKey {
            day,
            agent: agent.clone(),
            model: model.clone(),
        };
        let row = self.row(key);
        row.tokens.add(&counted.tokens);
        row.usage_unknown += counted.usage_unknown;
    }

    fn row(&mut self, key: DayKey) -> &mut DayFigures {
        let has_room = self.rows.len() < ROWS_MAX || self.rows.contains_key(&key);
        let key = match has_room {
            true => key,
            false => DayKey {
                agent: None,
                model: None,
                ..key
            },
        };
        self.rows.entry(key).or_default()
    }

    fn finish(mut self, states: &HashMap<TurnId, TurnState>) -> SessionDays {
        for (id, key) in std::mem::take(&mut self.turns) {
            let Some(state) = states.get(&id) else {
                continue;
            };
            let row = self.row(key);
            row.turns += 1;
            row.failed += u64::from(state.status == TurnStatus::Failed);
        }
        self.rows
    }
}
