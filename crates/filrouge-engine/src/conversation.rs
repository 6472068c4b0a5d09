//! A whole conversation, for whoever writes it down for people.

use std::collections::HashMap;

use filrouge_store::read::{Loaded, Sight, in_session};
use filrouge_store::rows::View;
use filrouge_types::{Failure, Item, Recorded, SessionId, TurnId};

use crate::caller::{Caller, Permission};
use crate::engine::Context;

/// Most bytes of contents that are held in memory for one conversation or one restored context.
pub(crate) const CONTENTS_MAX: usize = 256 << 20;

impl Context {
    /// A whole conversation, from one consistent sight of the store.
    ///
    /// # Errors
    /// `session_not_found`, `limit_exceeded` when its contents have more than 256 MiB, `integrity_error`.
    pub async fn conversation(
        &self,
        caller: &Caller,
        session: &SessionId,
    ) -> Result<Recorded, Failure> {
        let scope = &caller.scope(Permission::Read)?;
        let (viewer, id) = (scope.clone(), session.clone());
        self.ledger
            .ask_in(scope, session, move |sight| {
                let loaded = sight.get(&viewer, &id)?;
                in_session(&id, read(sight, loaded))
            })
            .await
    }
}

pub(crate) fn read<V: View + ?Sized>(
    sight: &Sight<'_, V>,
    loaded: Loaded,
) -> Result<Recorded, Failure> {
    let mut by_turn: HashMap<TurnId, Vec<Item>> = HashMap::new();
    let mut loose = Vec::new();
    let mut room = CONTENTS_MAX;
    for item in sight.items_between(&loaded, 1, loaded.head.last_seq, &mut room)? {
        match item.turn_id {
            Some(turn) => by_turn.entry(turn).or_default().push(item),
            None => loose.push(item),
        }
    }
    let mut turns = Vec::new();
    sight.each_turn(&loaded, |turn| {
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
