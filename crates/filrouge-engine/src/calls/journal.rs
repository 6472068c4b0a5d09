//! One line for each item of a live call, once it is durable: `[CALL_JOURNAL]` (DESIGN §12). Ids, seqs and roles; never content.

use filrouge_store::command::{Ending, Outcome, Scope, Write};
use filrouge_types::{Role, SessionId, TenantId};

/// The items of a write under a lease, as their lines will tell of them.
pub(crate) struct Journaled {
    tenant: TenantId,
    session: SessionId,
    roles: Vec<Role>,
}

impl Journaled {
    /// Of a write that puts items under a lease.
    pub(crate) fn of(scope: &Scope, write: &Write) -> Option<Self> {
        scope.hold?;
        let roles = match write {
            Write::Start(start) => start.batch.items().map(|item| item.role).collect(),
            Write::Append(append) => append.batch.items().map(|item| item.role).collect(),
            Write::Close(close) => match &close.ending {
                Ending::Finalize { .. } => vec![Role::Assistant; 2],
                Ending::Fail(entries) | Ending::Cancel(entries) | Ending::Recorded(entries) => {
                    entries.iter().map(|entry| entry.item.role).collect()
                }
            },
            _ => return None,
        };
        Some(Self {
            tenant: scope.tenant.clone(),
            session: write.session_id()?.clone(),
            roles,
        })
    }

    /// Tells of the items that are durable now.
    pub(crate) fn done(&self, outcome: &Outcome) {
        let (Outcome::Turn(_, Some(put)) | Outcome::Appended { put: Some(put), .. }) = outcome
        else {
            return;
        };
        for (at, seq) in (put.first_seq..=put.last_seq).enumerate() {
            let role = self.roles.get(at).copied().unwrap_or(Role::System);
            tracing::info!(
                tenant_id = %self.tenant,
                call_id = %self.session,
                seq,
                role = %word(role),
                "[CALL_JOURNAL]"
            );
        }
    }
}

/// The word for a role: who speaks in a call is its user or its agent.
const fn word(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "agent",
        Role::Tool => "tool",
        Role::System => "system",
    }
}
