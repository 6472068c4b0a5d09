//! `/mcp`: histories for agents over the Model Context Protocol (DESIGN §12), behind the same authentication, rates and
//! metrics as every route. It is not in the OpenAPI document: its messages describe themselves (`tools/list`).
//!
//! Each request is answered from a library of its own: the ledger as its caller sees it, behind the histories that the
//! server was started with. No connection or session of the protocol is remembered.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Response;
use filrouge_mcp::{Corpus, Histories, HttpService, HttpSettings, McpServer, OfCaller, Own};
use filrouge_sources::Library;
use filrouge_sources::ledger::LedgerSource;
use tokio::runtime::Handle;

use crate::access::may;
use crate::extract::InTenant;
use crate::serve::App;

mod alone;

pub use alone::serve_mcp;

/// The route.
pub(crate) const PATH: &str = "/mcp";
/// The methods it knows: streams and sessions of older generations of the protocol are not kept.
pub(crate) const METHODS: &str = "POST";

/// What agents are answered from at `/mcp`, and under which names.
#[derive(Clone)]
pub struct McpSettings {
    /// Histories that everybody who may call can read, whoever they are of; none unless asked for.
    pub library: Library,
    /// Names in `Host` and `Origin` that are answered to besides those of this machine, with or without a port.
    pub hosts: Vec<String>,
}

impl Default for McpSettings {
    /// The ledger alone, and this machine's own names.
    fn default() -> Self {
        Self {
            library: Library::new(Vec::new(), 0),
            hosts: Vec::new(),
        }
    }
}

/// The service with the histories that are the same for everybody.
pub(crate) struct Mounted {
    library: Library,
    service: HttpService,
}

impl Mounted {
    pub(crate) fn new(settings: McpSettings) -> Self {
        let server = McpServer::new(Histories::OfCaller, Own::default());
        let http = HttpSettings {
            hosts: settings.hosts,
            ..HttpSettings::default()
        };
        Self {
            library: settings.library,
            service: HttpService::new(server, &http),
        }
    }
}

/// Answers one message of the protocol for its caller.
pub(crate) async fn call(
    State(app): State<App>,
    at: InTenant<may::Read>,
    mut request: Request,
) -> Response<Body> {
    let mounted = app.mcp();
    // What a write would be held by means nothing here.
    let caller = at.caller.with_hold(None);
    let searcher = app
        .search()
        .of_histories(&mounted.library, app.engine(), &caller);
    let ledger = LedgerSource::new(app.engine().clone(), caller, Handle::current());
    let library = mounted.library.with(Arc::new(ledger));
    let corpus = Corpus { library, searcher };
    request.extensions_mut().insert(OfCaller(corpus));
    mounted.service.handle(request).await.map(Body::new)
}
