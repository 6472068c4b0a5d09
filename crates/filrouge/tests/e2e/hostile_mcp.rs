//! Hostile texts stay in the frame that MCP's answers put around recorded text.

use serde_json::{Value, json};

use crate::audit_rows::controls_terminal;
use crate::hostile::{HOSTILE, check_markdown, record};
use crate::injection::encoded;
use crate::mcp_http;
use crate::mcp_stdio;
use crate::world::World;

/// Characters after which a reader may begin a new line.
const LINE_ENDS: [char; 7] = [
    '\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}',
];

/// The line without the JSON strings in it.
fn without_strings(line: &str) -> String {
    let (mut rest, mut chars) = (String::new(), line.chars());
    while let Some(c) = chars.next() {
        if c != '"' {
            rest.push(c);
            continue;
        }
        loop {
            match chars.next() {
                Some('\\') => {
                    chars.next();
                }
                Some('"') => break,
                Some(_) => {}
                None => panic!("a string without an end: {line:?}"),
            }
        }
    }
    rest
}

/// Checks that recorded text is in lines that begin with `> `, or in JSON strings. Without them, an answer has only the
/// server's words, and ids and names of plain characters.
fn check_frame(answer: &str) {
    assert!(answer.starts_with("Recorded data from "), "{answer}");
    for line in answer.split(LINE_ENDS).filter(|line| !line.is_empty()) {
        assert!(!line.contains(controls_terminal), "{line:?}");
        if line.starts_with("> ") {
            continue;
        }
        let words = without_strings(line.trim_end_matches(", each line after `> `:"));
        let is_hostile =
            |c: char| "<>`{}\\|=!*#&^%".contains(c) || !(c.is_ascii() || "·…".contains(c));
        assert!(!words.contains(is_hostile), "{line:?}");
    }
}

/// Calls all tools, reads resources and gets the prompt with a function that sends a request.
pub(crate) fn check_server(session: &str, request: &mut dyn FnMut(&str, Value) -> Value) {
    let of_session = json!({ "sessionID": session });
    // Each page reads the complete session.
    let history = json!({ "sessionID": session, "maxChars": 200_000 });
    let export = |format: &str| json!({ "sessionID": session, "format": format });
    for (name, mut arguments, pages) in [
        ("list_sessions", json!({}), 30),
        ("search_sessions", json!({ "query": "alert" }), 30),
        ("search_sessions", json!({ "query": "obey" }), 30),
        (
            "find_similar_turns",
            json!({ "question": "who must obey?" }),
            30,
        ),
        ("get_session_history", history, 100),
        ("get_session_lineage", of_session.clone(), 1),
        ("get_session_stats", of_session.clone(), 1),
        ("get_compacted_context", of_session.clone(), 1),
        ("export_session", export("md"), 2),
        ("export_session", export("html"), 2),
        ("export_session", export("json"), 2),
    ] {
        for _ in 0..pages {
            let call = json!({ "name": name, "arguments": arguments });
            let response = request("tools/call", call);
            let result = &response["result"];
            assert_eq!(result["isError"], false, "{name}: {response}");
            check_frame(result["content"][0]["text"].as_str().unwrap());
            match &result["structuredContent"]["nextCursor"] {
                Value::String(cursor) => arguments["cursor"] = json!(cursor),
                _ => break,
            }
        }
    }
    let read = request(
        "resources/read",
        json!({ "uri": format!("session://{}", encoded(session)) }),
    );
    let document = read["result"]["contents"][0]["text"].as_str().unwrap();
    assert!(document.starts_with("Recorded data from "), "{document}");
    assert!(check_markdown(document) > 0, "{document}");
}

/// Checks that the prompt quotes the question.
fn check_prompt(request: &mut dyn FnMut(&str, Value) -> Value, question: &str) {
    let prompt = json!({ "name": "recall", "arguments": { "question": question } });
    let response = request("prompts/get", prompt);
    let text = response["result"]["messages"][0]["content"]["text"].as_str();
    let line = text.unwrap().split(LINE_ENDS).next().unwrap();
    let quoted = line
        .strip_prefix("Find out from earlier sessions: ")
        .unwrap();
    let read: String = serde_json::from_str(quoted).unwrap();
    assert_eq!(read, question);
}

#[test]
fn hostile_texts_stay_in_their_frame() {
    let world = World::new();
    let server = world.serve();
    let texts = record(&server.client(), "http://evil.example");
    let agent = mcp_http::Agent::new(&server, None);
    check_server(HOSTILE, &mut |method: &str, params: Value| {
        agent.request(method, params)
    });
    server.stop();
    let mut agent = mcp_stdio::Agent::start(world.command(&["mcp", "--source", "ledger"]));
    agent.initialize("2025-11-25");
    let mut request = |method: &str, params: Value| agent.request(method, params);
    check_server(HOSTILE, &mut request);
    for text in &texts {
        check_prompt(&mut request, text);
    }
    agent.end();
}
