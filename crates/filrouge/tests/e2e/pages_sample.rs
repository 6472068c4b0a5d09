//! A realistic history for the pages: one rich conversation, and sessions of other people.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::caller::{key, within_five_seconds};
use crate::http::Client;
use crate::pages_routes::{Ids, pages};
use crate::pages_shares::share_session;
use crate::world::{Server, World, copy_tree, fixture};

/// The session with the rich conversation.
const SESSION: &str = "nightly-deploy";
/// The model in the conversation.
const MODEL: &str = "claude-opus-4";

/// Another session: its id, owner, project, title, agent and answer.
type Other = [&'static str; 6];

const OTHERS: [Other; 6] = [
    [
        "invoice-export",
        "ada@example.org",
        "billing",
        "Export invoices as CSV",
        "coder",
        "The export runs every night at two.",
    ],
    [
        "harbour-dues",
        "bea@example.org",
        "billing",
        "Explain the harbour dues of March",
        "clerk",
        "Two ships stayed one day longer.",
    ],
    [
        "call-7731",
        "carl@example.org",
        "front-desk",
        "Move the appointment to Friday",
        "voice",
        "Friday at ten is booked.",
    ],
    [
        "call-7732",
        "dora@example.org",
        "front-desk",
        "Where is my parcel?",
        "voice",
        "It arrives tomorrow before noon.",
    ],
    [
        "schema-review",
        "ada@example.org",
        "ledger",
        "Review the migration of the table of prices",
        "reviewer",
        "The index is missing on the second column.",
    ],
    [
        "onboarding",
        "emil@example.org",
        "people",
        "Plan the first week of a new colleague",
        "planner",
        "Monday begins with the tour.",
    ],
];

/// Opens a page, and waits until its scripts have loaded its parts.
pub(crate) fn open(browser: &Browser, url: &str) {
    browser.open(url);
    let loaded = "document.querySelector('.htmx-request, .htmx-swapping, .htmx-settling') === null";
    browser.until("the parts are loaded", loaded, &[]);
}

/// Calls `visit` with the name and URL of every page of a history, of a failure, of an empty store, and of the form to
/// sign in.
pub(crate) fn visit_pages(visit: impl Fn(&str, &str)) {
    let world = World::on_sqlite();
    copy_tree(&fixture("claude-code"), &world.path(".claude"));
    let server = world.serve();
    let ids = record(&server);
    for (name, target) in pages(&ids) {
        visit(&name, &format!("{}{target}", server.origin()));
    }
    visit("failure", &format!("{}/ui/sessions/none", server.origin()));
    server.stop();
    let world = World::on_sqlite();
    let server = world.serve();
    visit("empty", server.origin());
    key(&world, &["--role", "admin"]);
    let client = server.client();
    within_five_seconds("the server asks for a key", || {
        client.send_without_body("GET", "/", "").status == 401
    });
    visit("sign-in", server.origin());
    server.stop();
}

/// Records the history, and shares the rich conversation; returns the ids of this conversation and of a turn in it.
fn record(server: &Server) -> Ids {
    let client = server.client();
    for other in &OTHERS {
        record_other(&client, other);
    }
    let client = client.for_identity("ada@example.org");
    let session = json!({ "session_id": SESSION, "project_id": "billing", "metadata": { "branch": "main" },
        "title": "Why did the nightly deploy fail at the harbour?" });
    client.post("", &session).wrote(201);
    let turn = record_investigation(&client);
    record_child(&client);
    record_correction(&client);
    let state = json!({ "step": "patched", "tests": { "passed": 214, "failed": 0 } });
    let checkpoint = json!({ "seq": turn["last_seq"], "label": "PATCHED", "state": state });
    let path = format!("/{SESSION}/checkpoints");
    client.put(&path, &checkpoint).wrote(201);
    record_failure(&client);
    record_redaction(&client);
    let running = json!({ "request_id": "watch", "question_neutral": "Watch tonight’s deploy, and report when it is done." });
    client.post(&turns(), &running).wrote(201);
    Ids {
        session: SESSION.to_owned(),
        turn: turn["turn_id"].as_str().unwrap().to_owned(),
        shared: share_session(server, SESSION, "", "hours=24"),
    }
}

fn turns() -> String {
    format!("/{SESSION}/turns")
}

fn record_other(client: &Client, other: &Other) {
    let [id, owner, project, title, agent, answer] = other;
    let client = client.for_identity(owner);
    let session = json!({ "session_id": id, "title": title, "project_id": project });
    client.post("", &session).wrote(201);
    let thought = json!({ "role": "assistant", "channel": "thought", "agent": agent, "model": MODEL,
        "usage": { "input_tokens": 812, "output_tokens": 96 },
        "parts": [{ "type": "text", "text": "I read what is recorded first." }] });
    let turn = json!({ "request_id": "1", "question_neutral": title, "items": [thought], "answer_neutral": answer });
    client.post(&format!("/{id}/turns"), &turn).wrote(201);
}

/// An item of the agent.
fn item(channel: &str, part: Value) -> Value {
    json!({ "role": "assistant", "channel": channel, "agent": "coder", "model": MODEL, "parts": [part] })
}

/// A call of a tool, and its result.
fn call(id: &str, name: &str, args: Value, content: Value) -> [Value; 2] {
    let call = json!({ "type": "tool_call", "call_id": id, "name": name, "args": args });
    let result = json!({ "type": "tool_result", "call_id": id, "ok": true, "content": content });
    let result = json!({ "role": "tool", "channel": "tool_result", "parts": [result] });
    [item("tool_call", call), result]
}

/// Reasoning, a command, JSON, a picture, and an edit.
fn investigation() -> Vec<Value> {
    let picture = STANDARD.encode(include_bytes!("pages_sample/latency.png"));
    let picture = format!("data:image/png;base64,{picture}");
    let reasoning = json!({ "type": "reasoning", "text": "The deploy stopped after the health check. Either the \
        service is slower than before, or the limit of the check has changed. The log of the night decides." });
    let log = "02:00:04 deploy 4.2.0 begins\n02:00:31 health check: no answer after 2 s\n02:00:31 rolled back to 4.1.9";
    let edit = json!({ "file_path": "deploy/health.toml",
        "old_string": "timeout_s = 2\nretries = 0", "new_string": "timeout_s = 10\nretries = 2" });
    let figures =
        json!({ "p50_ms": 310, "p95_ms": 4100, "requests": 18_422, "since": "2026-11-03" });
    let mut items = vec![item("thought", reasoning)];
    items.extend(call(
        "c1",
        "bash",
        json!({ "command": "journalctl -u deploy --since 02:00 | tail -n 3" }),
        json!(log),
    ));
    items.extend(call(
        "c2",
        "latency",
        json!({ "service": "billing", "days": 7 }),
        figures,
    ));
    items.push(item(
        "observation",
        json!({ "type": "image_url", "image_url": { "url": picture } }),
    ));
    items.extend(call(
        "c3",
        "edit",
        edit,
        json!("deploy/health.toml is changed"),
    ));
    items
}

/// Records a turn with everything that happened in it, and with an answer in two languages.
fn record_investigation(client: &Client) -> Value {
    let answer = "The first request after a start takes **4.1 s**, and the health check gave up after 2 s.\n\n\
        1. The cache of prices is filled by the first request.\n2. The limit was lowered on 3 November.\n\n\
        I raised the limit:\n\n```toml\ntimeout_s = 10\nretries = 2\n```\n\n\
        | | before | after |\n|---|---:|---:|\n| limit | 2 s | 10 s |\n| retries | 0 | 2 |";
    let turn = json!({ "request_id": "why",
        "question_neutral": "Why did the nightly deploy fail, and can you repair it?",
        "question_translated": "Pourquoi le déploiement de la nuit a-t-il échoué, et peux-tu le réparer ?" });
    let turn = client.post(&turns(), &turn).wrote(201);
    let path = format!("{}/{}", turns(), turn["turn_id"].as_str().unwrap());
    let items = json!({ "items": investigation() });
    client.post(&format!("{path}/items"), &items).wrote(201);
    let translated = "La première requête après un démarrage dure **4,1 s**, et le contrôle abandonnait après 2 s. \
        J’ai porté le délai à 10 s.";
    let answer = json!({ "answer_neutral": answer, "answer_translated": translated });
    client.post(&format!("{path}/finalize"), &answer).wrote(200)
}

/// Records the session of a sub-agent.
fn record_child(client: &Client) {
    let session = json!({ "session_id": "change-log", "parent_session_id": SESSION, "project_id": "billing",
        "title": "Search the change log for the health check" });
    client.post("", &session).wrote(201);
    let turn = json!({ "request_id": "1", "question_neutral": "Who changed the limit of the health check?",
        "answer_neutral": "It was lowered to 2 s on 3 November, with the change “fail fast”." });
    client.post("/change-log/turns", &turn).wrote(201);
}

/// Records a turn and its replacement.
fn record_correction(client: &Client) {
    let question = "How long did customers wait?";
    let turn = json!({ "request_id": "waited", "question_neutral": question,
        "answer_neutral": "Nobody waited: the old version kept running." });
    let turn = client.post(&turns(), &turn).wrote(201);
    let path = format!("{}/{}/replace", turns(), turn["turn_id"].as_str().unwrap());
    let replacement = json!({ "request_id": "waited-2", "question_neutral": question,
        "answer_neutral": "Nine customers waited for up to four seconds; the old version kept running." });
    client.post(&path, &replacement).wrote(201);
}

/// Records a turn that fails after a part of the answer.
fn record_failure(client: &Client) {
    let turn = json!({ "request_id": "report", "question_neutral": "Write the report for the owners of the service." });
    let turn = client.post(&turns(), &turn).wrote(201);
    let error = json!({ "code": "model_overloaded", "message": "The model did not answer within 60 s.", "retryable": true });
    let failure =
        json!({ "error": error, "partial_text": "In the night of 4 November the deploy" });
    let path = format!("{}/{}/fail", turns(), turn["turn_id"].as_str().unwrap());
    client.post(&path, &failure).wrote(200);
}

/// Records a turn, and redacts it.
fn record_redaction(client: &Client) {
    let turn = json!({ "request_id": "caller", "question_neutral": "Who reported it first?",
        "answer_neutral": "Mrs. Holm of Pier Nine, by telephone." });
    let turn = client.post(&turns(), &turn).wrote(201);
    let path = format!("{}/{}/redact", turns(), turn["turn_id"].as_str().unwrap());
    let reason = json!({ "reason": "names a person who asked for it" });
    client.post(&path, &reason).wrote(200);
}
