//! The sweep interrupts abandoned turns (DESIGN §4.5).

use std::collections::HashMap;
use std::time::Duration;

use filrouge_store::command::{AFTER_ANY_HEARTBEAT, Interrupt, Scope, Viewer};
use filrouge_store::rows::TurnRow;
use filrouge_types::{Channel, Failure, SessionId, TenantId, Timestamp};

use crate::engine::Upkeep;

/// The maximum number of turns without recent writes that one sweep handles.
const SWEEP_MAX: usize = 100_000;
/// The maximum number of items of a turn that are examined to find out whether the turn waits for a human.
const ITEMS_MAX: usize = 10_000;

impl Upkeep {
    /// Interrupts abandoned turns, and returns their number. Two kinds of turns are abandoned:
    ///
    /// - those of [`Self::sweep_streams`];
    /// - those without a write for the turn timeout, unless they wait for a human.
    ///
    /// # Errors
    /// The ledger's errors. A session that fails verification is logged and skipped.
    pub async fn sweep(&self) -> Result<u64, Failure> {
        let abandoned = self.sweep_streams().await?;
        self.secrets
            .expire(self.clock.now(), self.settings.turn_timeout);
        let before = self.time_before(self.settings.turn_timeout);
        let idle = self
            .ledger
            .query(move |snapshot| {
                let mut idle = Vec::new();
                for (pk, turn) in snapshot.view.idle_turns(before, SWEEP_MAX)? {
                    match snapshot.view.session_by_pk(pk) {
                        Ok(Some(stored)) => {
                            idle.push((stored.row.tenant_id, stored.row.session_id, turn));
                        }
                        Ok(None) => {}
                        Err(error) => {
                            tracing::error!(turn_id = %turn.turn_id, %error, "a silent turn's session cannot be read");
                        }
                    }
                }
                Ok(idle)
            })
            .await?;
        let mut interrupted = abandoned;
        for (tenant, session, turn) in idle {
            match self.interrupt(tenant, &session, &turn, before).await {
                Ok(done) => interrupted += u64::from(done),
                Err(error) => {
                    tracing::error!(session_id = %session, turn_id = %turn.turn_id, %error,
                        "a silent turn cannot be marked as interrupted");
                }
            }
        }
        Ok(interrupted)
    }

    fn time_before(&self, time: Duration) -> Timestamp {
        let time = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(self.clock.now().as_micros().saturating_sub(time))
    }

    /// Interrupts turns with a recording whose process has exited, or has sent no heartbeat for the stream timeout;
    /// their drafts become items. Returns the number of interrupted turns. This part of [`Self::sweep`] is cheap enough
    /// to run often.
    ///
    /// # Errors
    /// The errors of [`Self::sweep`].
    pub async fn sweep_streams(&self) -> Result<u64, Failure> {
        let drafts = self
            .ledger
            .query(|snapshot| {
                let mut drafts = Vec::new();
                for (pk, draft) in snapshot.view.all_drafts()? {
                    // If the session is missing or unreadable, `verify` reports it.
                    if let Ok(Some(stored)) = snapshot.view.session_by_pk(pk) {
                        drafts.push((stored.row.tenant_id, stored.row.session_id, draft));
                    }
                }
                Ok(drafts)
            })
            .await?;
        let timeout_at = self.time_before(self.settings.stream_timeout);
        let (mut interrupted, mut exited) = (0, HashMap::new());
        for (tenant, session_id, draft) in drafts {
            let has_exited = match exited.get(&draft.writer) {
                Some(has_exited) => *has_exited,
                None => self.ledger.has_exited(&draft.writer).await,
            };
            exited.insert(draft.writer.clone(), has_exited);
            if !has_exited && draft.beat_at >= timeout_at {
                continue;
            }
            let interrupt = Interrupt {
                session_id: session_id.clone(),
                turn_id: draft.turn_id,
                before: if has_exited {
                    AFTER_ANY_HEARTBEAT
                } else {
                    timeout_at
                },
                stream: Some(draft.stream),
            };
            let scope = Scope::new(tenant, Viewer::Operator);
            let turn_id = draft.turn_id;
            match self.interrupt_turn(&scope, interrupt).await {
                Ok(done) => {
                    tracing::info!(%session_id, %turn_id, stream = %draft.stream, gone = has_exited, done, "an abandoned stream was ended");
                    interrupted += u64::from(done);
                }
                Err(error) => {
                    tracing::error!(%session_id, %turn_id, %error, "a turn with an abandoned stream cannot be marked as interrupted");
                }
            }
        }
        Ok(interrupted)
    }

    async fn interrupt(
        &self,
        tenant: TenantId,
        session: &SessionId,
        turn: &TurnRow,
        before: Timestamp,
    ) -> Result<bool, Failure> {
        let scope = Scope::new(tenant, Viewer::Operator);
        if self.waits_for_human(&scope, session, turn).await? {
            return Ok(false);
        }
        let interrupt = Interrupt {
            session_id: session.clone(),
            turn_id: turn.turn_id,
            before,
            stream: None,
        };
        self.interrupt_turn(&scope, interrupt).await
    }

    /// Whether the turn waits for a human: its newest human-in-the-loop item is a request.
    async fn waits_for_human(
        &self,
        scope: &Scope,
        session: &SessionId,
        turn: &TurnRow,
    ) -> Result<bool, Failure> {
        let (mut after, mut waits) = (turn.first_seq - 1, false);
        let mut examined = 0;
        while after < turn.last_seq && examined < ITEMS_MAX {
            let (items, _) = self.ledger.items(scope, session, after, 500).await?;
            let Some(last) = items.last() else { break };
            after = last.seq;
            examined += items.len();
            for item in items.iter().filter(|i| i.turn_id == Some(turn.turn_id)) {
                match item.body.channel {
                    Channel::HitlRequest => waits = true,
                    Channel::HitlResponse => waits = false,
                    _ => {}
                }
            }
        }
        Ok(waits)
    }
}
