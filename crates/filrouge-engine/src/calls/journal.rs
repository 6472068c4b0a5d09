//! Logs one line for each item of a live call once it is durable: `[CALL_JOURNAL]` (DESIGN §12). A line contains ids,
//! seqs and roles, never content.

use filrouge_store::command::Outcome;
use filrouge_types::{Role, SessionId, TenantId};

use super::words::word;

/// Logs the items that a write to a turn has added.
pub(crate) fn journal(tenant: &TenantId, session: &SessionId, outcome: &Outcome) {
    let (Outcome::Turn(_, Some(put)) | Outcome::Appended { put: Some(put), .. }) = outcome else {
        return;
    };
    for (seq, role) in (put.first_seq..).zip(&put.roles) {
        tracing::info!(
            tenant_id = %word(tenant.as_str()),
            call_id = %word(session.as_str()),
            seq,
            role = %role_name(*role),
            "[CALL_JOURNAL]"
        );
    }
}

/// The role's name in the log: a call's assistant is its agent.
const fn role_name(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "agent",
        Role::Tool => "tool",
        Role::System => "system",
    }
}
