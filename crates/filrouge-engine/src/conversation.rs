//! Reads an entire conversation, for exports, sources and the index.

use std::collections::HashMap;

use filrouge_store::read::{LedgerSnapshot, VerifiedSession, in_session};
use filrouge_types::{Item, Recorded, Result, SessionId, TurnId};

use crate::caller::{Caller, Permission};
use crate::engine::Context;

/// The maximum size, in bytes, of the contents of one conversation or one restored context in memory.
pub(crate) const CONTENTS_MAX: usize = 256 << 20;

impl Context {
    /// An entire conversation, from one consistent snapshot of the store.
    ///
    /// # Errors
    /// `session_not_found`, `limit_exceeded` when its contents have more than 256 MiB, `integrity_error`.
    pub async fn conversation(&self, caller: &Caller, session: &SessionId) -> Result<Recorded> {
        let scope = &caller.scope(Permission::Read)?;
        self.ledger
            .query_session(scope, session, move |snapshot, scope, id| {
                let loaded = snapshot.get(scope, id)?;
                in_session(id, read_conversation(snapshot, loaded))
            })
            .await
    }
}

pub(crate) fn read_conversation(
    snapshot: &LedgerSnapshot<'_>,
    loaded: VerifiedSession,
) -> Result<Recorded> {
    let mut by_turn: HashMap<TurnId, Vec<Item>> = HashMap::new();
    let mut loose = Vec::new();
    let mut bytes_left = CONTENTS_MAX;
    for item in snapshot.items_between(&loaded, 1, loaded.head.last_seq, &mut bytes_left)? {
        match item.turn_id {
            Some(turn) => by_turn.entry(turn).or_default().push(item),
            None => loose.push(item),
        }
    }
    let mut turns = Vec::new();
    snapshot.for_each_turn(&loaded, |turn| {
        let items = by_turn.remove(&turn.turn_id).unwrap_or_default();
        turns.push((turn, items));
        Ok(())
    })?;
    Ok(Recorded {
        session: loaded.row.with_head(&loaded.head),
        turns,
        loose,
    })
}
