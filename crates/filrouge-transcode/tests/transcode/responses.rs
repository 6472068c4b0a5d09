//! Tests of contexts for OpenAI Responses.

use filrouge_engine::restore::{Block, Calls, Content, MediaSource, Message, Sealed, Speaker};
use filrouge_transcode::Format::OpenaiResponses;
use serde_json::json;

use crate::plans::*;

#[test]
fn calls_and_outputs_are_items() {
    let blocks = vec![
        user("q"),
        assistant("looking"),
        calls(vec![
            call("c1", "f", vec![text("one"), text("two")]),
            failed(call("c2", "g", vec![])),
        ]),
        assistant("done"),
    ];
    let arguments = "{\"q\": \"a\\\"b\"}";
    assert_eq!(
        render_messages(blocks, OpenaiResponses),
        json!([
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "q"}]},
            {"type": "message", "role": "assistant", "content": "looking"},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": arguments},
            {"type": "function_call", "call_id": "c2", "name": "g", "arguments": arguments},
            {"type": "function_call_output", "call_id": "c1", "output": "one\ntwo"},
            {"type": "function_call_output", "call_id": "c2", "output": "Error: (failed without a message)"},
            {"type": "message", "role": "assistant", "content": "done"},
        ])
    );
}

#[test]
fn outputs_contain_values_texts_and_media() {
    let blocks = vec![
        user("q"),
        calls(vec![
            call("c1", "f", vec![]),
            with_value(call("c2", "f", vec![]), "[1,\"a\"]"),
            call("c3", "f", vec![text("x"), png()]),
            failed(call("c4", "f", vec![text("x"), pdf()])),
            failed(call("c5", "f", vec![png(), text("x")])),
        ]),
    ];
    let messages = render_messages(blocks, OpenaiResponses);
    let output = |index: usize| messages[index + 6]["output"].clone();
    let image = json!({"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,iVBORw=="});
    let file = json!({"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="});
    let text_part = |text: &str| json!({"type": "input_text", "text": text});
    assert_eq!(output(0), "(no output)");
    assert_eq!(output(1), "[1,\"a\"]");
    assert_eq!(output(2), json!([text_part("x"), image]));
    assert_eq!(output(3), json!([text_part("Error: x"), file]));
    let empty = text_part("Error: (failed without a message)");
    assert_eq!(output(4), json!([empty, image, text_part("x")]));
}

#[test]
fn media_of_the_user_are_parts() {
    let contents = vec![
        Content::Image(media(url("http://h/a"), "", "")),
        Content::Image(media(MediaSource::Id("file-1".into()), "", "")),
        Content::File(media(url("https://h/a.csv"), "", "n.csv")),
        Content::File(media(MediaSource::Id("file-2".into()), "", "")),
        Content::File(media(base64("aGk="), "text/csv", "")),
        Content::File(media(base64("UEs="), "audio/wav", "n.wav")),
        Content::File(media(MediaSource::Id("file_011C".into()), "", "")),
    ];
    let blocks = vec![
        Block::Message(new_message(Speaker::User, contents)),
        Block::Message(new_message(Speaker::Assistant, vec![pdf()])),
    ];
    let (messages, adapted, _) = render_turn(blocks, OpenaiResponses);
    assert_eq!(
        messages[0]["content"],
        json!([
            {"type": "input_image", "detail": "auto", "image_url": "http://h/a"},
            {"type": "input_image", "detail": "auto", "file_id": "file-1"},
            {"type": "input_file", "file_url": "https://h/a.csv"},
            {"type": "input_file", "file_id": "file-2"},
            {"type": "input_file", "filename": "file", "file_data": "data:text/csv;base64,aGk="},
            {"type": "input_text", "text": "[file: n.wav (audio/wav)]"},
            {"type": "input_text", "text": "[file: file_011C]"},
        ])
    );
    assert_eq!(messages[1]["content"], "[file: a.pdf (application/pdf)]");
    assert_eq!(adapted, [(1, "file_as_text"), (2, "file_as_text")]);
}

#[test]
fn reasoning_precedes_its_item() {
    let without_content = Sealed::OpenaiItem {
        id: json_text("rs_3"),
        summary: raw("[]"),
        encrypted_content: None,
    };
    let blocks = vec![
        user("q"),
        text_with_reasoning(
            vec![
                new_reasoning(openai_seal("rs_1"), ""),
                new_reasoning(openai_seal("rs_2"), ""),
            ],
            "a",
        ),
        Block::Calls(Calls {
            reasoning: vec![new_reasoning(Some(without_content), "")],
            calls: vec![call("c1", "f", vec![])],
        }),
    ];
    let messages = render_messages(blocks, OpenaiResponses);
    let summary = json!([{"type": "summary_text", "text": "s"}]);
    let item = |id: &str| json!({"type": "reasoning", "id": id, "summary": summary, "encrypted_content": "enc"});
    assert_eq!(messages[1], item("rs_1"));
    assert_eq!(messages[2], item("rs_2"));
    assert_eq!(messages[3]["role"], "assistant");
    assert_eq!(
        messages[4],
        json!({"type": "reasoning", "id": "rs_3", "summary": []})
    );
    assert_eq!(messages[5]["type"], "function_call");
}

#[test]
fn reasoning_that_the_api_would_refuse_is_left_out() {
    let invalid = |id: &str, summary: &str| {
        let id = json_text(id);
        let summary = raw(summary);
        let encrypted_content = None;
        new_reasoning(
            Some(Sealed::OpenaiItem {
                id,
                summary,
                encrypted_content,
            }),
            "",
        )
    };
    let reasoning = vec![
        new_reasoning(None, "t"),
        new_reasoning(anthropic_seal("sig"), "t"),
        new_reasoning(Some(Sealed::Unknown), "t"),
        new_reasoning(openai_seal("rs_1"), ""),
        new_reasoning(openai_seal("rs_1"), ""),
        invalid("x_1", "[]"),
        invalid("rs_2", "[\"s\"]"),
    ];
    let (messages, _, dropped) = render_turn(
        vec![user("q"), text_with_reasoning(reasoning, "a")],
        OpenaiResponses,
    );
    assert_eq!(messages.as_array().unwrap().len(), 3);
    let other = "reasoning_of_other_provider";
    let not_in_format = "reasoning_not_in_format";
    assert_eq!(
        dropped,
        [
            (2, "reasoning_unsigned"),
            (3, other),
            (4, other),
            (6, not_in_format),
            (7, not_in_format),
            (8, not_in_format)
        ]
    );
}

#[test]
fn refusals_and_notes_are_rendered() {
    let refusal = || Content::Refusal(json_text("no"));
    let note = Message {
        reasoning: vec![new_reasoning(openai_seal("rs_9"), "")],
        ..new_message(Speaker::System, vec![text("n")])
    };
    let blocks = vec![
        Block::Message(note),
        Block::Message(new_message(Speaker::User, vec![refusal()])),
        Block::Message(new_message(Speaker::Assistant, vec![text("a"), refusal()])),
    ];
    let (messages, adapted, dropped) = render_turn(blocks, OpenaiResponses);
    assert_eq!(
        messages,
        json!([
            {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "n"}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "no"}]},
            {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [
                {"type": "output_text", "text": "a", "annotations": []},
                {"type": "refusal", "refusal": "no"},
            ]},
        ])
    );
    assert_eq!(adapted, [(3, "refusal_as_text")]);
    assert_eq!(dropped, [(1, "reasoning_not_in_format")]);
}
