//! Turns in which several speakers speak one after another, such as the agents of a team (DESIGN §4, §11).
//!
//! Each speaker's text is an [`Utterance`]: it is a draft while it grows, and when it ends, one write removes the draft
//! and adds the items that the caller gives. There is no HTTP route for this: only Rust code that holds the session's
//! lease can use it.

mod utterance;

use std::sync::Arc;

use filrouge_store::command::{AFTER_ANY_HEARTBEAT, Interrupt, NewSession, Scope, Write};
use filrouge_store::hot::ItemRetention;
use filrouge_store::record::{StartEvent, item_fingerprint};
use filrouge_types::{
    Application, ErrorCode, Failure, ItemBody, RawJson, RequestId, SessionId, TenantId, Turn,
    TurnId, TurnStatus,
};

pub use utterance::{TurnEnd, UnfinishedUtterance, Utterance, UtteranceHead, mark_of};

use crate::caller::{Caller, Permission};
use crate::core::Core;
use crate::engine::Turns;
use crate::secrets::Masked;

use crate::validate::Author;
use crate::written::Written;

/// A turn that begins with the caller's own items.
#[derive(Debug, Clone)]
pub struct OpenTurn {
    /// The caller's key of the turn.
    pub request_id: RequestId,
    /// The first items of the turn, the question first.
    pub items: Vec<ItemBody>,
    /// The application's data, a JSON object.
    pub metadata: Option<RawJson>,
}

impl Turns {
    /// Whether all items of this tenant are recorded, and not only questions and answers (DESIGN §7).
    pub fn records_all(&self, tenant: &TenantId) -> bool {
        self.settings.record.of(tenant) == ItemRetention::All
    }

    /// Starts a turn with the caller's own items. If the turn exists, returns it as a replay; an interrupted turn is
    /// not reopened.
    ///
    /// # Errors
    /// `invalid` without items, and the errors of [`Self::start`].
    pub async fn open(
        &self,
        caller: &Caller,
        session: SessionId,
        request: OpenTurn,
    ) -> Result<Written<Turn>, Failure> {
        let scope = &caller.scope(Permission::Write)?;
        if request.items.is_empty() {
            return Err(Failure::new(ErrorCode::Invalid, "items must not be empty"));
        }
        self.limits()
            .check_metadata(request.metadata.as_ref(), "metadata")?;
        let fingerprint = items_fingerprint(&[b"open"], &request.items);
        let items = self.limits().check_items(request.items, Author::Caller)?;
        let ((items, metadata), masked) =
            self.masked_turn(&scope.tenant, items, request.metadata)?;
        let event = StartEvent {
            request_id: request.request_id,
            identity_id: scope.viewer.identity().cloned(),
            fingerprint,
            replaces: None,
            application: Application::default(),
            metadata,
        };
        let session = NewSession::with_id(session);
        let start = self.seal_start(session, event, items, TurnStatus::Open, None, false)?;
        self.write_turn(scope, Write::Start(Arc::new(start)), &masked)
            .await
    }

    /// Interrupts a turn that an earlier holder of the session's lease left open; the text of its draft is kept. The
    /// caller must be the present holder. Returns `false` if the turn has ended, or if the caller does not hold the
    /// lease.
    ///
    /// # Errors
    /// `session_not_found`, `turn_not_found`, and the ledger's errors.
    pub async fn interrupt(
        &self,
        caller: &Caller,
        session_id: SessionId,
        turn_id: TurnId,
    ) -> Result<bool, Failure> {
        let scope = &caller.scope(Permission::Write)?;
        let interrupt = Interrupt {
            session_id,
            turn_id,
            before: AFTER_ANY_HEARTBEAT,
            stream: None,
        };
        self.interrupt_turn(scope, interrupt).await
    }
}

impl Core {
    /// Checks a caller's items, and masks and hashes what must not be recorded.
    pub(crate) fn validated_items(
        &self,
        scope: &Scope,
        items: Vec<ItemBody>,
    ) -> Result<(Vec<ItemBody>, Masked), Failure> {
        let items = self.limits().check_items(items, Author::Caller)?;
        self.masked_items(&scope.tenant, self.masker(None), items)
    }
}

/// A fingerprint of items, after other pieces.
pub(crate) fn items_fingerprint(head: &[&[u8]], items: &[ItemBody]) -> [u8; 16] {
    let items: Vec<[u8; 16]> = items.iter().map(item_fingerprint).collect();
    let items = items.iter().map(<[u8; 16]>::as_slice);
    let pieces: Vec<&[u8]> = head.iter().copied().chain(items).collect();
    filrouge_store::chain::fingerprint(&pieces)
}
