//! A session rebuilt from its items alone.

use std::collections::BTreeMap;

use filrouge_types::{Failure, TurnId, TurnStatus};

use crate::read::Loaded;
use crate::record::Event;
use crate::rows::TurnRow;
use crate::rules::final_slot;

/// What the items say.
#[derive(Default)]
pub(super) struct Rebuilt {
    pub(super) turns: BTreeMap<TurnId, RebuiltTurn>,
    pub(super) ordinals: u64,
    pub(super) keys: u64,
}

pub(super) struct RebuiltTurn {
    ordinal: u64,
    record_version: u64,
    pub(super) status: TurnStatus,
    first_seq: u64,
    last_seq: u64,
    items: u64,
    finals: [u64; 2],
}

impl RebuiltTurn {
    pub(super) fn agrees(&self, row: &TurnRow) -> bool {
        (
            self.ordinal,
            self.record_version,
            self.status,
            self.first_seq,
            self.last_seq,
            self.items,
            self.finals,
        ) == (
            row.ordinal,
            row.record_version,
            row.status,
            row.first_seq,
            row.last_seq,
            row.items,
            row.finals,
        )
    }
}

impl Rebuilt {
    pub(super) fn take(
        &mut self,
        session: &Loaded,
        item: &filrouge_types::Item,
        events: &[Event],
    ) -> Result<(), Failure> {
        let Some(turn_id) = item.turn_id else {
            return Ok(());
        };
        for event in events {
            if let Event::Start(start) = event {
                let (ordinal, record_version) =
                    match start.replaces.and_then(|old| self.turns.get(&old)) {
                        Some(old) => (old.ordinal, old.record_version + 1),
                        None => {
                            self.ordinals += 1;
                            (self.ordinals, 1)
                        }
                    };
                self.turns.insert(
                    turn_id,
                    RebuiltTurn {
                        ordinal,
                        record_version,
                        status: TurnStatus::Open,
                        first_seq: item.seq,
                        last_seq: item.seq,
                        items: 0,
                        finals: [0; 2],
                    },
                );
            }
        }
        let Some(turn) = self.turns.get_mut(&turn_id) else {
            return Err(session.broken(
                Some(item.seq),
                "the item belongs to a turn that never began",
            ));
        };
        turn.last_seq = item.seq;
        turn.items += 1;
        if let Some(slot) = final_slot(item.role, &item.channel, item.variant) {
            turn.finals[slot] = item.seq;
        }
        for event in events {
            match event {
                Event::Start(_) => {}
                Event::Close(close) => turn.status = close.status,
                Event::Interrupt => turn.status = TurnStatus::Interrupted,
                Event::Reopen => turn.status = TurnStatus::Open,
            }
        }
        Ok(())
    }
}
