//! `filrouge doctor session`: the exact state of a session after a failure, with a running server and on a broken
//! store.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http::Client;
use crate::world::{CommandOutput, Server, World};

/// A text that is found in the file, where a test damages it.
const NEEDLE: &str = "an unmistakable needle";

fn start(client: &Client, request: &str) -> String {
    let body = json!({ "request_id": request, "question_neutral": "Where does it lead?" });
    let turn = client.post("/s/turns", &body).wrote(201);
    turn["turn_id"].as_str().unwrap().to_owned()
}

fn call(id: &str) -> Value {
    json!({ "role": "assistant", "channel": "tool_call", "agent": "guide", "model": "m-1", "parts": [
        { "type": "tool_call", "call_id": id, "name": "weather", "args": { "city": "Łódź" } }] })
}

fn append(client: &Client, turn: &str, items: &[Value]) {
    let path = format!("/s/turns/{turn}/items");
    client.post(&path, &json!({ "items": items })).wrote(201);
}

fn doctor(world: &World, arguments: &[&str]) -> CommandOutput {
    world.run(&[&["doctor", "session", "s"], arguments].concat())
}

#[track_caller]
fn state(output: &CommandOutput) -> Value {
    serde_json::from_str(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"))
}

fn codes(state: &Value) -> Vec<&str> {
    let findings = state["findings"].as_array().unwrap();
    findings
        .iter()
        .map(|f| f["code"].as_str().unwrap())
        .collect()
}

/// Checks that no line contains control characters or is too wide to read.
fn assert_readable(text: &str) {
    assert!(
        !text.chars().any(|c| c.is_control() && c != '\n'),
        "{text:?}"
    );
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest < Some(450), "{text}");
}

