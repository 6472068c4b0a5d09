//! `/mcp`: histories for agents over the Model Context Protocol (DESIGN §12), behind the same authentication, rates and
//! metrics as every route. It is not in the OpenAPI document: its messages describe themselves (`tools/list`).
//!
//! Each request is answered from a library of its own: the ledger as its caller sees it, behind the histories that the
//! server was started with. No connection or session of the protocol is remembered.

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

/// The route. It knows POST alone: streams and sessions of older generations of the protocol are not kept.
pub(super) const PATH: &str = "/mcp";

/// Answers one message of the protocol for its caller.
pub(super) async fn call(
    State(app): State<App>,
    at: InTenant<may::Read, AnyQuery>,
    mut request: Request,
) -> Response<Body> {
    let mounted = &app.mcp;
    // What checks the origin below knows the names of this server alone.
    if app.authority().allows_origin(request.headers()) {
        request.headers_mut().remove(header::ORIGIN);
    }
    // What a write would be held by means nothing here.
    let caller = at.caller.with_hold(None);
    let searcher = app
        .search
        .of_histories(&mounted.library, app.engine(), &caller);
    let ledger = LedgerSource::new(app.engine().clone(), caller, Handle::current());
    let library = mounted.library.with(Arc::new(ledger));
    let corpus = Corpus { library, searcher };
    request.extensions_mut().insert(OfCaller(corpus));
    mounted.service.handle(request).await.map(Body::new)
}
