//! The first words of the first question are a session's title until somebody sets one.

use serde_json::{Value, json};

use crate::http::Client;
use crate::mcp_http::Agent;
use crate::world::World;

const QUESTION: &str =
    "Which  of the\nferries to Heraklion takes bicycles, and how much does that cost?";
const TITLE: &str = "Which of the ferries to Heraklion takes bicycles, and how…";

/// Records a complete turn; returns it.
fn turn(client: &Client, session: &str, request: &str, question: &str) -> Value {
    let body =
        json!({ "request_id": request, "question_neutral": question, "answer_neutral": "a" });
    client.post(&format!("/{session}/turns"), &body).wrote(201)
}

fn title(client: &Client, session: &str) -> Value {
    client.get_body(&format!("/{session}"))["title"].clone()
}

#[test]
fn the_first_words_are_the_title_everywhere() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    turn(&client, "s", "r1", QUESTION);
    turn(&client, "s", "r2", "And the next day?");
    assert_eq!(title(&client, "s"), TITLE);
    assert_eq!(client.get_body("?q=FERRIES")["data"][0]["title"], TITLE);
    let document = client.get("/s/export?format=md").text;
    assert!(document.starts_with(&format!("# {TITLE}")), "{document}");
    let call = json!({ "name": "list_sessions", "arguments": {} });
    let listed = Agent::new(&server, None).request("tools/call", call);
    let listed = &listed["result"]["structuredContent"]["sessions"];
    assert_eq!(listed[0]["title"], TITLE);
    // The question is found once, not again as a title.
    let found = client.send_without_body("GET", "/api/v1/search?q=bicycles", "");
    let found = found.is(200);
    assert_eq!(found["data"][0]["title"], TITLE, "{found}");
    assert_eq!(found["data"][0]["matches"], 1, "{found}");
    server.stop();
    let listed = world.ok(&["sessions", "list"]);
    assert!(listed.contains("Which of the ferries"), "{listed}");
    world.verify();
}

#[test]
fn a_title_that_somebody_sets_stays() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    // Created without a title, before its first turn.
    client
        .post("", &json!({ "session_id": "later" }))
        .wrote(201);
    assert_eq!(title(&client, "later"), Value::Null);
    turn(&client, "later", "r1", QUESTION);
    assert_eq!(title(&client, "later"), TITLE);
    client
        .patch("/later", &json!({ "title": "Ferries" }))
        .wrote(200);
    turn(&client, "later", "r2", "And the next day?");
    assert_eq!(title(&client, "later"), "Ferries");
    client.patch("/later", &json!({ "title": null })).wrote(200);
    turn(&client, "later", "r3", "And the day after?");
    assert_eq!(title(&client, "later"), Value::Null);
    let own = json!({ "session_id": "own", "title": "Mine" });
    client.post("", &own).wrote(201);
    turn(&client, "own", "r1", QUESTION);
    assert_eq!(title(&client, "own"), "Mine");
    server.stop();
    world.verify();
}

#[test]
fn a_redacted_question_takes_its_words_out_of_the_title() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let reason = json!({ "reason": "asked to" });
    let first = turn(&client, "s", "r1", QUESTION);
    let second = turn(&client, "s", "r2", "And the next day?");
    let redact = |session: &str, turn: &Value| {
        let id = turn["turn_id"].as_str().unwrap();
        client
            .post(&format!("/{session}/turns/{id}/redact"), &reason)
            .wrote(200);
    };
    redact("s", &second);
    assert_eq!(title(&client, "s"), TITLE);
    redact("s", &first);
    assert_eq!(title(&client, "s"), Value::Null);
    turn(&client, "s", "r3", "Another question");
    assert_eq!(title(&client, "s"), Value::Null);
    // A title in other words stays.
    let own = json!({ "session_id": "own", "title": "Mine" });
    client.post("", &own).wrote(201);
    let asked = turn(&client, "own", "r1", QUESTION);
    redact("own", &asked);
    assert_eq!(title(&client, "own"), "Mine");
    server.stop();
    world.assert_not_stored("Heraklion");
    world.verify();
}
