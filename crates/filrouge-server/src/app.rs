//! What the native routes work with. It knows no route.

use std::ops::Deref;
use std::sync::Arc;

use axum::extract::FromRef;
use filrouge_engine::Engine;
use filrouge_engine::anchor::AnchorKeeper;
use filrouge_http::HttpLayer;
use filrouge_http::access::Authority;
use filrouge_http::limits::LimitSettings;

use crate::mcp::{McpSettings, Mounted};
use crate::recordings::Recordings;
use crate::search::SearchSettings;

/// What the routes work with: the HTTP layer, and what only the native routes need. A handle; all clones are one.
#[derive(Clone)]
pub struct App {
    http: HttpLayer,
    anchor: Option<Arc<AnchorKeeper>>,
    /// The provider streams that are being recorded.
    pub(crate) recordings: Arc<Recordings>,
    /// What agents are answered from.
    pub(crate) mcp: Arc<Mounted>,
    /// What searches are answered with.
    pub(crate) search: SearchSettings,
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

impl App {
    /// The engine, who is let in, the anchor's keeper, the bounds of what
    /// callers may take, what agents are answered from over MCP, and what searches are answered with.
    #[must_use]
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
            mcp: Arc::new(Mounted::new(mcp)),
            search,
            http,
        }
    }

    /// Why the ledger's index is not kept in step.
    pub(crate) fn search_failure(&self) -> Option<String> {
        let failure = self.search.feed.as_ref()?.failure()?;
        Some(failure.detail)
    }

    pub(crate) fn anchor_failure(&self) -> Option<String> {
        self.anchor.as_ref().and_then(|keeper| keeper.failure())
    }
}
