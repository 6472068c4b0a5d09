//! Tests of contexts for Anthropic Messages.

use filrouge_engine::restore::{
    Args, Block, Calls, Content, Provider, ResultContent, Sealed, Speaker,
};
use filrouge_transcode::Format::Anthropic;
use serde_json::json;

use crate::plans::*;

#[test]
fn speakers_alternate_and_results_come_first() {
    let blocks = vec![
        user("q"),
        user("r"),
        assistant("looking"),
        calls(vec![
            call("c1", "f", vec![text("one"), text("two")]),
            call("c2", "f", vec![]),
        ]),
        Block::Message(new_message(Speaker::System, vec![text("n"), text("m")])),
        user("s"),
        assistant("a"),
        assistant("b"),
    ];
    let (messages, adapted, dropped) = render_turn(blocks, Anthropic);
    let text_block = |text: &str| json!({"type": "text", "text": text});
    let input = json!({"q": "a\"b"});
    assert_eq!(
        messages,
        json!([
            {"role": "user", "content": [text_block("q"), text_block("r")]},
            {"role": "assistant", "content": [
                text_block("looking"),
                {"type": "tool_use", "id": "c1", "name": "f", "input": input},
                {"type": "tool_use", "id": "c2", "name": "f", "input": input},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "one\ntwo"},
                {"type": "tool_result", "tool_use_id": "c2", "content": "(no output)"},
                text_block("<system_note>\nn\nm\n</system_note>"),
                text_block("s"),
            ]},
            {"role": "assistant", "content": [text_block("a"), text_block("b")]},
        ])
    );
    assert_eq!(adapted, [(8, "note_as_user_text")]);
    assert!(dropped.is_empty());
}

#[test]
fn the_user_speaks_first() {
    let opening = "[The conversation began with the assistant.]";
    let messages = render_messages(vec![assistant("a")], Anthropic);
    assert_eq!(messages[0]["content"][0]["text"], opening);
    let messages = render_messages(vec![calls(vec![call("c", "f", vec![])])], Anthropic);
    assert_eq!(messages[0]["content"][0]["text"], opening);
    assert_eq!(messages[1]["content"][0]["type"], "tool_use");
}

#[test]
fn trailing_white_space_of_the_assistant_is_trimmed() {
    let padded = |inner: &str| {
        let token = serde_json::from_str(&format!("\"{inner}\"")).unwrap();
        Block::Message(new_message(Speaker::Assistant, vec![Content::Text(token)]))
    };
    let blocks = vec![
        user("q \n"),
        padded(r"a \n"),
        padded(r"b\u0020\r\n\t "),
        user("q"),
        padded(r"c\\n \u00a0"),
    ];
    let (messages, adapted, _) = render_turn(blocks, Anthropic);
    assert_eq!(messages[0]["content"][0]["text"], "q \n");
    assert_eq!(messages[1]["content"][0]["text"], "a \n");
    assert_eq!(messages[1]["content"][1]["text"], "b");
    assert_eq!(messages[3]["content"][0]["text"], "c\\n");
    assert_eq!(adapted, [(3, "space_trimmed"), (5, "space_trimmed")]);
}

#[test]
fn failed_results_are_text_and_their_media_follow() {
    let mut with_value = failed(call("c4", "g", vec![]));
    with_value.result.content = ResultContent::Value(raw("{\"code\": 1}"));
    let blocks = vec![
        user("q"),
        calls(vec![
            failed(call("c1", "f", vec![text("boom"), png()])),
            call("c2", "f", vec![png(), text("x")]),
            failed(call("c3", "f", vec![])),
            with_value,
        ]),
        user("r"),
    ];
    let (messages, adapted, _) = render_turn(blocks, Anthropic);
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}});
    let text_block = |text: &str| json!({"type": "text", "text": text});
    let failure = |id: &str, text: &str| json!({"type": "tool_result", "tool_use_id": id, "is_error": true, "content": text});
    assert_eq!(
        messages[2]["content"],
        json!([
            failure("c1", "boom\n[image 1 follows]"),
            {"type": "tool_result", "tool_use_id": "c2", "content": [image, text_block("x")]},
            failure("c3", "(failed without a message)"),
            failure("c4", "{\"code\": 1}"),
            text_block("[image 1: from the result of f, call c1]"),
            image,
            text_block("r"),
        ])
    );
    assert_eq!(adapted, [(3, "media_after_result")]);
}

