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

type Answer = Response<Body>;

pub(crate) fn router(calls: Arc<Calls>) -> Router {
    Router::new()
        .route("/vapi/webhook", post(server_message))
        .route("/chat/completions", post(chat))
        .route("/calls/{id}", get(call))
        .route("/agenda", get(calendar))
        .route("/status", get(status))
        .with_state(calls)
}

fn answer(status: u16, kind: &'static str, body: impl Into<Body>) -> Answer {
    let mut answer = Response::new(body.into());
    *answer.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let kind = header::HeaderValue::from_static(kind);
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    answer
}

fn json_answer(status: u16, body: &Value) -> Answer {
    answer(status, "application/json", body.to_string())
}

/// Runs a webhook to its end, even if its sender disconnects.
async fn run_to_end(webhook: impl Future<Output = Answer> + Send + 'static) -> Answer {
    let done = tokio::spawn(webhook).await;
    done.unwrap_or_else(|_| json_answer(500, &json!({ "error": "the webhook failed" })))
}

async fn server_message(State(calls): State<Arc<Calls>>, body: Bytes) -> Answer {
    run_to_end(async move {
        match vapi::server_message(&calls, &body).await {
            (status, Some(body)) => json_answer(status, &body),
            (status, None) => answer(status, "application/json", Body::empty()),
        }
    })
    .await
}

async fn chat(State(calls): State<Arc<Calls>>, headers: HeaderMap, body: Bytes) -> Answer {
    let request: vapi::ChatRequest = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(error) => return json_answer(422, &json!({ "error": error.to_string() })),
    };
    let id = headers.get("x-call-id").and_then(|id| id.to_str().ok());
    let id = id.map(str::to_owned);
    run_to_end(async move { completion(&calls, &request, id.as_deref()).await }).await
}

async fn completion(calls: &Calls, request: &vapi::ChatRequest, id: Option<&str>) -> Answer {
    let Some(reply) = vapi::chat(calls, request, id).await else {
        return json_answer(422, &json!({ "error": "call.id is missing" }));
    };
    let Some(text) = vapi::spoken(&reply) else {
        return answer(204, "application/json", Body::empty());
    };
    let model = request.model.as_deref().unwrap_or("voice-agent");
    let id = match &reply {
        Reply::Speak { seq, .. } => format!("chatcmpl-{seq}"),
        _ => "chatcmpl-0".to_owned(),
    };
    match request.stream {
        true => answer(
            200,
            "text/event-stream",
            completions::stream(model, &id, text),
        ),
        false => json_answer(200, &completions::complete(model, &id, text)),
    }
}

async fn call(State(calls): State<Arc<Calls>>, Path(id): Path<String>) -> Answer {
    let Ok(id) = SessionId::new(id) else {
        return json_answer(404, &json!({ "error": "no such call" }));
    };
    json_result(calls.inspect(&id).await)
}

async fn calendar(State(calls): State<Arc<Calls>>) -> Answer {
    json_result(calls.calendar().await)
}

fn json_result(result: Result<Value, filrouge_types::Failure>) -> Answer {
    match result {
        Ok(value) => json_answer(200, &value),
        Err(failure) => json_answer(
            failure.code.status(),
            &json!({ "error": failure.to_string() }),
        ),
    }
}

async fn status(State(calls): State<Arc<Calls>>) -> Answer {
    let status = json!({ "instance": calls.config().instance, "counters": calls.counters(), "spool": calls.spool() });
    json_answer(200, &status)
}
