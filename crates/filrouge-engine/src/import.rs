//! Recording turns that happened elsewhere: one commit each, so that a kill leaves whole turns only, and a
//! second import finds what is there (DESIGN §10).

use filrouge_store::chain::fingerprint;
use filrouge_store::command::{NewSession, Scope, Write};
use filrouge_store::record::{CloseEvent, Event, StartEvent, item_fingerprint};
use filrouge_types::{
    ErrorCode, Failure, ItemId, NewItem, RawJson, RequestId, SessionId, Turn, TurnStatus,
};

use crate::engine::Engine;

/// A turn as it happened.
#[derive(Debug, Clone)]
pub struct ImportedTurn {
    /// Its key, the same at every import.
    pub request_id: RequestId,
    /// Its items, the question first.
    pub items: Vec<NewItem>,
    /// How it ended; a turn that did not end is interrupted.
    pub status: TurnStatus,
    /// The application's data, a JSON object.
    pub metadata: Option<RawJson>,
}

/// What recording a turn did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordedTurn {
    /// It was new.
    Added,
    /// It was there, unchanged.
    Known,
    /// It was there and has changed since: the new version replaces the old one.
    Replaced,
}

impl Engine {
    /// Records a turn that happened elsewhere, whole.
    ///
    /// # Errors
    /// As [`Engine::start_turn`]; `invalid` for a turn without items or one that is still open.
    pub async fn record_turn(
        &self,
        scope: &Scope,
        session: &SessionId,
        turn: ImportedTurn,
    ) -> Result<RecordedTurn, Failure> {
        if turn.items.is_empty() || turn.status == TurnStatus::Open {
            return Err(Failure::new(
                ErrorCode::Invalid,
                "an imported turn has items and has ended",
            ));
        }
        let mark = turn_fingerprint(&turn);
        let first = self
            .record_version(scope, session, &turn, mark, None)
            .await?;
        if !first.replayed {
            return Ok(RecordedTurn::Added);
        }
        if !first.differs {
            return Ok(RecordedTurn::Known);
        }
        let changed = versioned(turn, mark)?;
        let mut newest = first;
        while let Some(next) = newest.replaced_by_turn_id {
            newest = self.ledger.turn(scope, session, next).await?;
            if newest.request_id == changed.request_id {
                return Ok(RecordedTurn::Known);
            }
        }
        self.record_version(scope, session, &changed, mark, Some(&newest))
            .await?;
        Ok(RecordedTurn::Replaced)
    }

    async fn record_version(
        &self,
        scope: &Scope,
        session: &SessionId,
        turn: &ImportedTurn,
        mark: [u8; 16],
        replaces: Option<&Turn>,
    ) -> Result<Turn, Failure> {
        let event = StartEvent {
            request_id: turn.request_id.clone(),
            identity_id: None,
            fingerprint: mark,
            replaces: replaces.map(|t| t.turn_id),
            translate_chat: false,
            pipeline_name: None,
            consultant: None,
            repository: None,
            metadata: turn.metadata.clone(),
        };
        let last = match turn.status {
            TurnStatus::Interrupted | TurnStatus::Open => Event::Interrupt,
            status => Event::Close(Box::new(CloseEvent {
                status,
                fingerprint: mark,
                fallback: false,
                metadata: None,
            })),
        };
        let session = NewSession::bare(session.clone());
        let start = self.seal_start(
            session,
            event,
            turn.items.clone(),
            turn.status,
            Some(last),
            false,
        )?;
        self.write_turn(scope, Write::Start(Box::new(start))).await
    }
}

fn turn_fingerprint(turn: &ImportedTurn) -> [u8; 16] {
    let mut pieces = vec![b"import".to_vec(), vec![turn.status.code()]];
    pieces.push(
        turn.metadata
            .as_ref()
            .map_or_else(Vec::new, |m| m.as_str().as_bytes().to_vec()),
    );
    pieces.extend(
        turn.items
            .iter()
            .map(|item| item_fingerprint(item).to_vec()),
    );
    let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
    fingerprint(&pieces)
}

/// The same turn under keys of its own: an item's key is unique in its session.
fn versioned(mut turn: ImportedTurn, mark: [u8; 16]) -> Result<ImportedTurn, Failure> {
    let suffix: String = mark[..4].iter().map(|b| format!("{b:02x}")).collect();
    let too_long = |e: filrouge_types::IdError| {
        Failure::new(ErrorCode::Invalid, format!("a changed turn's key: {e}"))
    };
    turn.request_id = RequestId::new(format!("{}~{suffix}", turn.request_id)).map_err(too_long)?;
    for item in &mut turn.items {
        if let Some(id) = &item.item_id {
            item.item_id = Some(ItemId::new(format!("{id}~{suffix}")).map_err(too_long)?);
        }
    }
    Ok(turn)
}
