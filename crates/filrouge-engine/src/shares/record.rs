//! What a session records of its shares: an event when one is created, first opened, and revoked. The audit shows them.

use std::collections::HashMap;
use std::time::Duration;

use filrouge_types::{
    ErrorCode, EventKey, Failure, IdentityId, RawJson, Session, SessionEvent, SessionId, Timestamp,
};
use serde::{Deserialize, Serialize};

use crate::caller::Caller;
use crate::shared::{internal, invalid, to_json};

/// The kind of the event of a creation; its data is a [`Share`].
pub(super) const SHARED: &str = "shared";
/// The kind of the event of the first opening.
pub(super) const OPENED: &str = "share_opened";
/// The kind of the event of a revocation.
pub(super) const REVOKED: &str = "share_revoked";

/// A share, as its session records it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// Its id, which is not secret.
    pub share_id: String,
    /// The end user who created it.
    pub identity_id: Option<IdentityId>,
    /// The API key with which it was created; `None` on a server without keys.
    pub key_id: Option<String>,
    /// The address is unusable from this moment on.
    pub expires_at: Timestamp,
    /// The first seq that is shown.
    pub first_seq: u64,
    /// The last seq that is shown; `None` if the share grows with the session.
    pub last_seq: Option<u64>,
    /// Whether reasoning is shown.
    pub reasoning: bool,
    /// Whether tool calls and their results are shown.
    pub tools: bool,
    /// Whether names of end users, agents and models are shown.
    pub names: bool,
}

/// The properties of a share to create.
#[derive(Debug, Clone)]
pub struct NewShare {
    /// The first seq to show; 0 and 1 are the beginning.
    pub first_seq: u64,
    /// The last seq to show; `None` is the end.
    pub last_seq: Option<u64>,
    /// Whether items that are added later are shown, too, as far as `last_seq` permits.
    pub grows: bool,
    /// How long it is usable, at most [`crate::Settings::share_max`].
    pub valid_for: Duration,
    /// Whether to show reasoning.
    pub reasoning: bool,
    /// Whether to show tool calls and their results.
    pub tools: bool,
    /// Whether to show names of end users, agents and models.
    pub names: bool,
}

/// A share in the list of a session's shares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedShare {
    /// The share.
    pub share: Share,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was first opened.
    pub opened_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// Whether it has neither expired nor been revoked.
    pub is_usable: bool,
}

/// The data of the event of an opening or a revocation.
#[derive(Serialize)]
pub(super) struct ShareAct<'a> {
    pub(super) share_id: &'a str,
    /// The end user who revoked it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) identity_id: Option<&'a IdentityId>,
    /// The API key with which it was revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) key_id: Option<&'a str>,
}

/// The key of the event of this kind of a share.
///
/// # Errors
/// `internal` for a text that is no share's id.
pub(super) fn event_key(kind: &str, share_id: &str) -> Result<EventKey, Failure> {
    EventKey::internal(kind, share_id).map_err(|error| internal(error.to_string()))
}

/// Serializes the data of an event.
pub(super) fn detail<T: Serialize>(value: &T) -> Result<RawJson, Failure> {
    Ok(RawJson::from_checked(to_json(value)?))
}

/// Reads the data of the event of a creation.
///
/// # Errors
/// `integrity_error` when it has another form.
pub(super) fn read_share(session: &SessionId, event: &SessionEvent) -> Result<Share, Failure> {
    let json = event.detail.as_ref().map_or("null", RawJson::as_str);
    serde_json::from_str(json).map_err(|error| {
        let detail = format!("a share of session {session} cannot be read: {error}");
        ErrorCode::IntegrityError
            .failure(detail)
            .with_hint("a newer version of filrouge may have written it")
    })
}

/// The data of an event of a share; `None` for other events.
pub(crate) fn share_event(event: &SessionEvent) -> Option<&RawJson> {
    let is_of_share = event.key.is_internal() && [SHARED, OPENED, REVOKED].contains(&&*event.kind);
    event.detail.as_ref().filter(|_| is_of_share)
}

impl NewShare {
    /// The share of a session as it is now.
    ///
    /// # Errors
    /// `invalid` for a range without items.
    pub(super) fn into_share(
        self,
        share_id: String,
        caller: &Caller,
        session: &Session,
        now: Timestamp,
    ) -> Result<Share, Failure> {
        let first_seq = self.first_seq.max(1);
        let last_seq = match self.grows {
            true => self.last_seq,
            false => Some(
                self.last_seq
                    .map_or(session.last_seq, |last| last.min(session.last_seq)),
            ),
        };
        if last_seq.is_some_and(|last| last < first_seq) {
            return Err(invalid("the range to share has no items"));
        }
        Ok(Share {
            share_id,
            identity_id: caller.identity().cloned(),
            key_id: caller.name().map(str::to_owned),
            expires_at: now.after(self.valid_for),
            first_seq,
            last_seq,
            reasoning: self.reasoning,
            tools: self.tools,
            names: self.names,
        })
    }
}

/// The shares of a session, as its events list them.
#[derive(Default)]
pub(super) struct ShareList {
    pub(super) listed: Vec<ListedShare>,
    /// The places in the list of the shares whose opening or revocation has this key.
    by_act: HashMap<EventKey, usize>,
}

impl ShareList {
    /// Adds what the next event of the session says about a share.
    ///
    /// # Errors
    /// `integrity_error` when the event has another form.
    pub(super) fn add(&mut self, session: &SessionId, event: &SessionEvent) -> Result<(), Failure> {
        if share_event(event).is_none() {
            return Ok(());
        }
        if &*event.kind == SHARED {
            let share = read_share(session, event)?;
            for kind in [OPENED, REVOKED] {
                let key = event_key(kind, &share.share_id)?;
                self.by_act.insert(key, self.listed.len());
            }
            self.listed.push(ListedShare {
                share,
                created_at: event.created_at,
                opened_at: None,
                revoked_at: None,
                is_usable: false,
            });
            return Ok(());
        }
        let known = self.by_act.get(&event.key);
        if let Some(shown) = known.and_then(|at| self.listed.get_mut(*at)) {
            let moment = match &*event.kind {
                OPENED => &mut shown.opened_at,
                _ => &mut shown.revoked_at,
            };
            *moment = Some(event.created_at);
        }
        Ok(())
    }
}
