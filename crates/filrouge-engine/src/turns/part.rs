//! Reads a session part by part, for people: some items with all that explains them, and the outline of all turns.

use std::collections::HashMap;

use filrouge_store::Scope;
use filrouge_store::read::{LedgerSnapshot, VerifiedSession, in_session};
use filrouge_types::{Item, Result, Session, SessionId, Timestamp, Turn, TurnId, TurnStatus};

use crate::caller::{Caller, Permission};
use crate::engine::Turns;

/// The number of turn rows per read.
const ROWS_PER_READ: usize = 500;
/// The number of items that a part around an item has before that item.
const ITEMS_BEFORE: usize = 12;

/// Where a part of a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartPlace {
    /// It begins after this seq.
    After(u64),
    /// It ends before this seq.
    Before(u64),
    /// It contains the item with this seq, and some before it.
    Around(u64),
}

/// How large a part of a session is, and how an item counts towards it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartBounds {
    /// The maximum number of items.
    pub items: usize,
    /// The maximum size in bytes of the items' contents; a part has at least one item.
    pub bytes: usize,
    /// The maximum size in bytes with which an item counts: of a longer one, only this much is shown.
    pub item_bytes: usize,
}

/// Consecutive items of a session, and what a reader needs to understand them, from one snapshot of the store.
#[derive(Debug, Clone)]
pub struct ConversationPart {
    /// The session, with its agents.
    pub session: Session,
    /// The items, in the order of seq.
    pub items: Vec<Item>,
    /// The turns of the items, and those that directly replace them.
    pub turns: HashMap<TurnId, Turn>,
    /// The items that record the redactions of this part's items.
    pub redactions: Vec<Item>,
    /// Whether the session has earlier items.
    pub has_earlier: bool,
    /// Whether the session has later items.
    pub has_later: bool,
    /// The time of the first later item, if it was read.
    pub later_at: Option<Timestamp>,
}

/// A turn in an [`Outline`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutlineTurn {
    /// Its position among the session's turns, from 1.
    pub ordinal: u64,
    /// Its state.
    pub status: TurnStatus,
    /// The seq of its first item.
    pub first_seq: u64,
    /// The seq of its newest item, late ones included.
    pub last_seq: u64,
    /// Whether a newer version replaced it.
    pub is_replaced: bool,
    /// Whether it has errors or notes that were added after its end.
    pub has_late_items: bool,
}

/// What happened where in a session, without contents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outline {
    /// The turns in the order of their first items.
    pub turns: Vec<OutlineTurn>,
    /// The redacted items, as ranges of a first and a last seq.
    pub redacted: Vec<(u64, u64)>,
    /// The seqs of the newest summaries, at most eight.
    pub summaries: Vec<u64>,
    /// The seqs of the checkpoints.
    pub checkpoints: Vec<u64>,
}

impl Turns {
    /// Reads a part of a session.
    ///
    /// # Errors
    /// `session_not_found`, `session_erased`, `integrity_error`, and the ledger's errors.
    pub async fn part(
        &self,
        caller: &Caller,
        session: &SessionId,
        place: PartPlace,
        bounds: PartBounds,
    ) -> Result<ConversationPart> {
        let scope = &caller.scope(Permission::Read)?;
        self.ledger
            .query_session(scope, session, move |snapshot, scope, id| {
                let loaded = snapshot.get(scope, id)?;
                in_session(id, read_part(snapshot, scope, loaded, (place, bounds)))
            })
            .await
    }

    /// Reads the outline of a session.
    ///
    /// # Errors
    /// `session_not_found`, `session_erased`, `integrity_error`, and the ledger's errors.
    pub async fn outline(&self, caller: &Caller, session: &SessionId) -> Result<Outline> {
        let scope = &caller.scope(Permission::Read)?;
        self.ledger
            .query_session(scope, session, move |snapshot, scope, id| {
                let loaded = snapshot.get(scope, id)?;
                let checkpoints = snapshot.checkpoints(scope, id)?.into_iter();
                let checkpoints = checkpoints.map(|one| one.map_or_else(|seq| seq, |one| one.seq));
                let outline = Outline {
                    checkpoints: checkpoints.collect(),
                    ..Outline::default()
                };
                in_session(id, read_outline(snapshot, &loaded, outline))
            })
            .await
    }
}

