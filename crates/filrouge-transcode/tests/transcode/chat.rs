//! Tests of contexts for OpenAI Chat Completions.

use filrouge_engine::restore::{Args, Block, Content, Mark, MediaSource, Provider, Speaker};
use filrouge_transcode::Format::OpenaiChat;
use serde_json::json;

use crate::plans::*;

#[test]
fn text_and_calls_of_one_step_form_one_message() {
    let blocks = vec![
        user("q\n\"é\""),
        assistant("looking"),
        calls(vec![call("c1", "find", vec![text("one"), text("two")])]),
        assistant("done "),
    ];
    let (messages, adapted, dropped) = render_turn(blocks, OpenaiChat);
    assert_eq!(
        messages,
        json!([
            {"role": "user", "content": "q\n\"é\""},
            {"role": "assistant", "content": "looking", "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{\"q\": \"a\\\"b\"}"}},
            ]},
            {"role": "tool", "tool_call_id": "c1", "content": "one\ntwo"},
            {"role": "assistant", "content": "done "},
        ])
    );
    assert!(adapted.is_empty() && dropped.is_empty());
}

#[test]
fn a_message_of_calls_has_null_content() {
    let blocks = vec![
        user("q"),
        calls(vec![
            call("c1", "f", vec![]),
            failed(call("c2", "f", vec![])),
            failed(call("c3", "f", vec![text("boom")])),
            with_value(call("c4", "f", vec![]), r#"{"a":"x\"y"}"#),
        ]),
        calls(vec![call("c5", "f", vec![text("r")])]),
    ];
    let messages = render_messages(blocks, OpenaiChat);
    assert_eq!(messages[1]["content"], json!(null));
    assert_eq!(messages[1]["tool_calls"].as_array().unwrap().len(), 4);
    let contents: Vec<_> = (2..6)
        .map(|index| messages[index]["content"].as_str().unwrap())
        .collect();
    let expected = [
        "(no output)",
        "Error: (failed without a message)",
        "Error: boom",
        r#"{"a":"x\"y"}"#,
    ];
    assert_eq!(contents, expected);
    assert_eq!(messages[6]["tool_calls"][0]["id"], "c5");
}

#[test]
fn arguments_are_the_text_of_an_object() {
    let mut value = call("c1", "f", vec![]);
    value.args = Args::Value(raw("[1, \"a\"]"));
    let mut broken = call("c2", "f", vec![]);
    broken.args = Args::Text(json_text("{\"a\": \n"));
    let (messages, adapted, _) =
        render_turn(vec![user("q"), calls(vec![value, broken])], OpenaiChat);
    let arguments =
        |index: usize| messages[1]["tool_calls"][index]["function"]["arguments"].clone();
    assert_eq!(arguments(0), "{\"value\":[1, \"a\"]}");
    let broken: serde_json::Value = serde_json::from_str(arguments(1).as_str().unwrap()).unwrap();
    assert_eq!(broken, json!({"text": "{\"a\": \n"}));
    assert_eq!(
        adapted,
        [(2, "arguments_wrapped"), (4, "arguments_wrapped")]
    );
}

#[test]
fn media_are_parts_for_the_user_and_text_for_others() {
    let file = |data: &str, mime: &str, name: &str| Content::File(media(base64(data), mime, name));
    let contents = vec![
        text("see"),
        png(),
        Content::Image(media(url("HTTPS://h/a?b"), "", "")),
        pdf(),
        Content::File(media(MediaSource::Id("file-1".into()), "", "")),
        file("aGk=", "text/markdown", "n.md"),
        file("UEs=", "application/zip", "n.zip"),
        Content::File(media(url("https://h/a.pdf"), "application/pdf", "")),
        Content::Image(media(
            MediaSource::Elsewhere("/tmp/x".into()),
            "image/png",
            "",
        )),
    ];
    let blocks = vec![
        Block::Message(new_message(Speaker::User, contents)),
        Block::Message(new_message(Speaker::Assistant, vec![png()])),
    ];
    let (messages, adapted, _) = render_turn(blocks, OpenaiChat);
    assert_eq!(
        messages,
        json!([
            {"role": "user", "content": [
                {"type": "text", "text": "see"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
                {"type": "image_url", "image_url": {"url": "https://h/a?b"}},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}},
                {"type": "file", "file": {"file_id": "file-1"}},
                {"type": "text", "text": "[file: n.md (text/markdown)]\nhi"},
                {"type": "text", "text": "[file: n.zip (application/zip)]"},
                {"type": "text", "text": "[file: https://h/a.pdf (application/pdf)]"},
                {"type": "text", "text": "[image: /tmp/x (image/png)]"},
            ]},
            {"role": "assistant", "content": "[image: a.png (image/png)]"},
        ])
    );
    assert_eq!(adapted, [(1, "file_as_text"), (2, "image_as_text")]);
}

