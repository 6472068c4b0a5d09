//! The port through which the pages see the server around them.

use filrouge_types::{Failure, TenantId, Timestamp};
use futures_util::future::BoxFuture;

/// Who looks at the state of the server.
#[derive(Debug, Clone, Copy)]
pub struct Observer<'a> {
    /// The observer's tenant.
    pub tenant: &'a TenantId,
    /// Whether the observer sees what concerns other tenants, too: the operator, on a server without API keys.
    pub sees_all: bool,
}

/// What a server knows of itself and the pages do not. The caller of these methods has checked the permission `observe`.
pub trait Status: Send + Sync {
    /// The parts of the server that do not work as they should, by the names of the members of `/readyz`, each with the
    /// reason. The store is not asked. Of projections, only those that the observer sees are named.
    fn degraded<'a>(&'a self, observer: Observer<'a>)
    -> BoxFuture<'a, Vec<(&'static str, String)>>;

    /// The webhooks that report the changes of the observer's tenant, and the projections that have its sessions; all
    /// projections, if the observer sees all.
    ///
    /// # Errors
    /// Those of the ledger.
    fn deliveries<'a>(
        &'a self,
        observer: Observer<'a>,
    ) -> BoxFuture<'a, Result<Deliveries, Failure>>;
}

/// What a server sends to others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deliveries {
    /// The webhooks.
    pub webhooks: Vec<WebhookState>,
    /// The projections.
    pub projections: Vec<ProjectionState>,
}

/// The state of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookState {
    /// The name.
    pub name: String,
    /// The commits from the first undelivered change to the newest.
    pub lag_commits: u64,
    /// The refused messages since the last delivered one.
    pub failures: u64,
    /// The reason of the newest refusal.
    pub last_error: Option<String>,
    /// When the refused batch is sent again.
    pub retry_at: Option<Timestamp>,
    /// When the receiver permanently refused messages.
    pub disabled_at: Option<Timestamp>,
    /// The abandoned batches.
    pub dead_letters: u64,
}

/// The state of a projection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectionState {
    /// The name.
    pub name: String,
    /// The commits that the queried generation lacks; `None` if it is not kept up to date.
    pub lag_commits: Option<u64>,
    /// The commits that the generation that is being filled lacks; `None` without one.
    pub building_lag_commits: Option<u64>,
    /// Sessions that the observer sees, that were redacted or erased, and must still be cleaned in the target.
    pub uncleaned: u64,
    /// Sessions that the observer sees, and that the target refused or that cannot be read.
    pub dead_letters: u64,
    /// The newest failure.
    pub last_error: Option<String>,
    /// Whether there is a failure that is not shown, because it may be about other tenants' sessions.
    pub hides_error: bool,
    /// When the target is called again.
    pub retry_at: Option<Timestamp>,
}
