//! `/mcp`: histories for agents over the Model Context Protocol (DESIGN §12), with the same authentication, rate limits
//! and metrics as every route. The route is not in the OpenAPI document: the protocol describes its own messages
//! (`tools/list`).
//!
//! Each request gets its own library: the histories that the server was started with, followed by the part of the
//! ledger that the caller may read. Between requests the server keeps only conversations
//! that were read, for their next pages.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{Response, header};
use filrouge_http::access::may;
use filrouge_http::extract::{AnyQuery, TenantAccess};
use filrouge_http::limits::key_and_end_user;
use filrouge_mcp::{CallerCorpus, Corpus};
use filrouge_sources::ledger::LedgerSource;
use tokio::runtime::Handle;

use crate::app::App;

/// The route. It accepts only POST: streams and sessions of older protocol versions are not supported.
pub(super) const PATH: &str = "/mcp";

/// Answers one message of the protocol, on behalf of the request's caller.
pub(super) async fn handle(
    app: App,
    access: TenantAccess<may::Read, AnyQuery>,
    mut request: Request,
) -> Response<Body> {
    let mcp = &app.mcp;
    // The MCP service checks the origin too, but knows only the host names of this server.
    if app.authority().allows_origin(request.headers()) {
        request.headers_mut().remove(header::ORIGIN);
    }
    // Nothing is written here, so a fence is ignored.
    let caller = access.caller.with_fence(None);
    let search = &app.search;
    let searcher = search.searcher(mcp.library.clone(), app.engine(), &caller);
    let searcher = searcher.with_indexes(search.indexes.clone());
    let name = key_and_end_user(&caller);
    let ledger = LedgerSource::new(app.engine().clone(), caller, Handle::current());
    let ledger = ledger.keeping(mcp.kept.clone());
    let library = mcp.library.with(Arc::new(ledger));
    let corpus = Corpus {
        library,
        searcher,
        // Callers of a server start no programs on it.
        print_pdf: None,
    };
    let corpus = CallerCorpus {
        corpus,
        caller: name,
    };
    request.extensions_mut().insert(corpus);
    mcp.service.handle(request).await.map(Body::new)
}
