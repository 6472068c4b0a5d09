//! Records turns that happened elsewhere (DESIGN §10). Each turn is one commit, so a killed import leaves only complete
//! turns. A repeated import recognizes the turns that are already stored.

use std::sync::Arc;

use filrouge_store::chain::fingerprint;
use filrouge_store::command::{NewSession, Scope, Write};
use filrouge_store::record::{CloseEvent, Event, StartEvent};
use filrouge_types::{
    Application, ErrorCode, Failure, ItemBody, ItemId, RawJson, RequestId, SessionId, Turn,
    TurnStatus,
};

use crate::caller::{Caller, Permission};
use crate::engine::Turns;
use crate::shared::invalid;
use crate::utterances::items_fingerprint;
use crate::validate::Author;
use crate::written::Written;

/// The number of items that are read at a time.
const ITEMS_PER_READ: usize = 500;

/// A turn to import.
#[derive(Debug, Clone)]
pub struct ImportedTurn {
    /// The turn's key, which must be the same at every import.
    pub request_id: RequestId,
    /// The turn's items, the question first.
    pub items: Vec<ItemBody>,
    /// The turn's final status; use `Interrupted` for a turn that did not end.
    pub status: TurnStatus,
    /// The application's data, a JSON object.
    pub metadata: Option<RawJson>,
}

/// The result of recording a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordedTurn {
    /// The turn was new.
    Added,
    /// The turn was stored already, unchanged.
    Unchanged,
    /// The turn was stored and has changed since: the new version replaces the old one.
    Replaced,
}

impl Turns {
    /// Records a complete turn that happened elsewhere. Credentials in it are masked as in any other turn, and
    /// addresses in metadata are hashed.
    ///
    /// # Errors
    /// The errors of [`Self::start`]; `invalid` also for a turn without items, or with the status `Open`.
    pub async fn record(
        &self,
        caller: &Caller,
        session: &SessionId,
        turn: ImportedTurn,
    ) -> Result<Written<RecordedTurn>, Failure> {
        let scope = &caller.scope(Permission::Write)?;
        if turn.items.is_empty() || turn.status == TurnStatus::Open {
            return Err(invalid(
                "an imported turn must have items and must have ended",
            ));
        }
        let content_fingerprint = turn_fingerprint(&turn);
        let first = self
            .record_version(scope, session, &turn, content_fingerprint, None)
            .await?;
        if !first.replayed {
            return Ok(first.map(|_| RecordedTurn::Added));
        }
        let unchanged_result = Written::new(RecordedTurn::Unchanged, true, first.durability);
        let prefix = format!("{}~", turn.request_id);
        let mut is_unchanged = !first.differs;
        let mut versions = vec![first.into_value()];
        while let Some(next) = versions.last().and_then(|t| t.replaced_by_turn_id) {
            let newest = self.ledger.turn(scope, session, next).await?;
            // A version that another caller wrote has no such suffix. It stays until the source changes.
            if let Some(suffix) = newest.request_id.as_str().strip_prefix(&prefix) {
                is_unchanged = suffix == version_suffix(content_fingerprint, newest.record_version);
            }
            versions.push(newest);
        }
        // Redacted content is never imported again, whatever happens to the source.
        if is_unchanged || self.is_redacted(scope, session, &versions).await? {
            return Ok(unchanged_result);
        }
        let version = versions.len() as u64 + 1;
        let changed = with_version_suffix(turn, &version_suffix(content_fingerprint, version))?;
        let replaced = self
            .record_version(
                scope,
                session,
                &changed,
                content_fingerprint,
                versions.last(),
            )
            .await;
        match replaced {
            Ok(new) => Ok(new.map(|_| RecordedTurn::Replaced)),
            // The turn was redacted in the meantime.
            Err(failure) if failure.code == ErrorCode::TurnRedacted => Ok(unchanged_result),
            Err(failure) => Err(failure),
        }
    }

    /// Whether any content of these turns was redacted.
    async fn is_redacted(
        &self,
        scope: &Scope,
        session: &SessionId,
        turns: &[Turn],
    ) -> Result<bool, Failure> {
        if turns.iter().any(|t| t.deleted_at.is_some()) {
            return Ok(true);
        }
        for turn in turns {
            let mut after = turn.first_seq - 1;
            while after < turn.last_seq {
                let (page, _) = self
                    .ledger
                    .items(scope, session, after, ITEMS_PER_READ)
                    .await?;
                let Some(last) = page.last() else { break };
                after = last.seq;
                if page
                    .iter()
                    .any(|i| i.turn_id == Some(turn.turn_id) && i.redacted)
                {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    async fn record_version(
        &self,
        scope: &Scope,
        session: &SessionId,
        turn: &ImportedTurn,
        content_fingerprint: [u8; 16],
        replaces: Option<&Turn>,
    ) -> Result<Written<Turn>, Failure> {
        let items = self
            .limits()
            .check_items(turn.items.clone(), Author::Engine)?;
        let ((items, metadata), masked) =
            self.masked_turn(&scope.tenant, items, turn.metadata.clone())?;
        let event = StartEvent {
            request_id: turn.request_id.clone(),
            identity_id: None,
            fingerprint: content_fingerprint,
            replaces: replaces.map(|t| t.turn_id),
            application: Application::default(),
            metadata,
        };
        let last = match turn.status {
            TurnStatus::Interrupted | TurnStatus::Open => Event::Interrupt {},
            status => Event::Close(Box::new(CloseEvent {
                status,
                fingerprint: content_fingerprint,
                fallback: false,
                metadata: None,
            })),
        };
        // The times of a session that does not exist yet.
        let began = turn.items.first().and_then(|item| item.occurred_at);
        let session = NewSession {
            times: began.map(|began| [began; 2]),
            ..NewSession::with_id(session.clone())
        };
        let start = self.seal_start(session, event, items, turn.status, Some(last), false)?;
        self.write_turn(scope, Write::Start(Arc::new(start)), &masked)
            .await
    }
}

fn turn_fingerprint(turn: &ImportedTurn) -> [u8; 16] {
    let metadata = turn.metadata.as_ref().map_or("", RawJson::as_str);
    let status = [turn.status.code()];
    items_fingerprint(&[b"import", &status, metadata.as_bytes()], &turn.items)
}

/// Seven characters that identify a turn's content and the number of its version. Together with `~` they take eight
/// characters, and sources keep their ids at least that much shorter than the limit.
fn version_suffix(content_fingerprint: [u8; 16], version: u64) -> String {
    const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let hash = fingerprint(&[
        b"import version",
        &content_fingerprint,
        &version.to_be_bytes(),
    ]);
    let digit = |byte: &u8| char::from(DIGITS[usize::from(byte % 32)]);
    hash[..7].iter().map(digit).collect()
}

/// The same turn under new keys, because keys of turns and items are unique in a session.
fn with_version_suffix(mut turn: ImportedTurn, suffix: &str) -> Result<ImportedTurn, Failure> {
    let too_long = |e: filrouge_types::IdError| invalid(format!("a changed turn's key: {e}"));
    turn.request_id = RequestId::new(format!("{}~{suffix}", turn.request_id)).map_err(too_long)?;
    for item in &mut turn.items {
        if let Some(id) = &item.item_id {
            item.item_id = Some(ItemId::new(format!("{id}~{suffix}")).map_err(too_long)?);
        }
    }
    Ok(turn)
}