#[test]
fn media_of_the_user_are_blocks() {
    let file = |source, mime: &str, name: &str| Content::File(media(source, mime, name));
    let contents = vec![
        png(),
        Content::Image(media(url("https://h/a"), "", "")),
        Content::Image(media(url("http://h/a"), "", "")),
        Content::Image(media(base64("AAAA"), "image/bmp", "")),
        pdf(),
        file(url("https://h/a.PDF?x"), "", ""),
        file(url("https://h/a.csv"), "", ""),
        file(base64("aGkKInlvdSI="), "text/plain", "n.txt"),
        file(base64("aGk="), "text/csv", ""),
        file(base64("UEs="), "application/zip", "n.zip"),
    ];
    let blocks = vec![
        Block::Message(new_message(Speaker::User, contents)),
        Block::Message(new_message(
            Speaker::Assistant,
            vec![png(), Content::Refusal(json_text("no"))],
        )),
    ];
    let (messages, adapted, _) = render_turn(blocks, Anthropic);
    let plain = |data: &str| json!({"type": "text", "media_type": "text/plain", "data": data});
    assert_eq!(
        messages[0]["content"],
        json!([
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}},
            {"type": "image", "source": {"type": "url", "url": "https://h/a"}},
            {"type": "text", "text": "[image: http://h/a]"},
            {"type": "text", "text": "[image (image/bmp)]"},
            {"type": "document", "title": "a.pdf",
             "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}},
            {"type": "document", "source": {"type": "url", "url": "https://h/a.PDF?x"}},
            {"type": "text", "text": "[file: https://h/a.csv]"},
            {"type": "document", "title": "n.txt", "source": plain("hi\n\"you\"")},
            {"type": "document", "source": plain("hi")},
            {"type": "text", "text": "[file: n.zip (application/zip)]"},
        ])
    );
    assert_eq!(
        messages[1]["content"][0]["text"],
        "[image: a.png (image/png)]"
    );
    assert_eq!(messages[1]["content"][1]["text"], "no");
    assert_eq!(adapted, [(1, "image_as_text"), (2, "image_as_text")]);
}

#[test]
fn thinking_precedes_its_content() {
    let redacted = Some(Sealed::AnthropicRedacted(json_text("data")));
    let blocks = vec![
        user("q"),
        text_with_reasoning(
            vec![
                new_reasoning(anthropic_seal("s1"), "t"),
                new_reasoning(redacted, ""),
            ],
            "a",
        ),
        Block::Calls(Calls {
            reasoning: vec![new_reasoning(anthropic_seal("s2"), "")],
            calls: vec![call("c1", "f", vec![])],
        }),
    ];
    let (messages, _, dropped) = render_turn(blocks, Anthropic);
    assert_eq!(
        messages[1]["content"],
        json!([
            {"type": "thinking", "thinking": "t", "signature": "s1"},
            {"type": "redacted_thinking", "data": "data"},
            {"type": "text", "text": "a"},
            {"type": "thinking", "thinking": "", "signature": "s2"},
            {"type": "tool_use", "id": "c1", "name": "f", "input": {"q": "a\"b"}},
        ])
    );
    assert!(dropped.is_empty());
}

#[test]
fn thinking_of_other_providers_or_after_content_is_left_out() {
    let foreign = vec![
        new_reasoning(None, "t"),
        new_reasoning(openai_seal("rs_1"), "t"),
        new_reasoning(google_seal("AA=="), "t"),
        new_reasoning(Some(Sealed::Unknown), ""),
    ];
    let blocks = vec![
        user("q"),
        text_with_reasoning(foreign, "a"),
        text_with_reasoning(vec![new_reasoning(anthropic_seal("s"), "t")], "b"),
    ];
    let (messages, _, dropped) = render_turn(blocks, Anthropic);
    assert_eq!(messages[1]["content"].as_array().unwrap().len(), 2);
    let other = "reasoning_of_other_provider";
    assert_eq!(
        dropped,
        [
            (2, "reasoning_unsigned"),
            (3, other),
            (4, other),
            (5, other),
            (7, "reasoning_not_in_format"),
        ]
    );
}

#[test]
fn calls_have_object_arguments_and_no_signatures() {
    let mut wrapped = with_signature(call("c1", "f", vec![]), Provider::Anthropic, "s");
    wrapped.args = Args::Text(json_text("a\"\n"));
    let mut value = call("c2", "f", vec![]);
    value.args = Args::Value(raw("1"));
    let (messages, adapted, _) =
        render_turn(vec![user("q"), calls(vec![wrapped, value])], Anthropic);
    assert_eq!(messages[1]["content"][0]["input"], json!({"text": "a\"\n"}));
    assert_eq!(messages[1]["content"][1]["input"], json!({"value": 1}));
    assert_eq!(
        adapted,
        [(2, "call_signature_dropped"), (4, "arguments_wrapped")]
    );
}
