//! Restored context over HTTP: formats, windows and languages, refusals, and the log.

use serde_json::{Value, json};

use crate::http::{Client, text_item};
use crate::mcp_http::Agent;
use crate::world::World;

/// A text that the log must not contain.
const SECRET: &str = "s3cret-words";
const FORMATS: [&str; 4] = ["openai-chat", "openai-responses", "anthropic", "gemini"];

/// Records a finalized turn with a tool call (seqs 1 to 4), and an open turn whose call is unanswered (seqs 5 and 6).
fn record_conversation(client: &Client) {
    let call = json!({ "role": "assistant", "channel": "tool_call", "parts": [
        { "type": "tool_call", "call_id": "c1", "name": "weather", "args": { "city": "Łódź" } }] });
    let result = json!({ "role": "tool", "channel": "tool_result", "parts": [
        { "type": "tool_result", "call_id": "c1", "ok": true, "content": "12 degrees" }] });
    let complete = json!({ "request_id": "r1", "question_neutral": format!("Warm? {SECRET}"),
        "items": [call, result], "answer_neutral": "Not very." });
    client.post("/s/turns", &complete).wrote(201);
    let open = json!({ "role": "assistant", "channel": "tool_call", "parts": [
        { "type": "tool_call", "call_id": "c2", "name": "weather", "args": {} }] });
    let start = json!({ "request_id": "r2", "question_neutral": "And now?", "items": [open] });
    client.post("/s/turns", &start).wrote(201);
}

fn question() -> String {
    format!("Warm? {SECRET}")
}

#[test]
fn every_format_shows_the_same_conversation() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    record_conversation(&client);
    let context = |format: &str| client.get_body(&format!("/s/context?format={format}"));
    let args = r#"{"city":"Łódź"}"#;
    assert_eq!(
        context("openai-chat")["messages"],
        json!([
            { "role": "user", "content": question() },
            { "role": "assistant", "content": null, "tool_calls": [
                { "id": "c1", "type": "function", "function": { "name": "weather", "arguments": args } }] },
            { "role": "tool", "tool_call_id": "c1", "content": "12 degrees" },
            { "role": "assistant", "content": "Not very." },
            { "role": "user", "content": "And now?" },
        ])
    );
    assert_eq!(
        context("openai-responses")["messages"],
        json!([
            { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": question() }] },
            { "type": "function_call", "call_id": "c1", "name": "weather", "arguments": args },
            { "type": "function_call_output", "call_id": "c1", "output": "12 degrees" },
            { "type": "message", "role": "assistant", "content": "Not very." },
            { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "And now?" }] },
        ])
    );
    assert_eq!(
        context("anthropic")["messages"],
        json!([
            { "role": "user", "content": [{ "type": "text", "text": question() }] },
            { "role": "assistant", "content": [
                { "type": "tool_use", "id": "c1", "name": "weather", "input": { "city": "Łódź" } }] },
            { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "c1", "content": "12 degrees" }] },
            { "role": "assistant", "content": [{ "type": "text", "text": "Not very." }] },
            { "role": "user", "content": [{ "type": "text", "text": "And now?" }] },
        ])
    );
    assert_eq!(
        context("gemini")["messages"],
        json!([
            { "role": "user", "parts": [{ "text": question() }] },
            { "role": "model", "parts": [{ "functionCall": { "name": "weather", "args": { "city": "Łódź" } } }] },
            { "role": "user", "parts": [
                { "functionResponse": { "name": "weather", "response": { "output": "12 degrees" } } }] },
            { "role": "model", "parts": [{ "text": "Not very." }] },
            { "role": "user", "parts": [{ "text": "And now?" }] },
        ])
    );
    let pairs = context("pairs");
    assert_eq!(pairs["messages"].as_array().unwrap().len(), 1);
    assert_eq!(pairs["messages"][0]["question"], question());
    assert_eq!(pairs["messages"][0]["answer"], "Not very.");
    assert_eq!(
        client.get_body("/s/context"),
        pairs,
        "the default format is pairs"
    );
    server.stop();
    world.verify();
}

