//! The routes.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Response, StatusCode, header};
use axum::routing::{get, post};
use filrouge_types::SessionId;
use serde_json::{Value, json};

use crate::calls::{Calls, Reply};
use crate::{completions, vapi};

type HttpResponse = Response<Body>;

pub(crate) fn router(calls: Arc<Calls>) -> Router {
    Router::new()
        .route("/vapi/webhook", post(server_message))
        .route("/chat/completions", post(chat))
        .route("/calls/{id}", get(call))
        .route("/agenda", get(calendar))
        .route("/status", get(status))
        .with_state(calls)
}

fn response(status: u16, content_type: &'static str, body: impl Into<Body>) -> HttpResponse {
    let mut response = Response::new(body.into());
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let content_type = header::HeaderValue::from_static(content_type);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, content_type);
    response
}

fn json_response(status: u16, body: &Value) -> HttpResponse {
    response(status, "application/json", body.to_string())
}

/// Runs a webhook to its end, even if its sender disconnects.
async fn run_to_end(webhook: impl Future<Output = HttpResponse> + Send + 'static) -> HttpResponse {
    let result = tokio::spawn(webhook).await;
    result.unwrap_or_else(|_| json_response(500, &json!({ "error": "the webhook failed" })))
}

async fn server_message(State(calls): State<Arc<Calls>>, body: Bytes) -> HttpResponse {
    run_to_end(async move {
        match vapi::server_message(&calls, &body).await {
            (status, Some(body)) => json_response(status, &body),
            (status, None) => response(status, "application/json", Body::empty()),
        }
    })
    .await
}

async fn chat(State(calls): State<Arc<Calls>>, headers: HeaderMap, body: Bytes) -> HttpResponse {
    let request: vapi::ChatRequest = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(error) => return json_response(422, &json!({ "error": error.to_string() })),
    };
    let id = headers.get("x-call-id").and_then(|id| id.to_str().ok());
    let id = id.map(str::to_owned);
    run_to_end(async move { completion(&calls, &request, id.as_deref()).await }).await
}

async fn completion(calls: &Calls, request: &vapi::ChatRequest, id: Option<&str>) -> HttpResponse {
    let Some(reply) = vapi::chat(calls, request, id).await else {
        return json_response(422, &json!({ "error": "call.id is missing" }));
    };
    let Some(text) = vapi::spoken(&reply) else {
        return response(204, "application/json", Body::empty());
    };
    let model = request.model.as_deref().unwrap_or("voice-agent");
    let id = match &reply {
        Reply::Speak { seq, .. } => format!("chatcmpl-{seq}"),
        _ => "chatcmpl-0".to_owned(),
    };
    match request.stream {
        true => response(
            200,
            "text/event-stream",
            completions::stream(model, &id, text),
        ),
        false => json_response(200, &completions::complete(model, &id, text)),
    }
}

async fn call(State(calls): State<Arc<Calls>>, Path(id): Path<String>) -> HttpResponse {
    let Ok(id) = SessionId::new(id) else {
        return json_response(404, &json!({ "error": "no such call" }));
    };
    json_result(calls.inspect(&id).await)
}

async fn calendar(State(calls): State<Arc<Calls>>) -> HttpResponse {
    json_result(calls.calendar().await)
}

fn json_result(result: Result<Value, filrouge_types::Failure>) -> HttpResponse {
    match result {
        Ok(value) => json_response(200, &value),
        Err(failure) => json_response(
            failure.code.status(),
            &json!({ "error": failure.to_string() }),
        ),
    }
}

async fn status(State(calls): State<Arc<Calls>>) -> HttpResponse {
    let status = json!({ "instance": calls.config().instance, "counters": calls.counters(), "spool": calls.spool() });
    json_response(200, &status)
}