impl PartBounds {
    /// The items of a part, and the time of the first later item, if it is among `items`: consecutive items, in the
    /// order of seq, that include those of the part.
    pub fn select(&self, place: PartPlace, mut items: Vec<Item>) -> (Vec<Item>, Option<Timestamp>) {
        let drop_before = match place {
            PartPlace::After(seq) => items.partition_point(|item| item.seq <= seq),
            PartPlace::Before(seq) => {
                let end = items.partition_point(|item| item.seq < seq);
                let later_at = items.get(end).map(Item::when);
                items.truncate(end);
                let kept = self.fitting(items.iter().rev()).min(end);
                items.drain(..end - kept);
                return (items, later_at);
            }
            PartPlace::Around(seq) => {
                let at = items.partition_point(|item| item.seq < seq);
                let half = Self {
                    items: ITEMS_BEFORE,
                    bytes: self.bytes / 2,
                    ..*self
                };
                at - half.fitting(items[..at].iter().rev()).min(at)
            }
        };
        items.drain(..drop_before);
        let kept = self.fitting(items.iter());
        let later_at = items.get(kept).map(Item::when);
        items.truncate(kept);
        (items, later_at)
    }

    /// The number of these items, from the first one on, that a part may have: at least one.
    fn fitting<'a>(&self, items: impl Iterator<Item = &'a Item>) -> usize {
        let mut bytes = 0_usize;
        let fits = |item: &&Item| {
            bytes = bytes.saturating_add(item.body.bytes().min(self.item_bytes));
            bytes <= self.bytes
        };
        items.take(self.items).take_while(fits).count().max(1)
    }
}

fn read_part(
    snapshot: &LedgerSnapshot<'_>,
    scope: &Scope,
    loaded: VerifiedSession,
    (place, bounds): (PartPlace, PartBounds),
) -> Result<ConversationPart> {
    let newest = loaded.head.last_seq;
    let (limit, before) = (bounds.items as u64, ITEMS_BEFORE as u64);
    let after = match place {
        PartPlace::After(seq) => seq,
        PartPlace::Before(seq) => seq.saturating_sub(limit + 1),
        PartPlace::Around(seq) => seq.min(newest).saturating_sub(before + 1),
    };
    // One more item shows the time at which the next part begins.
    let (mut items, _) = snapshot.items_of(&loaded, after, bounds.items + 1)?;
    if let PartPlace::Around(seq) = place
        && items.last().is_some_and(|item| item.seq < seq.min(newest))
    {
        // The page ended early, because the items before this one are large.
        items = snapshot
            .items_of(&loaded, seq.min(newest) - 1, bounds.items + 1)?
            .0;
    }
    let (items, later_at) = bounds.select(place, items);
    let contentless = items.iter().filter(|item| item.redacted);
    let contentless: Vec<u64> = contentless.map(|item| item.seq).collect();
    let first = items.first().map_or(after + 1, |item| item.seq);
    let last = items.last().map_or(after, |item| item.seq);
    Ok(ConversationPart {
        turns: turns_of(snapshot, scope, &loaded, &items)?,
        redactions: snapshot.redactions_of(&loaded, &contentless)?,
        has_earlier: first > snapshot.view.first_seq(loaded.pk)?.max(1) && !items.is_empty(),
        has_later: last < newest && !items.is_empty(),
        later_at,
        items,
        session: Session {
            agents: snapshot.agents(&loaded)?.into_iter().collect(),
            ..loaded.row.with_head(&loaded.head)
        },
    })
}

/// The turns of these items, and those that directly replace them: a turn may have been replaced any number of times.
fn turns_of(
    snapshot: &LedgerSnapshot<'_>,
    scope: &Scope,
    loaded: &VerifiedSession,
    items: &[Item],
) -> Result<HashMap<TurnId, Turn>> {
    let mut turns: HashMap<TurnId, Turn> = HashMap::new();
    let mut read = |id: TurnId| -> Result<Option<TurnId>> {
        if let Some(turn) = turns.get(&id) {
            return Ok(turn.replaced_by_turn_id);
        }
        let Some(row) = snapshot.find_turn(loaded, scope, &id)? else {
            return Ok(None);
        };
        let turn = snapshot.project(loaded, &row)?;
        let replacement = turn.replaced_by_turn_id;
        turns.insert(id, turn);
        Ok(replacement)
    };
    for id in items.iter().filter_map(|item| item.turn_id) {
        if let Some(replacement) = read(id)? {
            read(replacement)?;
        }
    }
    Ok(turns)
}