#[test]
fn the_report_names_every_item() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    record_conversation(&client);
    for format in FORMATS {
        let report = client.get_body(&format!("/s/context?format={format}"))["report"].take();
        let dropped = json!([{ "seq": 6, "reason": "unanswered_call" }]);
        assert_eq!(report["kept"], 5, "{format}");
        assert_eq!(report["dropped"], dropped, "{format}");
        assert_eq!(report["adapted"], json!([]), "{format}");
        let window = json!({ "last_turns": null, "max_tokens": null, "estimate": "bytes/4", "tokens": 40,
            "turns": 2, "first_seq": 1, "last_seq": 6, "cut": false, "summary_seq": null });
        assert_eq!(report["window"], window, "{format}");
    }
    let report = client.get_body("/s/context")["report"].take();
    let dropped = json!([
        { "seq": 2, "reason": "not_in_format" },
        { "seq": 3, "reason": "not_in_format" },
        { "seq": 5, "reason": "turn_open" },
        { "seq": 6, "reason": "turn_open" },
    ]);
    assert_eq!((&report["kept"], &report["dropped"]), (&json!(2), &dropped));
    server.stop();
}

#[test]
fn unanswered_calls_are_dropped_or_answered_by_an_error() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    record_conversation(&client);
    let context = |unanswered: &str| {
        client.get_body(&format!(
            "/s/context?format=openai-chat&unanswered={unanswered}"
        ))
    };
    assert_eq!(
        context("drop"),
        client.get_body("/s/context?format=openai-chat")
    );
    let answered = context("error");
    let messages = answered["messages"].as_array().unwrap();
    let last = messages.last().unwrap();
    assert_eq!(
        (&last["role"], &last["tool_call_id"]),
        (&json!("tool"), &json!("c2"))
    );
    assert_eq!(
        last["content"],
        "Error: No result of this call was recorded."
    );
    assert_eq!(answered["report"]["kept"], 6);
    assert_eq!(answered["report"]["dropped"], json!([]));
    let adapted = json!([{ "seq": 6, "change": "error_result_added" }]);
    assert_eq!(answered["report"]["adapted"], adapted);
    server.stop();
}

#[test]
fn windows_contain_complete_turns() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    for n in 1..=4 {
        let summary = text_item(&format!("i{n}"), "assistant", "summary", "so far");
        let turn = json!({ "request_id": format!("r{n}"), "question_neutral": format!("q{n}"),
            "items": [summary], "answer_neutral": format!("a{n}") });
        client.post("/s/turns", &turn).wrote(201);
    }
    let context =
        |window: &str| client.get_body(&format!("/s/context?format=openai-chat&{window}"));
    let contents = |context: &Value| -> Vec<String> {
        let messages = context["messages"].as_array().unwrap();
        messages
            .iter()
            .map(|m| m["content"].as_str().unwrap().to_owned())
            .collect()
    };
    let summary = "[Summary of the earlier conversation]\nso far";
    let two = context("last_turns=2");
    assert_eq!(contents(&two), [summary, "q3", "a3", "q4", "a4"]);
    let window = json!({ "last_turns": 2, "max_tokens": null, "estimate": "bytes/4", "tokens": 26,
        "turns": 2, "first_seq": 7, "last_seq": 12, "cut": true, "summary_seq": 11 });
    assert_eq!(two["report"]["window"], window);
    assert_eq!(two["report"]["kept"], 5);
    for tokens in [26, 30, 35] {
        assert_eq!(
            contents(&context(&format!("max_tokens={tokens}"))),
            contents(&two)
        );
    }
    assert_eq!(contents(&context("max_tokens=25")), [summary, "q4", "a4"]);
    assert_eq!(contents(&context("max_tokens=15")), ["q4", "a4"]);
    assert_eq!(contents(&context("max_tokens=1")), [""; 0]);
    assert_eq!(contents(&context("last_turns=4")).len(), 8);
    server.stop();
}

#[test]
fn the_language_can_be_chosen() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let start =
        json!({ "request_id": "r", "question_neutral": "who", "question_translated": "kto" });
    let turn = client.post("/s/turns", &start).wrote(201);
    let path = format!("/s/turns/{}/finalize", turn["turn_id"].as_str().unwrap());
    let answer = json!({ "answer_neutral": "me", "answer_translated": "ja" });
    client.post(&path, &answer).wrote(200);
    for (variant, question, response) in [("neutral", "who", "me"), ("translated", "kto", "ja")] {
        for format in ["openai-chat", "pairs"] {
            let context = client.get_body(&format!("/s/context?format={format}&variant={variant}"));
            let text = context["messages"].to_string();
            assert!(text.contains(question) && text.contains(response), "{text}");
            assert_eq!(context["report"]["kept"], 2);
            assert_eq!(context["report"]["dropped"].as_array().unwrap().len(), 2);
        }
    }
    server.stop();
}

