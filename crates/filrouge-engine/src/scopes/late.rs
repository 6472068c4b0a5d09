//! Late turns (DESIGN §7): turns that reach the ledger only after their session, because the hot store did not answer
//! at login. Each is written as a complete turn, like imported history. A turn's id stays the same, because it is
//! derived from the turn's request.

use std::sync::Arc;

use filrouge_store::command::{
    Adopt, Command, ConcurrentTurns, NewSession, Outcome, Scope, Start, Write,
};
use filrouge_store::record::{Batch, ChainedItem, CommitmentProof, Entry, Event, StartEvent};
use filrouge_types::{ErrorCode, Failure, Item, ItemBody, SessionId, TurnId, TurnStatus};

use super::TieredLedger;

/// A late turn with its items.
struct Late {
    turn_id: TurnId,
    event: StartEvent,
    entries: Vec<Entry>,
    status: TurnStatus,
    /// Whether any content of the turn was redacted. Such a turn is not moved at all.
    redacted: bool,
}

impl TieredLedger {
    /// Writes into the ledger those turns of `adopt` that it does not have. A turn that the ledger refuses permanently
    /// is skipped and counted.
    pub(super) async fn move_late_turns(
        &self,
        owner: &Scope,
        session: &SessionId,
        adopt: &Adopt,
    ) -> Result<(), Failure> {
        let turns = turns_of(&adopt.items);
        let missing = self.missing(owner, session, &turns).await?;
        for late in turns.into_iter().filter(|t| missing.contains(&t.turn_id)) {
            let turn_id = late.turn_id;
            match self.write_late_turn(owner, session, late).await {
                Ok(()) => {
                    self.tally.count(|counts| counts.late_turns += 1);
                    tracing::info!(tenant_id = %owner.tenant, session_id = %session, %turn_id,
                        "[SESSIONS][LOGIN] a late turn was moved into the ledger");
                }
                Err(failure) if !failure.code.retry() => {
                    self.tally.count(|counts| counts.late_refused += 1);
                    tracing::warn!(tenant_id = %owner.tenant, session_id = %session, %turn_id,
                        code = failure.code.as_str(), "[SESSIONS][LOGIN] a late turn was refused");
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    /// The ids of those `turns` that the ledger does not have.
    async fn missing(
        &self,
        owner: &Scope,
        session: &SessionId,
        turns: &[Late],
    ) -> Result<Vec<TurnId>, Failure> {
        let (owner, session) = (owner.clone(), session.clone());
        let ids: Vec<TurnId> = turns.iter().map(|t| t.turn_id).collect();
        let missing = self.ledger.query(move |snapshot| {
            let loaded = snapshot.get(&owner, &session)?;
            let mut missing = Vec::new();
            for id in ids {
                if snapshot.find_turn(&loaded, &owner, &id)?.is_none() {
                    missing.push(id);
                }
            }
            Ok(missing)
        });
        missing.await
    }

    async fn write_late_turn(
        &self,
        owner: &Scope,
        session: &SessionId,
        late: Late,
    ) -> Result<(), Failure> {
        if late.redacted {
            let what = "a redacted turn is not moved into the ledger";
            return Err(Failure::new(ErrorCode::TurnRedacted, what));
        }
        let start = Start {
            session: NewSession::bare(session.clone()),
            event: late.event,
            batch: Batch::seal(late.entries, self.entropy.as_ref())?,
            status: late.status,
            reopen: false,
            concurrent_turns: ConcurrentTurns::Allow,
        };
        let put = self.write_to_ledger(Command {
            scope: owner.clone(),
            write: Write::Start(Arc::new(start)),
        });
        match put.await?.outcome {
            Outcome::Turn(..) => Ok(()),
            _ => Err(crate::core::unexpected()),
        }
    }
}

/// Groups items into turns, in the order in which the turns began.
fn turns_of(items: &[ChainedItem]) -> Vec<Late> {
    let mut turns: Vec<Late> = Vec::new();
    for one in items {
        let Some(turn_id) = one.item.turn_id else {
            continue;
        };
        let started = one.events.iter().find_map(|event| match event {
            Event::Start(start) => Some(start.as_ref().clone()),
            _ => None,
        });
        if let Some(event) = started {
            turns.push(Late {
                turn_id,
                event,
                entries: Vec::new(),
                status: TurnStatus::Open,
                redacted: false,
            });
        }
        if let Some(turn) = turns.iter_mut().find(|t| t.turn_id == turn_id) {
            turn.add_item(one);
        }
    }
    turns
}

impl Late {
    fn add_item(&mut self, one: &ChainedItem) {
        for event in &one.events {
            match event {
                Event::Close(close) => self.status = close.status,
                Event::Interrupt {} => self.status = TurnStatus::Interrupted,
                Event::Reopen {} => self.status = TurnStatus::Open,
                Event::Start(_) | Event::Redact(_) => {}
            }
        }
        self.redacted |= matches!(one.proof, CommitmentProof::Erased { .. });
        self.entries.push(Entry {
            item: as_supplied(&one.item),
            events: one.events.clone(),
        });
    }
}

/// The item's body as its caller supplied it. If the caller gave no time, `occurred_at` is the time of the recording.
fn as_supplied(item: &Item) -> ItemBody {
    ItemBody {
        occurred_at: Some(item.when()),
        ..item.body.clone()
    }
}
