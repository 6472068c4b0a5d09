//! Late turns (DESIGN §7): turns that are moved into the ledger only after their session, because the hot store did not
//! answer at login. Each is written as a complete turn, as imported turns are. A turn keeps its id, because the id is
//! derived from the turn's request.

use std::sync::Arc;

use filrouge_store::command::{Adopt, ConcurrentTurns, NewSession, Outcome, Scope, Start, Write};
use filrouge_store::record::{Batch, ChainedItem, CommitmentProof, Entry, Event, StartEvent};
use filrouge_types::{ErrorCode, Failure, ItemBody, SessionId, TurnId, TurnStatus};

use super::TieredLedger;
use crate::shared::{command_as, unexpected_outcome};

/// A late turn with its items.
struct LateTurn {
    turn_id: TurnId,
    event: StartEvent,
    entries: Vec<Entry>,
    status: TurnStatus,
    /// Whether any content of the turn was redacted. If so, the turn is not moved.
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
        let turns = group_into_turns(&adopt.items);
        let (viewer, id) = (owner.clone(), session.clone());
        let ids: Vec<TurnId> = turns.iter().map(|t| t.turn_id).collect();
        let missing = self.ledger.query_listed(owner, move |snapshot| {
            let loaded = snapshot.get(&viewer, &id)?;
            let mut missing = Vec::new();
            for id in ids {
                if snapshot.find_turn(&loaded, &viewer, &id)?.is_none() {
                    missing.push(id);
                }
            }
            Ok(missing)
        });
        let missing = missing.await?;
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

    async fn write_late_turn(
        &self,
        owner: &Scope,
        session: &SessionId,
        late: LateTurn,
    ) -> Result<(), Failure> {
        if late.redacted {
            let what = "a redacted turn is not moved into the ledger";
            return Err(Failure::new(ErrorCode::TurnRedacted, what));
        }
        let start = Start {
            session: NewSession::with_id(session.clone()),
            event: late.event,
            batch: Batch::pack(late.entries, self.entropy.as_ref())?,
            status: late.status,
            reopen: false,
            concurrent_turns: ConcurrentTurns::Allow,
            terminal: Vec::new(),
            expected_seq: None,
        };
        let put = self.write_to_ledger(command_as(owner, Write::Start(Arc::new(start))));
        match put.await?.outcome {
            Outcome::Turn(..) => Ok(()),
            _ => Err(unexpected_outcome()),
        }
    }
}

/// Groups items into turns, in the order in which the turns began.
fn group_into_turns(items: &[ChainedItem]) -> Vec<LateTurn> {
    let mut turns: Vec<LateTurn> = Vec::new();
    for chained in items {
        let Some(turn_id) = chained.item.turn_id else {
            continue;
        };
        let start = chained.events.iter().find_map(|event| match event {
            Event::Start(start) => Some(start.as_ref().clone()),
            _ => None,
        });
        if let Some(event) = start {
            turns.push(LateTurn {
                turn_id,
                event,
                entries: Vec::new(),
                status: TurnStatus::Open,
                redacted: false,
            });
        }
        if let Some(turn) = turns.iter_mut().find(|t| t.turn_id == turn_id) {
            turn.add_item(chained);
        }
    }
    turns
}

impl LateTurn {
    fn add_item(&mut self, chained: &ChainedItem) {
        let mut events = chained.events.clone();
        // The last item of a complete turn carries its end, so an item that was added later gets the event.
        if self.status.is_closed()
            && let Some(last) = self.entries.last_mut()
            && let Some(at) = last
                .events
                .iter()
                .position(|e| matches!(e, Event::Close(_)))
        {
            events.push(last.events.remove(at));
        }
        for event in &chained.events {
            match event {
                Event::Close(close) => self.status = close.status,
                Event::Interrupt {} => self.status = TurnStatus::Interrupted,
                Event::Reopen {} => self.status = TurnStatus::Open,
                Event::Start(_) | Event::Redact(_) | Event::Redacted(_) => {}
            }
        }
        self.redacted |= matches!(chained.proof, CommitmentProof::Erased { .. });
        self.entries.push(Entry {
            // As its caller supplied it; the time of the recording replaces a missing `occurred_at`.
            item: ItemBody {
                occurred_at: Some(chained.item.when()),
                ..chained.item.body.clone()
            },
            events,
        });
    }
}
