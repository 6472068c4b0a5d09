//! What the page of operations shows of this server.

use filrouge_pages::{BoxFuture, Deliveries, Observer, ProjectionState, Status, WebhookState};
use filrouge_projections::{Projection, projection_status};
use filrouge_types::{Clock, Result, SystemClock, TenantId};

use crate::app::App;
use crate::routes::readiness;
use crate::webhooks::{WebhookFeed, webhook_status};

/// The member of `/readyz` about projections.
const PROJECTIONS: &str = "projections";

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

    async fn read_deliveries(&self, observer: Observer<'_>) -> Result<Deliveries> {
        Ok(Deliveries {
            webhooks: self.webhooks_of(observer.tenant).await?,
            projections: self.projections(observer).await?,
        })
    }

    /// The projections that an observer sees, each with whether its failures are shown: those of a projection that other
    /// tenants share may be about their sessions.
    fn seen_by<'a>(
        &'a self,
        observer: Observer<'a>,
    ) -> impl Iterator<Item = (&'a Projection, bool)> + 'a {
        let all = self.app.projections.iter().map(|one| &**one);
        all.filter(move |one: &&Projection| observer.sees_all || one.concerns(observer.tenant))
            .map(move |one| {
                let is_shown = observer.sees_all || one.concerns_only(observer.tenant);
                (one, is_shown)
            })
    }

    async fn projections(&self, observer: Observer<'_>) -> Result<Vec<ProjectionState>> {
        let mut states = Vec::new();
        let tenant = Some(observer.tenant).filter(|_| !observer.sees_all);
        for (projection, shows_failures) in self.seen_by(observer) {
            let now = SystemClock.now();
            let status = projection_status(
                self.app.engine(),
                &projection.name,
                projection.history.as_ref(),
                tenant,
                now,
            )
            .await?;
            states.push(ProjectionState {
                name: status.name,
                lag_commits: status.lag_commits,
                building_lag_commits: status.building_lag_commits,
                uncleaned: status.uncleaned as u64,
                dead_letters: status.dead_letters.len() as u64,
                hides_error: status.last_error.is_some() && !shows_failures,
                last_error: status.last_error.filter(|_| shows_failures),
                retry_at: status.retry_at,
            });
        }
        Ok(states)
    }

    /// Why the projections that an observer sees are not up to date, each with its name.
    fn failing(&self, observer: Observer<'_>) -> String {
        let failing = self.seen_by(observer).filter_map(|(projection, is_shown)| {
            let failure = projection.counts.values().failure?;
            Some(match is_shown {
                true => format!("{}: {failure}", projection.name),
                false => projection.name.to_string(),
            })
        });
        failing.collect::<Vec<_>>().join("; ")
    }
}

impl Status for ServerStatus {
    fn degraded<'a>(
        &'a self,
        observer: Observer<'a>,
    ) -> BoxFuture<'a, Vec<(&'static str, String)>> {
        Box::pin(async move {
            let (ready, _) = readiness(&self.app).await;
            let reasons = ready.reasons().filter(|(name, _)| *name != PROJECTIONS);
            let reasons = reasons.map(|(name, why)| (name, why.to_owned()));
            let failing = Some(self.failing(observer)).filter(|failing| !failing.is_empty());
            let failing = failing.map(|failing| (PROJECTIONS, failing));
            reasons.chain(failing).collect::<Vec<_>>()
        })
    }

    fn deliveries<'a>(&'a self, observer: Observer<'a>) -> BoxFuture<'a, Result<Deliveries>> {
        Box::pin(self.read_deliveries(observer))
    }
}