#[test]
fn a_failed_turn_with_an_unanswered_call_is_reported_while_a_server_runs() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let turn = start(&client, "r1");
    append(&client, &turn, &[call("c1"), call("c\u{7}2")]);
    let result = json!({ "role": "tool", "channel": "tool_result", "parts": [
        { "type": "tool_result", "call_id": "c1", "ok": true, "content": "12 degrees" }] });
    append(&client, &turn, &[result]);
    let error =
        json!({ "code": "model_down", "message": "no \u{1b}[31m route", "retryable": true });
    let fail = json!({ "error": error, "partial_text": "It is" });
    client
        .post(&format!("/s/turns/{turn}/fail"), &fail)
        .wrote(200);

    let output = doctor(&world, &["--json"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    let state = state(&output);
    assert_eq!(
        (&state["ok"], &state["checkpoint"]),
        (&json!(false), &Value::Null)
    );
    assert_eq!(state["verification"]["status"], "intact");
    assert_eq!(
        (&state["session"]["last_seq"], &state["turns"]["failed"]),
        (&json!(6), &json!(1))
    );
    assert_eq!(codes(&state), ["turn_failed", "unanswered_call"]);
    let errors = state["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 1);
    for (member, value) in [
        ("code", json!("model_down")),
        ("message", json!("no \u{1b}[31m route")),
        ("source", json!("caller")),
        ("retryable", json!(true)),
        ("detail", Value::Null),
        ("seq", json!(6)),
        ("turn_id", json!(turn)),
    ] {
        assert_eq!(errors[0][member], value, "{member}");
    }
    let unanswered = state["unanswered"].as_array().unwrap();
    assert_eq!(unanswered.len(), 1);
    let (id, seq) = (&unanswered[0]["call_id"], &unanswered[0]["seq"]);
    assert_eq!((id, seq), (&json!("c\u{7}2"), &json!(3)));
    assert_eq!(unanswered[0]["args"], json!({ "city": "Łódź" }));
    let items = state["items"].as_array().unwrap();
    assert_eq!(
        (items.len(), &items[1]["agent"], &items[1]["model"]),
        (6, &json!("guide"), &json!("m-1"))
    );
    assert_restores_equal(&state, &client);

    let checkpoint = json!({"label": "WAIT_CONFIRM", "state": {"n": 1}});
    client.put("/s/checkpoints", &checkpoint).wrote(201);
    client
        .post("/s/lease", &json!({"holder": "webhook-1"}))
        .wrote(201);
    let leased = self::state(&doctor(&world, &["--json"]));
    assert_eq!(leased["checkpoint"]["state"], json!({"n": 1}));
    assert_eq!(leased["lease"]["holder"], "webhook-1");

    let text = doctor(&world, &[]);
    assert_eq!(text.code, Some(1));
    assert_readable(&text.stdout);
    for words in [
        "checkpoint  seq 6, WAIT_CONFIRM",
        "held        by webhook-1, fence 1, until ",
        "verified    intact: 1 turn, 6 items",
        "active, anonymous, 1 turn, last seq 6",
        "ago: model_down: no",
        "restore leaves out its group",
        "source caller, retryable",
        "unanswered_call: 3",
        "answered by an error: 3",
    ] {
        assert!(text.stdout.contains(words), "{words}: {}", text.stdout);
    }
    server.stop();
}

#[test]
fn the_reported_restore_equals_the_real_one() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let turn = start(&client, "r1");
    // No context includes the channel `alternative`, so its unanswered call makes restore leave out nothing else.
    let mut alternative = call("c1");
    alternative["channel"] = json!("alternative");
    append(&client, &turn, &[alternative.clone()]);
    let reported = state(&doctor(&world, &["--json"]));
    assert_eq!(codes(&reported), ["turn_open", "unanswered_call"]);
    let finding = &reported["findings"][1];
    let what = format!("turn {turn} has an unanswered call c1 (weather)");
    assert_eq!(
        (&finding["what"], &finding["hint"]),
        (&json!(what), &json!("the answers may still come"))
    );
    append(&client, &turn, &[call("c2")]);
    let reported = state(&doctor(&world, &["--json"]));
    let what = format!(
        "turn {turn} has unanswered calls c1 (weather), c2 (weather): restore leaves out the groups of seq 3"
    );
    assert_eq!(reported["findings"][1]["what"], what);
    let hint = reported["findings"][1]["hint"].as_str().unwrap();
    assert!(hint.contains("unanswered=error"), "{hint}");
    server.stop();
}

/// Checks that the reported contexts equal those that the server restores.
fn assert_restores_equal(state: &Value, client: &Client) {
    let all = state["restore"].as_array().unwrap();
    let formats: Vec<&str> = all.iter().map(|r| r["format"].as_str().unwrap()).collect();
    assert_eq!(
        formats,
        [
            "openai-chat",
            "openai-responses",
            "anthropic",
            "gemini",
            "pairs"
        ]
    );
    for reported in all {
        let format = reported["format"].as_str().unwrap();
        let context = client.get_body(&format!("/s/context?format={format}"));
        let messages = context["messages"].as_array().unwrap().len();
        assert_eq!(reported["context"]["messages"], messages, "{format}");
        assert_eq!(reported["context"]["report"], context["report"], "{format}");
        let answered = &reported["context"]["unanswered_as_errors"];
        if format == "pairs" {
            assert_eq!(*answered, Value::Null);
            continue;
        }
        let errors = client.get_body(&format!("/s/context?format={format}&unanswered=error"));
        let messages = errors["messages"].as_array().unwrap().len();
        assert_eq!(answered["messages"], messages, "{format}");
        assert_eq!(answered["kept"], errors["report"]["kept"], "{format}");
        assert_eq!(answered["restored"], json!([2, 3, 4]), "{format}");
        assert_eq!(answered["answered"], json!([3]), "{format}");
    }
}

#[test]
fn an_intact_session_exits_with_0() {
    let world = World::new();
    let server = world.serve();
    let complete = json!({ "request_id": "r", "question_neutral": "?", "answer_neutral": "!" });
    for n in 0..3 {
        let mut turn = complete.clone();
        turn["request_id"] = json!(format!("r{n}"));
        server.client().post("/s/turns", &turn).wrote(201);
    }
    server.stop();
    let text = doctor(&world, &[]);
    assert_eq!(text.code, Some(0), "{text:?}");
    assert!(text.stdout.contains("nothing is wrong"), "{text:?}");
    let output = doctor(&world, &["--json", "--items", "2", "--format", "gemini"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let state = state(&output);
    assert_eq!(
        (&state["ok"], &state["findings"]),
        (&json!(true), &json!([]))
    );
    let seqs: Vec<&Value> = state["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| &i["seq"])
        .collect();
    assert_eq!(seqs, [5, 6]);
    let restore = state["restore"].as_array().unwrap();
    assert_eq!(
        (restore.len(), &restore[0]["format"]),
        (1, &json!("gemini"))
    );
    for (arguments, code) in [
        (&["--format", "xml"][..], 2),
        (&["--items", "-1"], 2),
        (&["--items", "0"], 0),
    ] {
        assert_eq!(doctor(&world, arguments).code, Some(code), "{arguments:?}");
    }
    let absent = world.run(&["doctor", "session", "absent"]);
    assert_eq!(
        (absent.code, absent.stdout.as_str()),
        (Some(1), ""),
        "{absent:?}"
    );
    assert!(absent.stderr.contains("session_not_found"), "{absent:?}");
    assert_eq!(world.run(&["doctor", "session", ""]).code, Some(2));
}

/// Sends the beginning of a provider's stream; the connection stays open.
fn begin_stream(server: &Server, turn: &str) -> TcpStream {
    let host = server.origin().strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    let head = format!(
        "POST /api/v1/sessions/s/turns/{turn}/stream?format=openai-chat HTTP/1.1\r\nhost: localhost\r\n\
         content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let event = json!({ "object": "chat.completion.chunk", "model": "m-1", "choices": [
        { "index": 0, "delta": { "role": "assistant", "content": "Along the thr" } }] });
    let event = format!("data: {event}\n\n");
    write!(stream, "{:x}\r\n{event}\r\n", event.len()).unwrap();
    stream.flush().unwrap();
    stream
}

/// Polls the reported state until it is as `wanted`; returns it.
#[track_caller]
fn until(world: &World, wanted: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let reported = state(&doctor(world, &["--json"]));
        if wanted(&reported) {
            return reported;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{reported:#}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn an_open_turn_shows_its_draft_and_recorder() {
    let world = World::on_sqlite();
    let server = world.serve();
    let turn = start(&server.client(), "r1");
    let stream = begin_stream(&server, &turn);
    let reported = until(&world, |reported| reported["drafts"][0]["chars"] == 13);
    let draft = &reported["drafts"][0];
    let piece = &draft["pieces"][0];
    assert_eq!(
        (&piece["type"], &piece["text"]),
        (&json!("text"), &json!("Along the thr"))
    );
    assert_eq!(
        (&piece["done"], &piece["model"]),
        (&json!(false), &json!("m-1"))
    );
    let pending = &reported["pending"][0];
    assert_eq!(
        (&pending["turn_id"], &pending["request_id"]),
        (&json!(turn), &json!("r1"))
    );
    assert_eq!(pending["recorder"]["stream"], draft["stream"]);
    assert_eq!(pending["recorder"]["gone"], false);
    assert_eq!(codes(&reported), ["turn_recorded", "draft"]);
    let text = doctor(&world, &[]);
    assert_eq!(
        text.code,
        Some(0),
        "an open recording is not an error: {text:?}"
    );
    assert_readable(&text.stdout);
    assert!(text.stdout.contains("Along the thr"), "{text:?}");

    // The server is killed while the stream is open.
    drop(server);
    let reported = until(&world, |reported| {
        reported["pending"][0]["recorder"]["gone"] == true
    });
    assert_eq!(codes(&reported), ["stream_abandoned", "draft"]);
    assert_eq!(doctor(&world, &[]).code, Some(1));
    drop(stream);
    let server = world.serve();
    let reported = until(&world, |reported| {
        reported["pending"][0]["status"] == "interrupted"
    });
    assert_eq!(codes(&reported), ["turn_interrupted"]);
    assert_eq!(reported["drafts"], json!([]));
    let texts: Vec<&Value> = reported["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| &i["text"])
        .collect();
    assert_eq!(texts[1], "Along the thr");
    server.stop();
}

#[test]
fn the_readable_part_of_a_broken_session_is_shown() {
    let world = World::on_sqlite();
    let server = world.serve();
    let client = server.client();
    for n in 0..4 {
        let thought = if n == 1 { NEEDLE } else { "a thought" };
        let complete = json!({ "request_id": format!("r{n}"), "question_neutral": "?", "answer_neutral": "!", "items": [
            { "role": "assistant", "channel": "thought", "parts": [{ "type": "text", "text": thought }] }] });
        client.post("/s/turns", &complete).wrote(201);
    }
    server.stop();
    let mut bytes = fs::read(world.store()).unwrap();
    let at = bytes
        .windows(NEEDLE.len())
        .position(|w| w == NEEDLE.as_bytes());
    bytes[at.expect("the item is stored uncompressed")] ^= 1;
    fs::write(world.store(), bytes).unwrap();

    let output = doctor(&world, &["--json"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    let reported = state(&output);
    assert_eq!(reported["verification"]["status"], "broken");
    assert_eq!(codes(&reported), ["not_intact", "unreadable"]);
    assert_eq!(
        (&reported["ok"], &reported["session"]["last_seq"]),
        (&json!(false), &json!(12))
    );
    let broken = &reported["unreadable"][0];
    assert_eq!(
        (&broken["what"], &broken["code"]),
        (&json!("items"), &json!("integrity_error"))
    );
    let (first, last) = (
        broken["first_seq"].as_u64().unwrap(),
        broken["last_seq"].as_u64().unwrap(),
    );
    assert_eq!(
        (first, last),
        (4, 6),
        "only the items of the damaged record are unreadable"
    );
    let shown: Vec<u64> = reported["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| i["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(shown, [1, 2, 3, 7, 8, 9, 10, 11, 12]);
    for restored in reported["restore"].as_array().unwrap() {
        assert_eq!(restored["context"], Value::Null, "{restored}");
        assert_eq!(restored["error"]["code"], "integrity_error", "{restored}");
    }
    let text = doctor(&world, &[]);
    assert_eq!(text.code, Some(1));
    assert!(
        text.stdout.contains("verified    BROKEN")
            && text.stdout.contains("items 4 to 6 cannot be read"),
        "{text:?}"
    );
}

#[test]
fn without_the_keyring_a_session_is_read_but_not_verified() {
    let world = World::new();
    let server = world.serve();
    let complete = json!({ "request_id": "r", "question_neutral": "?", "answer_neutral": "!" });
    server.client().post("/s/turns", &complete).wrote(201);
    server.stop();
    fs::remove_file(world.keyring()).unwrap();
    assert_eq!(doctor(&world, &[]).code, Some(1));
    let output = doctor(&world, &["--unverified", "--json"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let reported = state(&output);
    assert_eq!(reported["verification"]["status"], "cannot_tell");
    assert_eq!(codes(&reported), ["unverified"]);
    assert_eq!(reported["items"].as_array().unwrap().len(), 2);
}
