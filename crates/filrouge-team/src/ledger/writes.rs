//! The writes that a conversation is made of, each under the lease.

use filrouge_engine::spoken::OpenTurn;
use filrouge_engine::{AppendItems, ImportedTurn};
use filrouge_types::{ErrorCode, Failure, ItemBody, RequestId, TurnId, TurnStatus};

use super::turn::{Keeping, Turn};
use super::{Shared, item};

fn request_id(id: &str) -> Result<RequestId, Failure> {
    RequestId::new(id).map_err(|e| Failure::new(ErrorCode::Invalid, format!("{id:?}: {e}")))
}

impl Shared {
    /// Begins a turn with this item.
    pub(super) async fn begin_turn(&self, key: &str, item: ItemBody) -> Result<Turn, Failure> {
        let open = OpenTurn {
            request_id: request_id(key)?,
            items: vec![item],
            metadata: None,
        };
        let caller = self.hold.ensure().await?;
        let session = self.session.clone();
        let begun = self.engine.turns.open(&caller, session, open).await?;
        Ok(Turn::new(begun.turn_id))
    }

    pub(super) async fn append(&self, turn: TurnId, item: ItemBody) -> Result<(), Failure> {
        let (caller, session) = (self.hold.ensure().await?, self.session.clone());
        let items = AppendItems::new(vec![item]);
        let appended = self.engine.turns.append(&caller, session, turn, items);
        appended.await.map(drop)
    }

    /// Keeps items that belong to no human's question, as a turn of their own.
    pub(super) async fn alone(&self, key: &str, items: Vec<ItemBody>) -> Result<(), Failure> {
        let turn = ImportedTurn {
            request_id: request_id(key)?,
            items,
            status: TurnStatus::Cancelled,
            metadata: None,
        };
        let caller = self.hold.ensure().await?;
        let recorded = self.engine.turns.record(&caller, &self.session, turn);
        recorded.await.map(drop)
    }

    /// Keeps the team task.
    pub(super) async fn task(
        &self,
        keeping: &mut Keeping,
        task: Option<&str>,
    ) -> Result<(), Failure> {
        if keeping.task.as_deref() == task {
            return Ok(());
        }
        self.note(keeping, item::task_item(task)).await?;
        keeping.task = task.map(Into::into);
        Ok(())
    }

    /// Keeps an item of the application's, in the open turn or by itself.
    pub(super) async fn note(&self, keeping: &mut Keeping, note: ItemBody) -> Result<(), Failure> {
        keeping.state = None;
        match &keeping.turn {
            Some(turn) => self.append(turn.id(), note).await,
            None => {
                keeping.notes += 1;
                // Fences only grow, so that no other opening has used this key.
                let key = format!("note.{}.{}", self.hold.fence(), keeping.notes);
                self.alone(&key, vec![note]).await
            }
        }
    }
}
