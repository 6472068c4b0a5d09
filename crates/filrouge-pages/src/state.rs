//! The state of all pages.

use std::ops::Deref;
use std::sync::Arc;

use axum::extract::FromRef;
use filrouge_http::HttpLayer;
use filrouge_search::SearchSettings;
use filrouge_sources::Library;

use crate::sessions::FiguresCache;

/// What pages need: the services, and the histories of other programs beside the ledger. Clones are handles to the same
/// state. It dereferences to the HTTP layer.
#[derive(Clone)]
pub struct Pages(Arc<Shared>);

struct Shared {
    http: HttpLayer,
    library: Library,
    search: SearchSettings,
    figures: FiguresCache,
}

impl Pages {
    /// Builds the state from the HTTP layer, the histories that every caller may read, and the settings of searches.
    pub fn new(http: HttpLayer, library: Library, search: SearchSettings) -> Self {
        Self(Arc::new(Shared {
            http,
            library,
            search,
            figures: FiguresCache::default(),
        }))
    }

    /// The histories of other programs.
    pub(crate) fn library(&self) -> &Library {
        &self.0.library
    }

    /// The settings of searches.
    pub(crate) fn search(&self) -> &SearchSettings {
        &self.0.search
    }

    /// The kept figures of sessions.
    pub(crate) fn figures(&self) -> &FiguresCache {
        &self.0.figures
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
