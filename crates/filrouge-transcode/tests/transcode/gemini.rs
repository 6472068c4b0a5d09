//! Tests of contexts for Gemini.

use filrouge_engine::restore::{Args, Block, Calls, Content, Mark, Provider, Sealed, Speaker};
use filrouge_transcode::Format::Gemini;
use serde_json::json;

use crate::plans::*;

#[test]
fn turns_alternate_and_responses_are_separate() {
    let blocks = vec![
        user("q"),
        Block::Message(new_message(Speaker::System, vec![text("n")])),
        assistant("looking"),
        calls(vec![
            call("c1", "f", vec![text("one"), text("two")]),
            call("c2", "g", vec![]),
        ]),
        user("r"),
        assistant("a"),
    ];
    let (messages, adapted, dropped) = render_turn(blocks, Gemini);
    let args = json!({"q": "a\"b"});
    assert_eq!(
        messages,
        json!([
            {"role": "user", "parts": [{"text": "q"}, {"text": "<system_note>\nn\n</system_note>"}]},
            {"role": "model", "parts": [
                {"text": "looking"},
            ]},
            {"role": "user", "parts": [{"text": "r"}]},
            {"role": "model", "parts": [
                {"functionCall": {"name": "f", "args": args}},
                {"functionCall": {"name": "g", "args": args}},
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"name": "f", "response": {"output": "one\ntwo"}}},
                {"functionResponse": {"name": "g", "response": {"output": "(no output)"}}},
            ]},
            {"role": "model", "parts": [{"text": "a"}]},
        ])
    );
    assert_eq!(adapted, [(2, "note_as_user_text")]);
    assert!(dropped.is_empty());
}

#[test]
fn texts_after_responses_without_an_answer_are_separated() {
    let blocks = vec![user("q"), calls(vec![call("c1", "f", vec![])]), user("r")];
    let messages = render_messages(blocks, Gemini);
    assert_eq!(
        messages[3],
        json!({"role": "model", "parts": [{"text": Mark::Unanswered.text()}]})
    );
    assert_eq!(messages[4]["parts"], json!([{"text": "r"}]));
}

#[test]
fn the_user_speaks_first_and_groups_of_calls_follow_each_other() {
    let group = |id: &str| calls(vec![call(id, "f", vec![])]);
    let messages = render_messages(vec![group("c1"), group("c1b")], Gemini);
    let opening = "[The conversation began with the assistant.]";
    assert_eq!(messages[0]["parts"][0]["text"], opening);
    let roles: Vec<_> = messages
        .as_array()
        .unwrap()
        .iter()
        .map(|c| &c["role"])
        .collect();
    assert_eq!(roles, ["user", "model", "user", "model", "user"]);
}

