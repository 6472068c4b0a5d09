//! Turns that come after their session is in the ledger already: the hot store did not answer at login. Each comes whole,
//! as a history that is brought in does; its id is the same, for it is derived from its request (DESIGN §7).

use std::sync::Arc;

use filrouge_store::command::{
    Adopt, Command, ConcurrentTurns, NewSession, Outcome, Scope, Start, Write,
};
use filrouge_store::record::{Batch, ChainedItem, Entry, Event, Proof, StartEvent};
use filrouge_types::{ErrorCode, Failure, Item, ItemBody, SessionId, TurnId, TurnStatus};

use super::TwoScopes;

/// A turn as it was, with its items.
struct Late {
    turn_id: TurnId,
    event: StartEvent,
    entries: Vec<Entry>,
    status: TurnStatus,
    /// Whether some of it was redacted: nothing of it comes then.
    redacted: bool,
}

impl TwoScopes {
    /// Brings the turns of `adopt` that the ledger has not.
    pub(super) async fn bring_late(
        &self,
        owner: &Scope,
        session: &SessionId,
        adopt: &Adopt,
    ) -> Result<(), Failure> {
        let turns = turns_of(&adopt.items);
        let missing = self.missing(owner, session, &turns).await?;
        for late in turns.into_iter().filter(|t| missing.contains(&t.turn_id)) {
            let turn_id = late.turn_id;
            match self.bring_turn(owner, session, late).await {
                Ok(()) => {
                    self.tally.count(|counts| counts.late_turns += 1);
                    tracing::info!(tenant_id = %owner.tenant, session_id = %session, %turn_id,
                        "[SESSIONS][LOGIN] a turn came late");
                }
                Err(failure) if !failure.code.retry() => {
                    self.tally.count(|counts| counts.late_refused += 1);
                    tracing::warn!(tenant_id = %owner.tenant, session_id = %session, %turn_id,
                        code = failure.code.as_str(), "[SESSIONS][LOGIN] a turn that came late was refused");
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    /// Which of the turns the ledger has not.
    async fn missing(
        &self,
        owner: &Scope,
        session: &SessionId,
        turns: &[Late],
    ) -> Result<Vec<TurnId>, Failure> {
        let (owner, session) = (owner.clone(), session.clone());
        let ids: Vec<TurnId> = turns.iter().map(|t| t.turn_id).collect();
        let missing = self.ledger.ask(move |sight| {
            let loaded = sight.get(&owner, &session)?;
            let mut missing = Vec::new();
            for id in ids {
                if sight.find_turn(&loaded, &owner, &id)?.is_none() {
                    missing.push(id);
                }
            }
            Ok(missing)
        });
        missing.await
    }

    async fn bring_turn(
        &self,
        owner: &Scope,
        session: &SessionId,
        late: Late,
    ) -> Result<(), Failure> {
        if late.redacted {
            let what = "what was redacted is not brought in";
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
        let put = self.put(Command {
            scope: owner.clone(),
            write: Write::Start(Arc::new(start)),
        });
        match put.await?.outcome {
            Outcome::Turn(..) => Ok(()),
            _ => Err(crate::core::unexpected()),
        }
    }
}

/// The turns that items make, in the order in which they began.
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
            turn.take(one);
        }
    }
    turns
}

impl Late {
    fn take(&mut self, one: &ChainedItem) {
        for event in &one.events {
            match event {
                Event::Close(close) => self.status = close.status,
                Event::Interrupt {} => self.status = TurnStatus::Interrupted,
                Event::Reopen {} => self.status = TurnStatus::Open,
                Event::Start(_) | Event::Redact(_) => {}
            }
        }
        self.redacted |= matches!(one.proof, Proof::Erased { .. });
        self.entries.push(Entry {
            item: as_new(&one.item),
            events: one.events.clone(),
        });
    }
}

/// The item as its caller gave it, with the time at which it came.
fn as_new(item: &Item) -> ItemBody {
    ItemBody {
        occurred_at: Some(item.when()),
        ..item.body.clone()
    }
}
