//! Turns and their items: start, append, end, replace, import, read.

use filrouge_store::read::{ItemPage, TurnOrder, TurnPage, TurnQuery};
use filrouge_store::record::Seqs;
use filrouge_types::{Item, ItemId, RequestId, Result, SessionId, Turn, TurnId, TurnStatus};

use crate::caller::{Caller, Permission};
use crate::engine::Turns;
use crate::scopes::RecentTurns;

mod answer;
mod append;
mod busy;
mod close;
mod import;
mod of_identity;
mod part;
mod start;

pub use append::Appended;
pub use busy::OnBusy;
pub(crate) use busy::busy;
pub(crate) use close::{cancelled_item, ending_without_answer, error_item_parts};
pub use import::{ImportedTurn, RecordedTurn};
pub use of_identity::IdentityTurns;
pub use part::{ConversationPart, Outline, OutlineTurn, PartBounds, PartPlace};
pub(crate) use start::PastTurn;

/// Which turns of a session a page contains.
#[derive(Debug, Clone, Default)]
pub struct ListTurns {
    /// If set, the page contains only turns with this status.
    pub status: Option<TurnStatus>,
    /// If set, the page contains only the turn that was started with this request id.
    pub request_id: Option<RequestId>,
    /// Whether pages begin with the newest turns; pages of finalized turns always do.
    pub newest: bool,
    /// Whether redacted turns are listed too.
    pub include_redacted: bool,
    /// The cursor that the previous page returned; `None` for the first page.
    pub cursor: Option<String>,
    /// The maximum number of turns in the page.
    pub limit: usize,
}

impl ListTurns {
    fn includes(&self, turn: &Turn) -> bool {
        self.status.is_none_or(|status| status == turn.status)
            && (self.include_redacted || turn.deleted_at.is_none())
    }
}

impl Turns {
    /// Returns the turn with this id.
    ///
    /// # Errors
    /// `session_not_found`, `turn_not_found`, `turn_mismatch`, `integrity_error`, and the ledger's errors.
    pub async fn get(&self, caller: &Caller, session: &SessionId, id: TurnId) -> Result<Turn> {
        let scope = &caller.scope(Permission::Read)?;
        self.ledger.turn(scope, session, id).await
    }

    /// A page of a session's turns: the oldest first, unless the query asks for the newest.
    ///
    /// # Errors
    /// `forbidden` without the permission to read, or to read redacted turns if they are requested;
    /// `session_not_found`, `invalid` for a bad cursor, `integrity_error`, and the ledger's errors.
    pub async fn list(
        &self,
        caller: &Caller,
        session: &SessionId,
        query: ListTurns,
    ) -> Result<TurnPage> {
        let scope = &caller.scope(match query.include_redacted {
            true => Permission::IncludeRedacted,
            false => Permission::Read,
        })?;
        if let Some(request) = query.request_id.clone() {
            let turn = self
                .ledger
                .query_session(scope, session, move |snapshot, scope, id| {
                    let loaded = snapshot.get(scope, id)?;
                    match snapshot.turn_of_request(&loaded, &request)? {
                        Some(row) => snapshot.project(&loaded, &row).map(Some),
                        None => snapshot.check_all_turn_rows(&loaded).map(|()| None),
                    }
                });
            let turn = turn.await?.filter(|turn| query.includes(turn));
            return Ok((turn.into_iter().collect(), None));
        }
        let query = TurnQuery {
            status: query.status,
            include_redacted: query.include_redacted,
            order: match query.newest || query.status == Some(TurnStatus::Finalized) {
                true => TurnOrder::Newest,
                false => TurnOrder::Oldest,
            },
            cursor: query.cursor,
            limit: query.limit,
        };
        self.ledger.turns(scope, session, query).await
    }

    /// The page that [`Self::list`] would return, from the hot store's copy of recent turns. `None` means that the copy
    /// cannot answer the query, so the caller must use [`Self::list`].
    ///
    /// # Errors
    /// `session_not_found`, `integrity_error`, and the ledger's errors.
    pub async fn recent(
        &self,
        caller: &Caller,
        session: &SessionId,
        query: &ListTurns,
    ) -> Result<Option<RecentTurns>> {
        let is_first_page = query.status == Some(TurnStatus::Finalized) && query.cursor.is_none();
        if !is_first_page || query.include_redacted || query.request_id.is_some() {
            return Ok(None);
        }
        let scope = &caller.scope(Permission::Read)?;
        self.recent_turns(scope, session, query.limit).await
    }

    /// A page of a session's items after the seq `after`.
    ///
    /// # Errors
    /// `session_not_found`, `integrity_error`, and the ledger's errors.
    pub async fn items(
        &self,
        caller: &Caller,
        session: &SessionId,
        after: u64,
        limit: usize,
    ) -> Result<ItemPage> {
        let scope = &caller.scope(Permission::Read)?;
        self.ledger.items(scope, session, after, limit).await
    }

    /// A page of a session's items before the seq `before`, newest first.
    ///
    /// # Errors
    /// As [`Self::items`].
    pub async fn items_before(
        &self,
        caller: &Caller,
        session: &SessionId,
        before: u64,
        limit: usize,
    ) -> Result<ItemPage> {
        let scope = &caller.scope(Permission::Read)?;
        self.ledger
            .items_before(scope, session, before, limit)
            .await
    }

    /// The items at those of these seqs after `after` that the session has, ascending. The cursor is the last seq of a
    /// page that its limit in bytes has ended. The caller limits the number of seqs.
    ///
    /// # Errors
    /// As [`Self::items`].
    pub async fn items_at(
        &self,
        caller: &Caller,
        session: &SessionId,
        seqs: Seqs,
        after: u64,
    ) -> Result<ItemPage> {
        let scope = &caller.scope(Permission::Read)?;
        self.ledger.items_at(scope, session, seqs, after).await
    }

    /// The item of a session with this caller's key; `None` if the session has none.
    ///
    /// # Errors
    /// As [`Self::items`].
    pub async fn item_with_id(
        &self,
        caller: &Caller,
        session: &SessionId,
        id: ItemId,
    ) -> Result<Option<Item>> {
        let scope = &caller.scope(Permission::Read)?;
        self.ledger.item_with_id(scope, session, id).await
    }
}
