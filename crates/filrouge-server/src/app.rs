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

/// What the routes work with: the HTTP layer, and what only the native routes need.
#[derive(Clone)]
pub struct App(Arc<Parts>);

/// The parts of an [`App`].
pub struct Parts {
    http: HttpLayer,
    anchor: Option<AnchorKeeper>,
    /// The provider streams that are being recorded.
    pub(crate) recordings: Recordings,
    /// What agents are answered from.
    pub(crate) mcp: Mounted,
    /// What searches are answered with.
    pub(crate) search: SearchSettings,
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl Deref for Parts {
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
        Self(Arc::new(Parts {
            anchor,
            recordings: Recordings::new(http.metrics()),
            mcp: Mounted::new(mcp),
            search,
            http,
        }))
    }

    /// Why the ledger's index is not kept in step.
    pub(crate) fn search_failure(&self) -> Option<String> {
        let failure = self.search.feed.as_ref()?.failure()?;
        Some(failure.detail)
    }

    pub(crate) fn anchor_failure(&self) -> Option<String> {
        self.anchor.as_ref().and_then(AnchorKeeper::failure)
    }
}