fn read_outline(
    snapshot: &LedgerSnapshot<'_>,
    loaded: &VerifiedSession,
    mut outline: Outline,
) -> Result<Outline> {
    let (mut before, mut newer) = (None, None);
    loop {
        let rows = snapshot.turn_rows_descending(loaded, before, ROWS_PER_READ)?;
        let Some(last) = rows.last() else {
            break;
        };
        before = Some(last.place());
        // The newest version of a turn comes first.
        outline.turns.extend(rows.iter().map(|row| OutlineTurn {
            ordinal: row.ordinal,
            status: row.status,
            first_seq: row.first_seq,
            last_seq: row.newest_seq(),
            is_replaced: newer.replace(row.ordinal) == Some(row.ordinal),
            has_late_items: row.late_seq > 0,
        }));
    }
    outline.turns.sort_unstable_by_key(|turn| turn.first_seq);
    outline.redacted = snapshot.all_redacted(loaded)?.ranges().collect();
    outline.summaries.clone_from(&loaded.head.summaries);
    Ok(outline)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use filrouge_store::memory::MemoryLedger;
    use filrouge_store::{Keyring, OsEntropy};
    use filrouge_types::{Channel, FixedClock, ItemBody, RawJson, Role, TenantId};

    use super::*;
    use crate::{Engine, Settings, StartTurn};

    fn items(sizes: &[usize]) -> Vec<Item> {
        let item = |(seq, size): (u64, &usize)| {
            let parts = RawJson::from_checked(format!("[\"{}\"]", "x".repeat(*size - 4)));
            Item {
                seq,
                turn_id: None,
                created_at: Timestamp::from_micros(i64::try_from(seq).unwrap()),
                redacted: false,
                body: ItemBody::new(Role::User, Channel::Question, parts),
            }
        };
        (1..).zip(sizes).map(item).collect()
    }

    #[test]
    fn a_part_is_bounded_by_items_and_bytes() {
        let bounds = PartBounds {
            items: 3,
            bytes: 100,
            item_bytes: 50,
        };
        let select = |place, sizes: &[usize]| {
            let (items, later_at) = bounds.select(place, items(sizes));
            let seqs: Vec<u64> = items.iter().map(|item| item.seq).collect();
            (seqs, later_at.map(Timestamp::as_micros))
        };
        let small = [10; 6];
        assert_eq!(
            select(PartPlace::After(0), &small),
            (vec![1, 2, 3], Some(4))
        );
        assert_eq!(select(PartPlace::After(4), &small), (vec![5, 6], None));
        assert_eq!(select(PartPlace::After(6), &small), (vec![], None));
        assert_eq!(
            select(PartPlace::Before(6), &small),
            (vec![3, 4, 5], Some(6))
        );
        assert_eq!(select(PartPlace::Before(1), &small), (vec![], Some(1)));
        // A large item counts as much as is shown of it.
        let large = [900, 900, 900, 10];
        assert_eq!(select(PartPlace::After(0), &large), (vec![1, 2], Some(3)));
        assert_eq!(select(PartPlace::Before(4), &large), (vec![2, 3], Some(4)));
        assert_eq!(select(PartPlace::Around(4), &large), (vec![3, 4], None));
    }

    #[tokio::test]
    async fn of_a_turn_that_was_replaced_often_only_the_next_version_is_read() {
        let clock = Arc::new(FixedClock::at(1));
        let keyring = Arc::new(Keyring::single([7; 32]));
        let ledger = MemoryLedger::new(keyring, Arc::new(OsEntropy), clock.clone());
        let settings = Settings::default();
        let engine = Engine::new(Arc::new(ledger), Arc::new(OsEntropy), clock, settings);
        let caller = Caller::local(TenantId::default_tenant(), None);
        let session: SessionId = "s".parse().unwrap();
        let version = |number: u32| -> StartTurn {
            let text = format!(
                r#"{{"request_id":"{number}","question_neutral":"q","answer_neutral":"{number}"}}"#
            );
            serde_json::from_str(&text).unwrap()
        };
        let first = engine.turns.start(&caller, session.clone(), version(1));
        let mut versions = vec![first.await.unwrap().into_value().turn_id];
        for number in 2..5 {
            let (session, old) = (session.clone(), versions[versions.len() - 1]);
            let turn = engine.turns.replace(&caller, session, old, version(number));
            versions.push(turn.await.unwrap().turn_id);
        }
        let bounds = PartBounds {
            items: 1,
            bytes: 1000,
            item_bytes: 1000,
        };
        let part = engine
            .turns
            .part(&caller, &session, PartPlace::After(0), bounds);
        let turns = part.await.unwrap().turns;
        assert_eq!(turns.len(), 2);
        assert!(versions[..2].iter().all(|id| turns.contains_key(id)));
    }
}
