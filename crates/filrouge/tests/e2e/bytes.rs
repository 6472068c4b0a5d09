//! JSON that callers send is returned byte for byte: compared on the raw text of responses.

use crate::http::{Client, Response};
use crate::world::World;

/// JSON objects that a parser would change or refuse.
const OBJECTS: &[&str] = &[
    r#"{"z":1,"a":2,"m":3}"#,
    r#"{"n":9007199254740993,"m":-0,"o":-0.0}"#,
    r#"{"f":1.0,"i":1,"e":1e0,"E":1E+2}"#,
    r#"{"inf":1e400,"tiny":1e-400,"long":0.1000000000000000055511151231257827021181583404541015625}"#,
    r#"{"k":1,"k":2,"k":{"k":1,"k":2}}"#,
    r#"{"nul":"\u0000","lone":"\ud800","pair":"\ud83e\uddf5","slash":"\/","plain":"🧵/"}"#,
    "{ \"inner\" :\t[ 1 ,\r\n 2 ] , \"end\" : \"  \" }",
    r#"{"\u0061":"escaped name","\ud800":"lone name","":""}"#,
    r#"{"deep":[[[[[[[[[[{"a":[]}]]]]]]]]]],"empty":{}}"#,
    r#"{"big":123456789012345678901234567890,"t":true,"n":null}"#,
];

/// JSON strings with escapes, lone surrogates and spaces.
const TEXTS: &[&str] = &[
    r#""plain""#,
    r#""nul \u0000 lone \ud800 \udc00 pair \ud83e\uddf5 and 🧵""#,
    r#""\/ \b\f\n\r\t \" \\ \u00e9 é e\u0301""#,
    r#""  x  ""#,
];

/// Checks that a successful response contains this text.
fn assert_contains(response: &Response, text: &str, what: &str) {
    assert!(
        (200..300).contains(&response.status),
        "{what}: {response:?}"
    );
    assert!(
        response.text.contains(text),
        "{what}: {text} is not in {response:?}"
    );
}

