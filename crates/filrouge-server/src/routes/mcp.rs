//! `/mcp`: histories for agents over the Model Context Protocol (DESIGN §12), with the same authentication, rates and
//! metrics as every route. It is not in the OpenAPI document: its messages describe themselves (`tools/list`).
//!
//! Each request has its own library: the histories that the server was started with, followed by the ledger as the
//! caller sees it. No connection or session of the protocol is kept.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, header};
use filrouge_http::access::may;
use filrouge_http::extract::{AnyQuery, InTenant};
use filrouge_mcp::{Corpus, OfCaller};
use filrouge_sources::ledger::LedgerSource;
use tokio::runtime::Handle;

use crate::app::App;

/// The route. It accepts only POST: streams and sessions of older protocol versions are not supported.
pub(super) const PATH: &str = "/mcp";

/// Answers one message of the protocol for its caller.
pub(super) async fn call(
    State(app): State<App>,
    at: InTenant<may::Read, AnyQuery>,
    mut request: Request,
) -> Response<Body> {
    let mounted = &app.mcp;
    // The origin check below knows only the names of this server.
    if app.authority().allows_origin(request.headers()) {
        request.headers_mut().remove(header::ORIGIN);
    }
    // A fence does not matter here: nothing is written.
    let caller = at.caller.with_fence(None);
    let searcher = app
        .search
        .of_histories(&mounted.library, app.engine(), &caller);
    let ledger = LedgerSource::new(app.engine().clone(), caller, Handle::current());
    let library = mounted.library.with(Arc::new(ledger));
    let corpus = Corpus { library, searcher };
    request.extensions_mut().insert(OfCaller(corpus));
    mounted.service.handle(request).await.map(Body::new)
}
