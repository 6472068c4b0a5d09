//! Makes the span of each request an OpenTelemetry span. It continues the caller's trace, and its attributes have the
//! names of OpenTelemetry's semantic conventions.
//!
//! The program's tracing subscriber decides where spans are sent. If it has no layer for OpenTelemetry, this has no
//! effect.

use axum::extract::Request;
use axum::http::{HeaderMap, Response};
use opentelemetry::global::get_text_map_propagator;
use opentelemetry::propagation::Extractor;
use opentelemetry::trace::Status;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// Names of attributes from version 1.37 of the semantic conventions, where those of GenAI are not stable yet.
mod names {
    pub(super) const CONVERSATION_ID: &str = "gen_ai.conversation.id";
    pub(super) const METHOD: &str = "http.request.method";
    pub(super) const ROUTE: &str = "http.route";
    pub(super) const STATUS: &str = "http.response.status_code";
}

/// The headers of a request, from which only those of the trace context are read.
struct TraceHeaders<'a>(&'a HeaderMap);

impl Extractor for TraceHeaders<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(|value| value.to_str().ok())
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent", "tracestate"]
    }
}

/// Returns the session's id as spelled in the path, if the route has one. It must be the route's first parameter.
fn session_in_path<'a>(route: &str, path: &'a str) -> Option<&'a str> {
    let (before, _) = route.split_once("{session_id}")?;
    path.strip_prefix(before)?.split('/').next()
}

/// Makes the span part of the caller's trace, and sets its method, route and conversation.
pub(crate) fn begin(span: &Span, request: &Request, method: &'static str, route: &str) {
    let remote_parent = get_text_map_propagator(|p| p.extract(&TraceHeaders(request.headers())));
    // This fails without a layer for OpenTelemetry; then there is no trace to continue.
    let _ = span.set_parent(remote_parent);
    span.set_attribute(names::METHOD, method);
    span.set_attribute(names::ROUTE, route.to_owned());
    if let Some(session) = session_in_path(route, request.uri().path()) {
        span.set_attribute(names::CONVERSATION_ID, session.to_owned());
    }
}

/// Records the status of the response in the span.
pub(crate) fn end<B>(span: &Span, response: &Response<B>) {
    let status = response.status();
    span.set_attribute(names::STATUS, i64::from(status.as_u16()));
    if status.is_server_error() {
        span.set_status(Status::error(status.as_str().to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_conversation_is_the_session_of_the_path() {
        let turns = "/api/v1/sessions/{session_id}/turns";
        assert_eq!(
            session_in_path(turns, "/api/v1/sessions/a%2Fb/turns"),
            Some("a%2Fb")
        );
        assert_eq!(
            session_in_path("/api/v1/sessions", "/api/v1/sessions"),
            None
        );
        assert_eq!(session_in_path("/healthz", "/healthz"), None);
    }
}