/// Finds the turn id in the raw text, since a parser may refuse it.
fn turn_id(response: &Response) -> &str {
    let (_, rest) = response
        .text
        .split_once(r#""turn_id":""#)
        .unwrap_or_else(|| panic!("{response:?}"));
    &rest[..36]
}

/// Writes an object wherever a caller may send one, and compares every read of it.
fn round_trip(client: &Client, world: &World, session: &str, object: &str) {
    let parts = format!("[{{\"type\":\"x\", \"v\":{object}}} , {{\"type\":\"y\"}}]");
    let item = format!(
        r#"{{"item_id":"i","role":"user","channel":"plan","parts":  {parts}  ,"usage":{object},"metadata": {object} }}"#
    );
    let start = format!(r#"{{"request_id":"r","question_neutral":"?","metadata":{object}}}"#);
    let started = client.post_text(&format!("/{session}/turns"), &start);
    let metadata = format!(r#""metadata":{object}"#);
    assert_contains(&started, &metadata, "start");
    let turn = format!("/{session}/turns/{}", turn_id(&started));
    let items = format!(r#"{{"items":[{item}]}}"#);
    client
        .post_text(&format!("{turn}/items"), &items)
        .wrote(201);
    client
        .post_text(&format!("{turn}/items"), &items)
        .wrote(200);
    let expected = format!(
        r#""parts":{parts},"agent":null,"model":null,"usage":{object},"metadata":{object},"occurred_at":null"#
    );
    let read = client.get(&format!("/{session}/items"));
    assert_contains(&read, &expected, "items");
    assert_contains(&client.get(&turn), &metadata, "turn");
    let created = client.post_text(
        "",
        &format!(r#"{{"session_id":"{session}-m","metadata":{object}}}"#),
    );
    assert_contains(&created, &metadata, "session");
    assert_contains(
        &client.get(&format!("/{session}-m")),
        &metadata,
        "session read",
    );
    let export = world.ok(&["export", session]);
    assert!(
        export.contains(&expected),
        "{expected} is not in the export: {export}"
    );
    assert!(export.contains(&metadata));
    for command in [["sessions", "list"], ["sessions", "show"]] {
        let id = if command[1] == "show" {
            &[session][..]
        } else {
            &[]
        };
        let text = world.ok(&[&command[..], id, &["--json"]].concat());
        assert!(
            text.contains(&format!(r#""metadata": {object}"#)),
            "{command:?}: {text}"
        );
    }
    world.ok(&["sessions", "show", session]);
}

#[test]
fn objects_are_kept_byte_for_byte() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    for (n, object) in OBJECTS.iter().enumerate() {
        round_trip(&client, &world, &format!("s{n}"), object);
    }
    server.stop();
    world.verify();
    let again = world.serve();
    for (n, object) in OBJECTS.iter().enumerate() {
        assert_contains(
            &again.client().get(&format!("/s{n}/items")),
            object,
            "after a restart",
        );
    }
    again.stop();
}

#[test]
fn texts_are_kept_byte_for_byte() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    for (n, text) in TEXTS.iter().enumerate() {
        let session = format!("s{n}");
        let body = format!(
            r#"{{"request_id":"r","question_neutral":{text},"question_translated":{text},"answer_neutral":{text}}}"#
        );
        let turn = client.post_text(&format!("/{session}/turns"), &body);
        let fields = format!(
            r#""question_neutral":{text},"question_translated":{text},"answer_neutral":{text}"#
        );
        assert_contains(&turn, &fields, "complete turn");
        let part = format!(r#""parts":[{{"type":"text","text":{text}}}]"#);
        assert_contains(&client.get(&format!("/{session}/items")), &part, "items");
        assert_contains(&client.get(&format!("/{session}/turns")), &fields, "turns");
        let pair = format!(r#""question":{text},"answer":{text}"#);
        assert_contains(
            &client.get(&format!("/{session}/context")),
            &pair,
            "context",
        );

        let open = client.post_text(
            &format!("/{session}/turns"),
            r#"{"request_id":"q","question_neutral":"?"}"#,
        );
        let path = format!("/{session}/turns/{}", turn_id(&open));
        let body = format!(r#"{{"answer_neutral":{text},"answer_translated":{text}}}"#);
        let done = client.post_text(&format!("{path}/finalize"), &body);
        let fields = format!(r#""answer_neutral":{text},"answer_translated":{text}"#);
        assert_contains(&done, &fields, "finalize");
        assert_contains(
            &client.post_text(&format!("{path}/finalize"), &body),
            r#""replayed":true"#,
            "finalize again",
        );

        let open = client.post_text(
            &format!("/{session}/turns"),
            r#"{"request_id":"f","question_neutral":"?"}"#,
        );
        let path = format!("/{session}/turns/{}/fail", turn_id(&open));
        let body = format!(r#"{{"error":{{"code":"c","message":{text}}},"partial_text":{text}}}"#);
        assert_contains(
            &client.post_text(&path, &body),
            r#""status":"failed""#,
            "fail",
        );
        assert_contains(
            &client.get(&format!("/{session}/items")),
            &format!(r#""message":{text}"#),
            "error item",
        );
        assert!(world.ok(&["export", &session]).contains(&part));
        world.ok(&["sessions", "show", &session]);
    }
    server.stop();
    world.verify();
}

#[test]
fn merged_metadata_keeps_the_spelling_of_its_values() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let start =
        r#"{"request_id":"r","question_neutral":"?","metadata":{"b":1.0,"a":9007199254740993}}"#;
    let turn = client.post_text("/s/turns", start);
    let path = format!("/s/turns/{}/finalize", turn_id(&turn));
    let done = client.post_text(
        &path,
        r#"{"answer_neutral":"!","metadata":{"c":1e400,"b": "\ud800" }}"#,
    );
    assert_contains(
        &done,
        r#""metadata":{"b":"\ud800","a":9007199254740993,"c":1e400}"#,
        "merge",
    );

    let start =
        r#"{"request_id":"q","question_translated":"?","metadata":{"\ud800":1,"k":1,"k":2}}"#;
    let turn = client.post_text("/s/turns", start);
    assert_contains(
        &turn,
        r#""question_neutral_is_fallback":true"#,
        "a flag with unusual names",
    );
    assert_contains(&turn, r#""\ud800":1"#, "unusual names with a flag");
    server.stop();
    world.verify();
}
