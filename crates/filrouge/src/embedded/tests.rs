//! A ledger in this process, on files of its own.

use filrouge_engine::api_keys::{NewApiKey, Role};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::open::{self, IfMissing};

const TURNS: &str = "/api/v1/sessions/s/turns";
const ITEMS: &str = "/api/v1/sessions/s/items";

/// The settings of a ledger whose files are all in `folder`.
fn settings(folder: &TempDir) -> BTreeMap<String, String> {
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("config.toml"), "").unwrap();
    let settings = [
        ("config", path("config.toml")),
        ("store", format!("sqlite:{}", path("filrouge.db"))),
        ("keyring", path("keyring.json")),
        ("anchor", path("anchor")),
        ("spool_dir", path("spool")),
        ("search_index_dir", path("index")),
    ];
    settings
        .map(|(name, value)| (name.to_owned(), value))
        .into()
}

async fn call(ledger: &EmbeddedLedger, request: Request<Body>) -> (u16, Value) {
    let (response, in_progress) = ledger.call(request).await.unwrap();
    let status = response.status().as_u16();
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await;
    drop(in_progress);
    (status, serde_json::from_slice(&body.unwrap()).unwrap())
}

async fn post(ledger: &EmbeddedLedger, path: &str, body: &Value) -> (u16, Value) {
    let request = Request::post(path).header(header::CONTENT_TYPE, "application/json");
    call(ledger, request.body(body.to_string().into()).unwrap()).await
}

async fn get(ledger: &EmbeddedLedger, path: &str) -> (u16, Value) {
    call(ledger, Request::get(path).body(Body::empty()).unwrap()).await
}

fn turn() -> Value {
    json!({ "request_id": "r", "question_neutral": "?", "answer_neutral": "!" })
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_recorded_is_there_after_the_ledger_was_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = EmbeddedLedger::open(settings(&folder)).await.unwrap();
    assert_eq!(post(&ledger, TURNS, &turn()).await.0, 201);
    ledger.close().await;
    ledger.close().await;
    let request = Request::get(ITEMS).body(Body::empty()).unwrap();
    assert!(ledger.call(request).await.is_err(), "it is closed");
    let ledger = EmbeddedLedger::open(settings(&folder)).await.unwrap();
    let (status, items) = get(&ledger, ITEMS).await;
    assert_eq!((status, items["data"].as_array().unwrap().len()), (200, 2));
    let (_, repeated) = post(&ledger, TURNS, &turn()).await;
    assert_eq!(repeated["replayed"], true);
    ledger.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_process_itself_needs_no_key() {
    let folder = tempfile::tempdir().unwrap();
    let key = NewApiKey {
        name: None,
        role: Role::Service,
        identity_id: None,
        expires_at: None,
    };
    let config = Config::read(&options(settings(&folder)), None).unwrap();
    let created = open::with(&config, IfMissing::Create, async |opened, operator| {
        Ok(opened.engine.keys.create(operator, key).await?)
    });
    created.await.unwrap();
    let ledger = EmbeddedLedger::open(settings(&folder)).await.unwrap();
    assert_eq!(post(&ledger, TURNS, &turn()).await.0, 201);
    ledger.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_ends_streams() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = EmbeddedLedger::open(settings(&folder)).await.unwrap();
    post(&ledger, TURNS, &turn()).await;
    let request = Request::get(ITEMS).header(header::ACCEPT, "text/event-stream");
    let request = request.header("last-event-id", "0").body(Body::empty());
    let (tail, in_progress) = ledger.call(request.unwrap()).await.unwrap();
    let reading = tokio::spawn(async move {
        let events = axum::body::to_bytes(tail.into_body(), usize::MAX).await;
        drop(in_progress);
        String::from_utf8(events.unwrap().to_vec()).unwrap()
    });
    ledger.close().await;
    let events = reading.await.unwrap();
    assert!(events.starts_with("retry: "), "{events}");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_settings_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (name, value) in [("owner", "x"), ("store", "mysql://"), ("lanes", "0")] {
        let mut settings = settings(&folder);
        settings.insert(name.to_owned(), value.to_owned());
        let refused = EmbeddedLedger::open(settings).await.err().unwrap();
        assert_eq!(refused.code, "usage", "{name}");
        assert!(refused.detail.contains(name), "{refused}");
    }
}
