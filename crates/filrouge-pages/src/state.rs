//! The state of all pages.

use std::ops::Deref;
use std::sync::Arc;

use axum::extract::FromRef;
use filrouge_engine::Caller;
use filrouge_engine::anchor::AnchorKeeper;
use filrouge_http::HttpLayer;
use filrouge_http::limits::LargeResponsePermit;
use filrouge_search::SearchSettings;
use filrouge_sources::Library;
use filrouge_store::WorkSize;
use filrouge_types::Failure;

use crate::operations::Status;
use crate::prices::Prices;
use crate::statistics::CountedSessions;

/// What pages need: the services, and the histories of other programs beside the ledger. Clones are handles to the same
/// state. It dereferences to the HTTP layer.
#[derive(Clone)]
pub struct Pages(Arc<Shared>);

struct Shared {
    http: HttpLayer,
    library: Library,
    search: SearchSettings,
    anchor: Option<Arc<AnchorKeeper>>,
    prices: Arc<Prices>,
    status: Arc<dyn Status>,
    counted: CountedSessions,
}

impl Pages {
    /// Builds the state from the HTTP layer, the histories that every caller may read, the settings of searches, the
    /// keeper of the store's anchor, if it has one, the prices of models, and what shows the state of the server.
    pub fn new(
        http: HttpLayer,
        library: Library,
        search: SearchSettings,
        anchor: Option<Arc<AnchorKeeper>>,
        prices: Arc<Prices>,
        status: Arc<dyn Status>,
    ) -> Self {
        Self(Arc::new(Shared {
            http,
            library,
            search,
            anchor,
            prices,
            status,
            counted: CountedSessions::default(),
        }))
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

    /// The histories of other programs.
    pub(crate) fn library(&self) -> &Library {
        &self.0.library
    }

    /// The settings of searches.
    pub(crate) fn search(&self) -> &SearchSettings {
        &self.0.search
    }

    /// The keeper of the anchor; `None` without an anchor.
    pub(crate) fn anchor(&self) -> Option<&AnchorKeeper> {
        self.0.anchor.as_deref()
    }

    /// The prices of models.
    pub(crate) fn prices(&self) -> &Prices {
        &self.0.prices
    }

    /// The state of the server.
    pub(crate) fn status(&self) -> &dyn Status {
        self.0.status.as_ref()
    }

    /// The sessions that were counted last.
    pub(crate) fn counted(&self) -> &CountedSessions {
        &self.0.counted
    }
}

impl Deref for Pages {
    type Target = HttpLayer;

    fn deref(&self) -> &HttpLayer {
        &self.0.http
    }
}

impl FromRef<Pages> for HttpLayer {
    fn from_ref(pages: &Pages) -> Self {
        pages.0.http.clone()
    }
}
