//! HTTP requests, passed directly to the service.

use std::convert::Infallible;

use filrouge_mcp::{CallerCorpus, HttpService};
use filrouge_sources::Library;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use crate::artificial_history::corpus;
use crate::clients::meta;

/// A request of the newest protocol version that has a handshake.
pub(crate) fn handshake_request() -> http::request::Builder {
    Request::post("http://127.0.0.1/mcp")
        .header("Host", "127.0.0.1:7717")
        .header("Content-Type", "application/json")
        .header("Accept", "application/json, text/event-stream")
        .header("MCP-Protocol-Version", "2025-11-25")
}

fn body(method: &str, params: &Value) -> Full<bytes::Bytes> {
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    Full::from(message.to_string())
}

fn caller_corpus(library: Library) -> CallerCorpus {
    CallerCorpus {
        corpus: corpus(library),
        caller: ("desk".to_owned(), "ann".to_owned()),
    }
}

/// Sends a tool call for a caller; returns the status and the body.
pub(crate) async fn call(
    service: &HttpService,
    caller: Option<Library>,
    tool: &str,
    arguments: Value,
) -> (StatusCode, Value) {
    let params = json!({ "name": tool, "arguments": arguments });
    let mut request = handshake_request()
        .body(body("tools/call", &params))
        .unwrap();
    if let Some(library) = caller {
        request.extensions_mut().insert(caller_corpus(library));
    }
    read_response(service.handle(request).await).await
}

/// Like [`call`], in the format of version 2026-07-28.
pub(crate) async fn call_newest_version(
    service: &HttpService,
    caller: Library,
    tool: &str,
    arguments: Value,
) -> (StatusCode, Value) {
    let params = json!({ "name": tool, "arguments": arguments, "_meta": meta() });
    let mut request = Request::post("http://127.0.0.1/mcp")
        .header("Host", "localhost")
        .header("Content-Type", "application/json")
        .header("Accept", "application/json, text/event-stream")
        .header("MCP-Protocol-Version", "2026-07-28")
        .header("Mcp-Method", "tools/call")
        .header("Mcp-Name", tool)
        .body(body("tools/call", &params))
        .unwrap();
    request.extensions_mut().insert(caller_corpus(caller));
    read_response(service.handle(request).await).await
}

/// The status of a response, and its body: as JSON if it is JSON, else as a string.
pub(crate) async fn read_response<B>(response: Response<B>) -> (StatusCode, Value)
where
    B: http_body::Body<Error = Infallible>,
{
    let status = response.status();
    let Ok(body) = response.into_body().collect().await;
    let text = String::from_utf8(body.to_bytes().to_vec()).unwrap();
    (
        status,
        serde_json::from_str(&text).unwrap_or(Value::String(text)),
    )
}