#[test]
fn invalid_parameters_are_refused_with_a_hint() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    record_conversation(&client);
    let cases = [
        ("format=xml", "gemini"),
        ("format=", "gemini"),
        ("format=OPENAI-CHAT", "openai-chat"),
        ("variant=polish", "translated"),
        ("unanswered=maybe", "drop"),
        ("last_turns=0", "1"),
        ("last_turns=-1", "last_turns"),
        ("last_turns=many", "last_turns"),
        ("max_tokens=0", "1"),
        ("max_tokens=1.5", "max_tokens"),
        ("turns=3", "last_turns"),
        ("format=gemini&format=gemini", "format"),
    ];
    for (query, word) in cases {
        let problem = client
            .get(&format!("/s/context?{query}"))
            .fails(422, "invalid");
        let reported = format!("{} {}", problem["detail"], problem["hint"]);
        assert!(reported.contains(word), "{query}: {reported}");
    }
    server.stop();
}

#[test]
fn a_foreign_session_looks_absent_in_every_format() {
    let world = World::new();
    let server = world.serve();
    let (ada, bob) = (
        server.client().for_identity("ada"),
        server.client().for_identity("bob"),
    );
    record_conversation(&ada);
    for format in FORMATS {
        let query = format!("context?format={format}&last_turns=1&max_tokens=100");
        let foreign = bob.get(&format!("/s/{query}"));
        let absent = bob.get(&format!("/t/{query}"));
        foreign.fails(404, "session_not_found");
        assert_eq!(
            foreign.text.replace("\\\"s\\\"", ""),
            absent.text.replace("\\\"t\\\"", "")
        );
        ada.get_body(&format!("/s/{query}"));
    }
    server.stop();
}

#[test]
fn the_log_shows_counts_and_durations_but_no_content() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    record_conversation(&client);
    for format in FORMATS {
        client.get_body(&format!("/s/context?format={format}"));
    }
    client.get_body("/s/context");
    server.ask_to_stop();
    let log = server.wait_for_exit();
    let lines: Vec<&str> = log
        .lines()
        .filter(|l| l.contains("[RESTORE][LOAD]"))
        .collect();
    assert_eq!(lines.len(), 5, "{log}");
    for (line, format) in lines.iter().zip(FORMATS) {
        for field in [
            "tenant_id",
            "session_id",
            "format",
            "turns",
            "kept",
            "dropped",
            "adapted",
            "reasons",
            "bytes",
            "read_us",
            "render_us",
        ] {
            assert!(line.contains(field), "{field}: {line}");
        }
        assert!(
            line.contains(format) && line.contains("unanswered_call:1"),
            "{line}"
        );
    }
    for content in [SECRET, "Warm?", "12 degrees", "Łódź", "Not very", "weather"] {
        assert!(!log.contains(content), "{content}: {log}");
    }
}

#[test]
fn each_read_of_a_conversation_is_logged_once() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    record_conversation(&client);
    let reads = [
        ("/s/items", "format=items", "items="),
        ("/s/turns", "format=turns", "turns="),
        ("/s/turns?status=finalized", "format=turns", "turns="),
        ("/s/export", "format=session.json", "items="),
        ("/s/export?format=md", "format=session.md", "turns="),
        ("/s/export?format=html", "format=session.html", "turns="),
    ];
    for (path, ..) in reads {
        assert_eq!(client.get(path).status, 200, "{path}");
    }
    let items = "/openai/v1/conversations/s/items";
    client.send_without_body("GET", items, "").is(200);
    let agent = Agent::new(&server, None);
    let tools = [
        "get_session_history",
        "get_compacted_context",
        "export_session",
    ];
    for name in tools {
        let call = json!({ "name": name, "arguments": { "sessionID": "s" } });
        let answer = agent.request("tools/call", call);
        assert_eq!(answer["result"]["isError"], false, "{answer}");
    }
    agent.request("resources/read", json!({ "uri": "session://s" }));
    // A refused read is not a load.
    client.get("/nobody/items").is(404);
    server.ask_to_stop();
    let log = server.wait_for_exit();
    let lines = log.lines().filter(|l| l.contains("[RESTORE][LOAD]"));
    let lines: Vec<&str> = lines.collect();
    let expected = reads.map(|(_, format, count)| (format.to_owned(), count));
    let tools = tools.map(|name| (format!("format={name}"), "session_id"));
    let expected = expected
        .into_iter()
        .chain([("format=openai".to_owned(), "items=")])
        .chain(tools)
        .chain([("format=resource".to_owned(), "bytes=")]);
    let expected: Vec<_> = expected.collect();
    assert_eq!(lines.len(), expected.len(), "{log}");
    for (line, (format, count)) in lines.iter().zip(&expected) {
        assert!(
            line.contains(format.as_str()) && line.contains(count),
            "{line}"
        );
        assert!(line.contains("duration_us="), "{line}");
    }
    assert!(!log.contains("Warm?"), "{log}");
}