#[test]
fn media_of_results_follow_all_results() {
    let blocks = vec![
        user("q"),
        calls(vec![
            call("c1", "shot", vec![text("here"), png()]),
            call("c2", "scan", vec![pdf()]),
        ]),
    ];
    let (messages, adapted, _) = render_turn(blocks, OpenaiChat);
    assert_eq!(messages[2]["content"], "here\n[image 1 follows]");
    assert_eq!(messages[3]["content"], "[file 2 follows]");
    assert_eq!(
        messages[4],
        json!({"role": "user", "content": [
            {"type": "text", "text": "[image 1: from the result of shot, call c1]"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
            {"type": "text", "text": "[file 2: from the result of scan, call c2]"},
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}},
        ]})
    );
    assert_eq!(
        adapted,
        [(3, "media_after_result"), (5, "media_after_result")]
    );
}

#[test]
fn a_refusal_is_the_only_part_or_a_member() {
    let refusal = || Content::Refusal(json_text("no"));
    let blocks = vec![
        user("q"),
        Block::Message(new_message(Speaker::Assistant, vec![refusal(), refusal()])),
        user("q"),
        Block::Message(new_message(
            Speaker::Assistant,
            vec![text("a"), refusal(), text("b")],
        )),
        Block::Message(new_message(Speaker::User, vec![refusal()])),
    ];
    let (messages, adapted, _) = render_turn(blocks, OpenaiChat);
    assert_eq!(
        messages[1]["content"],
        json!([{"type": "refusal", "refusal": "no\nno"}])
    );
    assert_eq!(messages[3]["refusal"], "no");
    let texts = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
    assert_eq!(messages[3]["content"], texts);
    assert_eq!(messages[4]["content"], "no");
    assert_eq!(adapted, [(5, "refusal_as_text")]);
}

#[test]
fn notes_are_system_messages_and_reasoning_is_left_out() {
    let blocks = vec![
        user("q"),
        Block::Message(new_message(Speaker::System, vec![text("a"), text("b")])),
        text_with_reasoning(
            vec![
                new_reasoning(openai_seal("rs_1"), "t"),
                new_reasoning(None, "t"),
            ],
            "a",
        ),
        calls(vec![with_signature(
            call("c1", "f", vec![]),
            Provider::Google,
            "AA==",
        )]),
        Block::Message(new_message(
            Speaker::Assistant,
            vec![Content::Mark(Mark::Interrupted)],
        )),
    ];
    let (messages, adapted, dropped) = render_turn(blocks, OpenaiChat);
    assert_eq!(messages[1]["role"], "system");
    assert_eq!(messages[1]["content"][1]["text"], "b");
    assert_eq!(messages[2]["content"], "a");
    assert_eq!(messages[4]["content"], Mark::Interrupted.text());
    let reason = "reasoning_not_in_format";
    assert_eq!(dropped, [(3, reason), (4, reason)]);
    assert_eq!(adapted, [(6, "call_signature_dropped")]);
}
