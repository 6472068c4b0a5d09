//! What the page of operations shows of this server.

use filrouge_pages::{BoxFuture, Deliveries, ProjectionState, Status, WebhookState};
use filrouge_projections::projection_status;
use filrouge_types::{Clock, Result, SystemClock, TenantId};

use crate::app::App;
use crate::routes::readiness;
use crate::webhooks::{WebhookFeed, webhook_status};

/// The state of a server for its pages.
pub(crate) struct ServerStatus {
    app: App,
    webhooks: Vec<WebhookFeed>,
}

impl ServerStatus {
    /// The state of the server that delivers these webhooks.
    pub(crate) const fn new(app: App, webhooks: Vec<WebhookFeed>) -> Self {
        Self { app, webhooks }
    }

    async fn webhooks_of(&self, tenant: &TenantId) -> Result<Vec<WebhookState>> {
        let mut states = Vec::new();
        for feed in self.webhooks.iter().filter(|feed| feed.tenant == *tenant) {
            let now = SystemClock.now();
            let status = webhook_status(self.app.engine().ledger(), feed, now).await?;
            states.push(WebhookState {
                dead_letters: status.dead_letters.len() as u64 + status.dead_letters_dropped,
                name: status.name,
                lag_commits: status.lag_commits,
                failures: status.failures,
                last_error: status.last_error,
                retry_at: status.retry_at,
                disabled_at: status.disabled_at,
            });
        }
        Ok(states)
    }

    async fn read_deliveries(&self, tenant: &TenantId) -> Result<Deliveries> {
        Ok(Deliveries {
            webhooks: self.webhooks_of(tenant).await?,
            projections: self.projections().await?,
        })
    }

    async fn projections(&self) -> Result<Vec<ProjectionState>> {
        let mut states = Vec::new();
        for projection in self.app.projections.iter() {
            let now = SystemClock.now();
            let status = projection_status(
                self.app.engine(),
                &projection.name,
                projection.history.as_ref(),
                now,
            )
            .await?;
            states.push(ProjectionState {
                name: status.name,
                lag_commits: status.lag_commits,
                building_lag_commits: status.building_lag_commits,
                uncleaned: status.uncleaned as u64,
                dead_letters: status.dead_letters.len() as u64,
                last_error: status.last_error,
                retry_at: status.retry_at,
            });
        }
        Ok(states)
    }
}

impl Status for ServerStatus {
    fn degraded(&self) -> BoxFuture<'_, Vec<(&'static str, String)>> {
        Box::pin(async move {
            let (ready, _) = readiness(&self.app).await;
            let reasons = ready.reasons();
            let reasons = reasons.map(|(name, why)| (name, why.to_owned()));
            reasons.collect::<Vec<_>>()
        })
    }

    fn deliveries<'a>(&'a self, tenant: &'a TenantId) -> BoxFuture<'a, Result<Deliveries>> {
        Box::pin(self.read_deliveries(tenant))
    }
}