#[test]
fn a_response_is_an_object() {
    let blocks = vec![
        user("q"),
        calls(vec![
            with_value(call("c1", "f", vec![]), r#"{"a": 1}"#),
            with_value(call("c2", "f", vec![]), "[1]"),
            failed(with_value(call("c3", "f", vec![]), r#"{"a": 1}"#)),
            failed(call("c4", "f", vec![text("boom")])),
            failed(call("c5", "f", vec![])),
            call("c6", "f", vec![text("x"), png()]),
        ]),
    ];
    let (messages, adapted, _) = render_turn(blocks, Gemini);
    let response =
        |index: usize| messages[2]["parts"][index]["functionResponse"]["response"].clone();
    assert_eq!(response(0), json!({"a": 1}));
    assert_eq!(response(1), json!({"output": [1]}));
    assert_eq!(response(2), json!({"error": {"a": 1}}));
    assert_eq!(response(3), json!({"error": "boom"}));
    assert_eq!(response(4), json!({"error": "(failed without a message)"}));
    assert_eq!(
        response(5),
        json!({"output": "x\n[image: a.png (image/png)]"})
    );
    assert_eq!(adapted, [(13, "image_as_text")]);
}

#[test]
fn media_of_the_user_are_parts() {
    let contents = vec![
        png(),
        Content::Image(media(url("https://h/a"), "image/png", "")),
        Content::Image(media(url("https://h/a"), "", "")),
        Content::Image(media(base64("R0lG"), "image/gif", "a.gif")),
        pdf(),
        Content::File(media(base64("e30="), "application/json", "a.json")),
    ];
    let blocks = vec![
        Block::Message(new_message(Speaker::User, contents)),
        Block::Message(new_message(
            Speaker::Assistant,
            vec![pdf(), Content::Refusal(json_text("no"))],
        )),
    ];
    let (messages, adapted, _) = render_turn(blocks, Gemini);
    assert_eq!(
        messages,
        json!([
            {"role": "user", "parts": [
                {"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}},
                {"fileData": {"mimeType": "image/png", "fileUri": "https://h/a"}},
                {"text": "[image: https://h/a]"},
                {"text": "[image: a.gif (image/gif)]"},
                {"inlineData": {"mimeType": "application/pdf", "data": "JVBERg=="}},
                {"text": "[file: a.json (application/json)]\n{}"},
            ]},
            {"role": "model", "parts": [{"text": "[file: a.pdf (application/pdf)]"}, {"text": "no"}]},
        ])
    );
    assert_eq!(adapted, [(1, "image_as_text"), (2, "file_as_text")]);
}

#[test]
fn a_signature_of_reasoning_is_in_the_part_after_it() {
    let blocks = vec![
        user("q"),
        text_with_reasoning(
            vec![
                new_reasoning(google_seal("AAAA"), "t"),
                new_reasoning(google_seal("BBBB"), ""),
            ],
            "a",
        ),
        Block::Calls(Calls {
            reasoning: vec![new_reasoning(google_seal("CCCC"), "")],
            calls: vec![call("c1", "f", vec![]), call("c2", "f", vec![])],
        }),
    ];
    let (messages, _, dropped) = render_turn(blocks, Gemini);
    let parts = &messages[1]["parts"];
    assert_eq!(parts[0], json!({"text": "a", "thoughtSignature": "BBBB"}));
    assert_eq!(parts[1]["thoughtSignature"], "CCCC");
    assert!(parts[2].get("thoughtSignature").is_none());
    assert_eq!(dropped, [(2, "reasoning_not_in_format")]);
}

#[test]
fn a_call_keeps_its_own_signature() {
    let signed_call = |id: &str, provider, signature: &str| {
        with_signature(call(id, "f", vec![]), provider, signature)
    };
    let group = |reasoning, calls| Block::Calls(Calls { reasoning, calls });
    let blocks = vec![
        user("q"),
        group(
            vec![new_reasoning(google_seal("AAAA"), "")],
            vec![
                signed_call("c1", Provider::Google, "BBBB"),
                signed_call("c2", Provider::Google, "DDDD"),
            ],
        ),
        group(
            vec![new_reasoning(google_seal("CCCC"), "")],
            vec![signed_call("c3", Provider::Google, "CCCC")],
        ),
        group(
            vec![],
            vec![
                signed_call("c4", Provider::Openai, "x"),
                signed_call("c5", Provider::Google, "no base64"),
            ],
        ),
    ];
    let (messages, adapted, dropped) = render_turn(blocks, Gemini);
    assert_eq!(messages[1]["parts"][0]["thoughtSignature"], "BBBB");
    assert_eq!(messages[1]["parts"][1]["thoughtSignature"], "DDDD");
    assert_eq!(messages[3]["parts"][0]["thoughtSignature"], "CCCC");
    assert!(messages[5]["parts"][0].get("thoughtSignature").is_none());
    assert_eq!(dropped, [(2, "reasoning_not_in_format")]);
    let change = "call_signature_dropped";
    assert_eq!(adapted, [(10, change), (12, change)]);
}

#[test]
fn foreign_reasoning_is_left_out_and_invalid_arguments_are_wrapped() {
    let reasoning = vec![
        new_reasoning(None, "t"),
        new_reasoning(anthropic_seal("s"), "t"),
        new_reasoning(Some(Sealed::Unknown), "t"),
        new_reasoning(google_seal("no base64"), "t"),
    ];
    let mut broken = call("c1", "f", vec![]);
    broken.args = Args::Text(json_text("{"));
    let blocks = vec![
        user("q"),
        text_with_reasoning(reasoning, "a"),
        calls(vec![broken]),
    ];
    let (messages, adapted, dropped) = render_turn(blocks, Gemini);
    assert_eq!(
        messages[1]["parts"][1]["functionCall"]["args"],
        json!({"text": "{"})
    );
    assert_eq!(adapted, [(7, "arguments_wrapped")]);
    let other = "reasoning_of_other_provider";
    assert_eq!(
        dropped,
        [
            (2, "reasoning_unsigned"),
            (3, other),
            (4, other),
            (5, "reasoning_not_in_format")
        ]
    );
}
