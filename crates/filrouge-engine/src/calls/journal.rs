//! One line for each item of a live call, once it is durable: `[CALL_JOURNAL]` (DESIGN §12). Ids, seqs and roles; never content.

use filrouge_store::command::{Ending, Outcome, Scope, Write};
use filrouge_types::{Role, SessionId, TenantId};

use super::words::word;

/// The items of a write under a lease, as their lines will tell of them.
pub(crate) struct Journaled {
    tenant: TenantId,
    session: SessionId,
    /// As the request has them; what is put may be more, or less.
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
                Ending::Finalize { .. } => Vec::new(),
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

    /// The role of an item of a long write, behind those that the store tells of; `None` when it is not certain.
    fn role(&self, at: usize, count: usize) -> Option<Role> {
        let whole = self.roles.len() == count;
        self.roles.get(at).copied().filter(|_| whole)
    }

    /// Tells of the items that are durable now.
    pub(crate) fn done(&self, outcome: &Outcome) {
        let (Outcome::Turn(_, Some(put)) | Outcome::Appended { put: Some(put), .. }) = outcome
        else {
            return;
        };
        let count = usize::try_from(put.last_seq + 1 - put.first_seq).unwrap_or(usize::MAX);
        for (at, seq) in (put.first_seq..=put.last_seq).enumerate() {
            let role = put.roles.at(at).or_else(|| self.role(at, count));
            tracing::info!(
                tenant_id = %word(self.tenant.as_str()),
                call_id = %word(self.session.as_str()),
                seq,
                role = %role.map_or("-", spoken),
                "[CALL_JOURNAL]"
            );
        }
    }
}

/// The word for a role: who speaks in a call is its user or its agent.
const fn spoken(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "agent",
        Role::Tool => "tool",
        Role::System => "system",
    }
}
