//! The writes of a conversation, each under the lease.

use filrouge_engine::utterances::OpenTurn;
use filrouge_engine::{AppendItems, ImportedTurn};
use filrouge_types::{ErrorCode, Failure, ItemBody, RequestId, Result, TurnId, TurnStatus};

use super::turn::{Progress, Turn};
use super::{SessionWriter, item};

pub(super) fn request_id(id: &str) -> Result<RequestId> {
    RequestId::new(id).map_err(|e| Failure::new(ErrorCode::Invalid, format!("{id:?}: {e}")))
}

impl SessionWriter {
    /// Begins a turn with this item.
    pub(super) async fn begin_turn(&self, key: &str, item: ItemBody) -> Result<Turn> {
        let request = OpenTurn {
            request_id: request_id(key)?,
            items: vec![item],
            metadata: None,
        };
        let caller = self.lease.caller_after_check().await?;
        let session = self.session.clone();
        let opened = self.engine.turns.open(&caller, session, request).await?;
        Ok(Turn {
            id: opened.turn_id,
            answered: false,
            cut: None,
        })
    }

    /// Appends an item to an open turn.
    pub(super) async fn append(&self, turn: TurnId, item: ItemBody) -> Result<()> {
        let (caller, session) = (self.lease.caller_after_check().await?, self.session.clone());
        let items = AppendItems::new(vec![item]);
        let appended = self.engine.turns.append(&caller, session, turn, items);
        appended.await.map(drop)
    }

    /// Records items that belong to no open turn, as a separate turn that is cancelled.
    pub(super) async fn record_separate_turn(&self, key: &str, items: Vec<ItemBody>) -> Result<()> {
        let turn = ImportedTurn {
            request_id: request_id(key)?,
            items,
            status: TurnStatus::Cancelled,
            metadata: None,
        };
        let caller = self.lease.caller_after_check().await?;
        let recorded = self.engine.turns.record(&caller, &self.session, turn);
        recorded.await.map(drop)
    }

    /// Records the team task, if it has changed; `None` clears it.
    pub(super) async fn write_task(
        &self,
        progress: &mut Progress,
        task: Option<&str>,
    ) -> Result<()> {
        if progress.task.as_deref() == task {
            return Ok(());
        }
        self.write_note(progress, item::task_item(task)).await?;
        progress.task = task.map(Into::into);
        Ok(())
    }

    /// Records an item of the application, in the open turn or in a separate one.
    pub(super) async fn write_note(&self, progress: &mut Progress, note: ItemBody) -> Result<()> {
        progress.state = None;
        match &progress.turn {
            Some(turn) => self.append(turn.id, note).await,
            None => {
                progress.notes += 1;
                // Fences only increase, so no earlier opening of the session has used this key.
                let key = format!("note.{}.{}", self.lease.fence(), progress.notes);
                self.record_separate_turn(&key, vec![note]).await
            }
        }
    }
}
