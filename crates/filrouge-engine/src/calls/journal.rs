//! Logs one line for each item of a live call once it is durable: `[CALL_JOURNAL]` (DESIGN §12). A line contains ids,
//! seqs and roles, never content.

use filrouge_store::command::Outcome;
use filrouge_types::{Role, SessionId, TenantId};

use super::words::log_word;

/// Logs the items that a write to a turn has added.
pub(crate) fn log_call_items(tenant: &TenantId, session: &SessionId, outcome: &Outcome) {
    let (Outcome::Turn(_, Some(appended))
    | Outcome::Appended {
        written: Some(appended),
        ..
    }) = outcome
    else {
        return;
    };
    for (seq, role) in (appended.first_seq..).zip(&appended.roles) {
        let role = match role {
            // A call's assistant is its agent.
            Role::Assistant => "agent",
            role => role.as_str(),
        };
        tracing::info!(
            tenant_id = %log_word(tenant.as_str()),
            call_id = %log_word(session.as_str()),
            seq,
            %role,
            "[CALL_JOURNAL]"
        );
    }
}
