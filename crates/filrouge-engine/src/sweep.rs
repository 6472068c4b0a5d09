//! Turns whose owner is gone become interrupted (DESIGN §4.5).

use filrouge_store::command::{Interrupt, Outcome, Scope, Viewer, Write};
use filrouge_store::rows::TurnRow;
use filrouge_types::{Channel, Failure, SessionId, TenantId, Timestamp};

use crate::engine::{Engine, unexpected};

/// Most turns looked at in one sweep.
const SWEEP_MAX: usize = 100_000;
/// Most items of a turn looked at for an open question to a human.
const ITEMS_MAX: usize = 10_000;

struct Silent {
    tenant: TenantId,
    session: SessionId,
    turn: TurnRow,
}

impl Engine {
    /// Marks the turns that nobody has touched for the turn timeout; those that wait for a human are left.
    /// Gives how many were marked.
    ///
    /// # Errors
    /// The ledger's; a single session that fails verification is logged and left alone.
    pub async fn sweep(&self) -> Result<u64, Failure> {
        let timeout = i64::try_from(self.settings.turn_timeout.as_micros()).unwrap_or(i64::MAX);
        let before = Timestamp::from_micros(self.clock.now().as_micros().saturating_sub(timeout));
        let silent = self
            .ledger
            .ask(move |sight| {
                let mut silent = Vec::new();
                for (pk, turn) in sight.view.silent_turns(before, SWEEP_MAX)? {
                    match sight.view.session_by_pk(pk) {
                        Ok(Some(stored)) => silent.push(Silent {
                            tenant: stored.row.tenant_id,
                            session: stored.row.session_id,
                            turn,
                        }),
                        Ok(None) => {}
                        Err(error) => {
                            tracing::error!(turn_id = %turn.turn_id, %error, "a silent turn's session cannot be read");
                        }
                    }
                }
                Ok(silent)
            })
            .await?;
        let mut marked = 0;
        for silent in silent {
            match self.interrupt(&silent, before).await {
                Ok(true) => marked += 1,
                Ok(false) => {}
                Err(error) => {
                    tracing::error!(session_id = %silent.session, turn_id = %silent.turn.turn_id, %error,
                        "a silent turn cannot be marked as interrupted");
                }
            }
        }
        Ok(marked)
    }

    async fn interrupt(&self, silent: &Silent, before: Timestamp) -> Result<bool, Failure> {
        let scope = Scope {
            tenant: silent.tenant.clone(),
            viewer: Viewer::Operator,
            token: None,
        };
        if self.waits_for_human(&scope, silent).await? {
            return Ok(false);
        }
        let interrupt = Interrupt {
            session_id: silent.session.clone(),
            turn_id: silent.turn.turn_id,
            before,
        };
        match self.write(&scope, Write::Interrupt(interrupt)).await? {
            Outcome::Interrupted(done) => Ok(done),
            _ => Err(unexpected()),
        }
    }

    /// Whether the turn's newest human-in-the-loop item is a request.
    async fn waits_for_human(&self, scope: &Scope, silent: &Silent) -> Result<bool, Failure> {
        let (mut after, mut waits) = (silent.turn.first_seq - 1, false);
        let mut looked_at = 0;
        while after < silent.turn.last_seq && looked_at < ITEMS_MAX {
            let (items, _) = self
                .ledger
                .items(scope, &silent.session, after, 500)
                .await?;
            let Some(last) = items.last() else { break };
            after = last.seq;
            looked_at += items.len();
            for item in items
                .iter()
                .filter(|i| i.turn_id == Some(silent.turn.turn_id))
            {
                match item.channel {
                    Channel::HitlRequest => waits = true,
                    Channel::HitlResponse => waits = false,
                    _ => {}
                }
            }
        }
        Ok(waits)
    }
}
