//! Reports attempts of an identity to create a session, start a turn in it or link it, although another identity owns
//! the session (DESIGN §7): in the log, in a counter, and once per identity as an event of the session, which the audit
//! shows.

use filrouge_store::Scope;
use filrouge_store::command::{Command, NewEvent, Viewer, Write};
use filrouge_types::{
    ErrorCode, EventKey, Failure, IdentityId, JsonText, Members, RawJson, SessionEvent,
};
use sha2::{Digest, Sha256};

use crate::calls::{log_word, optional_log_word};
use crate::core::Core;
use crate::shared::{command_as, internal};
use crate::trace::claimed_owner;

/// The kind of the event.
pub(crate) const LINK_REFUSED: &str = "link_refused";

/// The data of the event of a refused link: `identity_id`, which was refused, and `owner`. `None` for other events.
pub(crate) fn refused_link(event: &SessionEvent) -> Option<&RawJson> {
    let is_refusal = event.key.is_internal() && &*event.kind == LINK_REFUSED;
    event.detail.as_ref().filter(|_| is_refusal)
}

/// Whether the data of a refused link names this identity, as the refused one or as the owner.
pub(crate) fn names_identity(detail: &RawJson, identity: &IdentityId) -> bool {
    let expected = JsonText::from_plain(identity.as_str());
    let members = Members::parse(detail.as_str()).unwrap_or_default();
    ["identity_id", "owner"]
        .map(|name| members.get(name))
        .contains(&Some(expected.as_token()))
}

impl Core {
    /// Reports a write that failed because another identity owns the session that the write claims. Does nothing for
    /// other failures.
    pub(crate) async fn report_refused_link(&self, command: &Command, failure: &Failure) {
        let (Some(identity), Some(session)) = (claimed_owner(command), command.write.session_id())
        else {
            return;
        };
        let (ErrorCode::SessionLinked | ErrorCode::SessionConflict) = failure.code else {
            return;
        };
        self.counters.links_refused.add(1);
        let scope = Scope::new(command.scope.tenant.clone(), Viewer::Operator);
        let owner = self.ledger.session(&scope, session).await;
        let owner = owner.ok().and_then(|session| session.identity_id);
        tracing::warn!(
            tenant_id = %log_word(scope.tenant.as_str()),
            session_id = %log_word(session.as_str()),
            identity_id = %log_word(identity.as_str()),
            owner = %optional_log_word(owner.as_ref().map(IdentityId::as_str)),
            code = failure.code.as_str(),
            "[SESSIONS][LINK_REFUSED]"
        );
        let json = |identity: &IdentityId| {
            JsonText::from_plain(identity.as_str())
                .as_token()
                .to_owned()
        };
        let detail = format!(
            r#"{{"identity_id":{},"owner":{}}}"#,
            json(identity),
            owner.as_ref().map_or_else(|| "null".to_owned(), json)
        );
        let hash = hex::encode(&Sha256::digest(identity.as_str())[..8]);
        let recorded = match EventKey::internal(LINK_REFUSED, hash) {
            Ok(key) => {
                let event = NewEvent {
                    session_id: session.clone(),
                    key,
                    kind: LINK_REFUSED.into(),
                    at: None,
                    detail: Some(RawJson::from_checked(detail)),
                };
                let write = Write::RecordEvent(Box::new(event));
                self.ledger.write(command_as(&scope, write)).await.map(drop)
            }
            Err(error) => Err(internal(error.to_string())),
        };
        if let Err(failure) = recorded {
            self.counters.count_dropped_event(failure.code);
            tracing::warn!(err = %failure.code, session_id = %log_word(session.as_str()), "a refused link is only in the log, not in the audit");
        }
    }
}
