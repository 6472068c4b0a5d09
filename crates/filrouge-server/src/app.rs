//! The state that the native routes share.

use std::convert::Infallible;
use std::ops::Deref;
use std::sync::Arc;

use axum::extract::{FromRef, FromRequestParts};
use axum::http::request::Parts;
use filrouge_engine::anchor::AnchorKeeper;
use filrouge_engine::{Caller, Engine};
use filrouge_http::HttpLayer;
use filrouge_http::access::Authority;
use filrouge_http::limits::{LargeResponsePermit, LimitSettings};
use filrouge_pages::{Pages, Prices, Status};
use filrouge_projections::Projection;
use filrouge_search::SearchSettings;
use filrouge_store::WorkSize;
use filrouge_types::Failure;

use crate::mcp::{McpSettings, McpState};
use crate::recordings::Recordings;

/// The shared state of the routes: the HTTP layer, and the parts that only the native routes need. Clones are handles
/// to the same state.
#[derive(Clone)]
pub struct App {
    http: HttpLayer,
    /// Keeps the anchor up to date; `None` without an anchor.
    pub(crate) anchor: Option<Arc<AnchorKeeper>>,
    /// The recordings of provider streams in progress.
    pub(crate) recordings: Arc<Recordings>,
    /// The MCP service and its histories.
    pub(crate) mcp: Arc<McpState>,
    /// The indexes and the embedder of searches.
    pub(crate) search: SearchSettings,
    /// The projections that this server feeds.
    pub(crate) projections: Arc<[Arc<Projection>]>,
    /// The prices of models.
    prices: Arc<Prices>,
}

impl Deref for App {
    type Target = HttpLayer;

    fn deref(&self) -> &HttpLayer {
        &self.http
    }
}

impl FromRef<App> for HttpLayer {
    fn from_ref(app: &App) -> Self {
        app.http.clone()
    }
}

impl FromRequestParts<App> for App {
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, app: &App) -> Result<Self, Infallible> {
        Ok(app.clone())
    }
}

impl App {
    /// Builds the state from the engine, the authentication, the anchor's keeper, the limits for callers, the
    /// histories for MCP, and the settings of searches.
    pub fn new(
        engine: Arc<Engine>,
        authority: Authority,
        anchor: Option<AnchorKeeper>,
        limits: LimitSettings,
        mcp: McpSettings,
        search: SearchSettings,
    ) -> Self {
        let http = HttpLayer::new(engine, authority, limits);
        Self {
            anchor: anchor.map(Arc::new),
            recordings: Arc::new(Recordings::new(http.metrics())),
            mcp: Arc::new(McpState::new(mcp)),
            search,
            projections: Arc::default(),
            prices: Arc::new(Prices::none()),
            http,
        }
    }

    /// Makes the server feed these projections.
    #[must_use]
    pub fn with_projections(mut self, projections: Vec<Arc<Projection>>) -> Self {
        self.projections = projections.into();
        self
    }

    /// Makes pages show costs by these prices.
    #[must_use]
    pub fn with_prices(mut self, prices: Prices) -> Self {
        self.prices = Arc::new(prices);
        self
    }

    /// The state of the pages for people, which show this status.
    pub(crate) fn pages(&self, status: Arc<dyn Status>) -> Pages {
        Pages::new(
            self.http.clone(),
            self.mcp.library.clone(),
            self.search.clone(),
            self.anchor.clone(),
            self.prices.clone(),
            status,
        )
    }

    /// A permit for a response that takes much work; see
    /// [`large_response_permit`](filrouge_http::limits::Limits::large_response_permit).
    pub(crate) async fn work_permit(
        &self,
        caller: &Caller,
        size: WorkSize,
    ) -> Result<LargeResponsePermit, Failure> {
        self.limits().large_response_permit(caller, size).await
    }
}
