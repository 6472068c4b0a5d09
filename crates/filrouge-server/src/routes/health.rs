//! `/healthz` reports whether the server is alive; `/readyz` reports whether it can work, and what is degraded (P9).

use axum::http::HeaderMap;
use filrouge_engine::spool::SpoolView;
use filrouge_types::{ErrorCode, Failure};
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::openapi::StateResponse;
use filrouge_http::response::{RouteResult, json};

/// Returns the state of everything except the store, which is not queried, and whether the hot store answers; false
/// without a hot store.
pub(crate) async fn readiness(app: &App) -> (Ready, bool) {
    let health = app.upkeep.health();
    let hot = match app.tiers() {
        Some(tiers) => Some(tiers.hot_health().await),
        None => None,
    };
    let hot_answers = hot.as_ref().is_some_and(|hot| hot.unavailable.is_none());
    let hot = hot.and_then(|hot| {
        let refuses = hot
            .refuses_writes
            .map(|why| format!("refuses writes: {why}"));
        hot.unavailable.or(refuses)
    });
    let search = app.search.feed.as_ref().and_then(|feed| feed.failure());
    let failing = app.projections.iter().filter_map(|projection| {
        let failure = projection.counts.values().failure?;
        Some(format!("{}: {failure}", projection.name))
    });
    let failing: Vec<String> = failing.collect();
    let ready = Ready {
        read_only: health.read_only,
        integrity: health.integrity,
        anchor: app.anchor.as_ref().and_then(|keeper| keeper.failure()),
        issuer: app.authority().last_issuer_failure(),
        keys: app.authority().kept_keys(),
        hot,
        search: search.map(|failure| failure.detail),
        projections: (!failing.is_empty()).then(|| failing.join("; ")),
        spool: app.spool().map(|spool| spool.view().into()),
        ..Ready::default()
    };
    (ready, hot_answers)
}

/// The server is alive.
#[derive(Serialize, ToSchema)]
#[schema(as = Health)]
pub(super) struct Alive {
    /// `ok`.
    status: &'static str,
}

/// Responds as long as the server is alive.
///
/// The response depends neither on the store nor on credentials.
#[utoipa::path(
    get,
    path = "/healthz",
    responses(StateResponse<Alive>)
)]
pub(super) async fn get_health() -> RouteResult {
    json(&Alive { status: "ok" })
}

/// Whether the server can work.
#[derive(Default, Serialize, ToSchema)]
#[schema(as = Readiness)]
pub(crate) struct Ready {
    /// `ready`, or `degraded` when another member states a reason.
    status: &'static str,
    /// Why no write is accepted.
    pub(crate) read_only: Option<String>,
    /// Changes that were detected in the store.
    pub(crate) integrity: Option<String>,
    /// Why the anchor is not updated.
    pub(crate) anchor: Option<String>,
    /// Why the newest keys of the token issuer are unknown.
    issuer: Option<String>,
    /// Which API keys are used, if the store could not be asked since the server started.
    keys: Option<String>,
    /// Why the hot store does not answer, or accepts no writes. Sessions in the ledger continue.
    hot: Option<String>,
    /// Why the store does not answer. Live calls continue in the spool; everything else responds with 503.
    store: Option<String>,
    /// Why the search index is not up to date: until then searches scan everything.
    search: Option<String>,
    /// Why projections are not up to date, each with its name.
    projections: Option<String>,
    /// Writes that wait for the store; absent without a spool.
    spool: Option<SpoolStanding>,
}

impl Ready {
    /// The parts that do not work as they should, by the names of their members, each with the reason.
    pub(crate) fn reasons(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let reasons = [
            ("read_only", &self.read_only),
            ("integrity", &self.integrity),
            ("anchor", &self.anchor),
            ("issuer", &self.issuer),
            ("keys", &self.keys),
            ("hot", &self.hot),
            ("store", &self.store),
            ("search", &self.search),
            ("projections", &self.projections),
        ];
        let reasons = reasons.into_iter();
        reasons.filter_map(|(name, why)| Some((name, why.as_deref()?)))
    }

    /// Whether any field reports a problem.
    pub(crate) fn is_degraded(&self) -> bool {
        let has_waiting_writes = |s: &SpoolStanding| s.entries > 0 || s.dead_letters > 0 || s.down;
        self.reasons().next().is_some() || self.spool.as_ref().is_some_and(has_waiting_writes)
    }
}

/// Writes of live calls that wait for the store.
#[derive(Default, Serialize, ToSchema)]
#[schema(as = SpoolState)]
struct SpoolStanding {
    /// Their number.
    entries: u64,
    /// The number of their sessions.
    sessions: u64,
    /// Their size in bytes.
    bytes: u64,
    /// The maximum size in bytes.
    bytes_max: u64,
    /// How many seconds the oldest one has waited.
    oldest_s: Option<u64>,
    /// Writes that the store refused afterwards, and that wait for an operator.
    dead_letters: u64,
    #[serde(skip)]
    #[schema(ignore)]
    down: bool,
}

impl From<SpoolView> for SpoolStanding {
    fn from(view: SpoolView) -> Self {
        Self {
            entries: view.entries,
            sessions: view.sessions,
            bytes: view.bytes,
            bytes_max: view.bytes_max,
            oldest_s: view.oldest.map(|age| age.as_secs()),
            dead_letters: view.dead_letters,
            down: view.down.is_some(),
        }
    }
}

/// Reports whether the server can serve requests; a degraded server reports why and still responds with 200.
///
/// Each member but `status` says why a part of the server does not work as it should, or is `null`.
#[utoipa::path(
    get,
    path = "/readyz",
    responses(StateResponse<Ready>)
)]
pub(super) async fn get_readiness(app: App, headers: HeaderMap) -> RouteResult {
    let may_observe = app.authority().may_observe(&headers).await;
    // Queries the store, so that a store that does not answer is not reported as ready.
    let store = match app.upkeep.probe_store().await {
        Ok(()) => None,
        // Live calls continue without the store.
        Err(failure) if app.spool().is_some() && failure.code == ErrorCode::StoreUnavailable => {
            Some(failure.detail)
        }
        Err(failure) if may_observe => return Err(failure.into()),
        Err(failure) => return Err(Failure::new(failure.code, failure.code.title()).into()),
    };
    let (mut ready, _) = readiness(&app).await;
    ready.store = store;
    let status = match ready.is_degraded() {
        true => "degraded",
        false => "ready",
    };
    let visible = if may_observe { ready } else { Ready::default() };
    json(&Ready { status, ..visible })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reported_problem_is_degraded() {
        assert!(!Ready::default().is_degraded());
        let anchor = Ready {
            anchor: Some("the disk is full".to_owned()),
            ..Ready::default()
        };
        assert!(anchor.is_degraded());
        for (spool, degraded) in [
            (SpoolView::default(), false),
            (
                SpoolView {
                    entries: 1,
                    ..SpoolView::default()
                },
                true,
            ),
            (
                SpoolView {
                    dead_letters: 1,
                    ..SpoolView::default()
                },
                true,
            ),
            (
                SpoolView {
                    down: Some("gone".to_owned()),
                    ..SpoolView::default()
                },
                true,
            ),
        ] {
            let spool = Some(spool.into());
            let ready = Ready {
                spool,
                ..Ready::default()
            };
            assert_eq!(ready.is_degraded(), degraded);
        }
    }
}
