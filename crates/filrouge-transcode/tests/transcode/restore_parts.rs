//! Tests of the interpretation of parts (docs/context.md), in sessions written through the engine.

use filrouge_types::{ItemBody, Role};
use serde_json::{Value, json};

use crate::sessions::case::*;
use crate::sessions::items::*;
use crate::test_session::TestSession;

/// Compares the lines after the question of a turn with these items.
#[track_caller]
fn check_restored(items: Vec<ItemBody>, lines: &[&str], dropped: Reasons<'_>) {
    let test = TestSession::new();
    test.start("a", "q");
    test.append("a", items);
    let mut all_lines = vec!["user: q"];
    all_lines.extend(lines);
    assert_restored(&test, complete(), &all_lines, dropped, &[]);
}

#[test]
fn parts_with_content_are_restored() {
    let cases: &[(Value, &str)] = &[
        (json!({"type": "text", "text": "t"}), "t"),
        (json!({"type": "refusal", "refusal": "no"}), "refusal no"),
        (json!({"type": "refusal", "text": "no"}), "refusal no"),
        (
            json!({"type": "code", "code": "x", "language": "rust"}),
            r"```rust\nx\n```",
        ),
        (
            json!({"type": "code", "text": "a ```` b\n"}),
            r"`````\na ```` b\n`````",
        ),
        (
            json!({"type": "link", "url": "https://h", "title": "T"}),
            "[T](https://h)",
        ),
        (
            json!({"type": "link", "url": "https://h", "title": " "}),
            "https://h",
        ),
    ];
    for (json, line) in cases {
        check_restored(
            vec![part(json.clone())],
            &[&format!("assistant: {line}")],
            &[],
        );
    }
}

#[test]
fn images_and_files_are_restored() {
    let cases: &[(Value, &str)] = &[
        (
            json!({"type": "image_url", "image_url": {"url": "https://h/a", "detail": "low"}}),
            "image ? ? url https://h/a",
        ),
        (
            json!({"type": "image_url", "image_url": "https://h/a"}),
            "image ? ? url https://h/a",
        ),
        (
            json!({"type": "image_url", "url": "data:image/PNG;base64,AA AA"}),
            "image image/png ? base64 AAAA",
        ),
        (
            json!({"type": "image_url", "url": "data:image/png,hello"}),
            "image image/png ? at data:",
        ),
        (
            json!({"type": "image_url", "url": "data:image/png;base64,A*AA"}),
            "image image/png ? at data:",
        ),
        (
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "AAAA"}}),
            "image image/gif ? base64 AAAA",
        ),
        (
            json!({"type": "file", "url": "file:///tmp/a.png", "mime": "image/png", "filename": "a.png"}),
            "image image/png a.png at file:///tmp/a.png",
        ),
        (
            json!({"type": "file", "mime": "application/pdf", "data": "AAAA", "name": "a.pdf"}),
            "file application/pdf a.pdf base64 AAAA",
        ),
        (
            json!({"type": "file", "file": {"file_id": "file-1", "filename": "f"}}),
            "file ? f id file-1",
        ),
        (
            json!({"type": "file", "file": {"file_data": "data:text/markdown;base64,AAAA"}}),
            "file text/markdown ? base64 AAAA",
        ),
        (json!({"type": "file"}), "file ? ? at "),
    ];
    for (json, line) in cases {
        check_restored(
            vec![part(json.clone())],
            &[&format!("assistant: {line}")],
            &[],
        );
    }
}

#[test]
fn parts_without_content_are_left_out() {
    let cases: &[(Value, &str)] = &[
        (json!({"type": "text", "text": ""}), "empty"),
        (json!({"type": "text", "text": "\n\u{a0}"}), "empty"),
        (json!({"type": "text", "text": 1}), "empty"),
        (json!({"type": "text"}), "empty"),
        (json!({"type": "refusal", "refusal": null}), "empty"),
        (json!({"type": "code", "code": " "}), "empty"),
        (json!({"type": "link", "title": "T"}), "empty"),
        (json!({"type": "reasoning", "text": ""}), "empty"),
        (
            json!({"type": "reasoning", "encrypted_content": "", "id": "rs_1"}),
            "empty",
        ),
        (
            json!({"type": "error", "code": "e", "message": "m"}),
            "error",
        ),
        (json!({"type": "x-own", "text": "t"}), "unknown_part"),
    ];
    for (json, reason) in cases {
        check_restored(vec![part(json.clone())], &[], &[(2, reason)]);
    }
    let test = TestSession::new();
    test.start("a", "q");
    test.append("a", vec![item(Role::Assistant, "plan", json!([]))]);
    assert_restored(&test, complete(), &["user: q"], &[(2, "empty")], &[]);
}

#[test]
fn decisions_of_any_form_are_restored_as_text() {
    let request = json!([{"type": "text", "text": "May I?"}, {"type": "approval", "id": "i1"}]);
    let response = json!([{"decision": "approved", "type": "hitl_response"}]);
    let items = vec![
        item(Role::Assistant, "hitl_request", request),
        item(Role::User, "hitl_response", response),
    ];
    let lines = [
        r#"assistant: May I? + {\"id\":\"i1\",\"type\":\"approval\"}"#,
        r#"user: {\"decision\":\"approved\",\"type\":\"hitl_response\"}"#,
    ];
    check_restored(items, &lines, &[]);
}

#[test]
fn arguments_of_every_form_are_restored() {
    let deep = format!("{}1{}", "[".repeat(118), "]".repeat(118));
    let cases: &[(&str, &str)] = &[
        (r#""args":{"a" : 1}"#, r#"{"a" : 1}"#),
        (r#""args":"{\"a\": 1}""#, r#"{"a": 1}"#),
        (r#""args":" ""#, "{}"),
        (r#""args":null"#, "{}"),
        (r#""x":1"#, "{}"),
        (r#""args":"{\"a\": ""#, r#"text {\"a\": "#),
        (r#""args":"[1]""#, "text [1]"),
        (r#""args":[1,"a"]"#, r#"value [1,"a"]"#),
        (r#""args":true"#, "value true"),
        (r#""args":{"a":1e999}"#, r#"text {\"a\":1e999}"#),
        (r#""args":{"a":1},"args":{"a":2}"#, r#"{"a":2}"#),
        (&format!(r#""args":{deep}"#), &format!("text {deep}")),
    ];
    for (args, line) in cases {
        let call = format!(r#"[{{"type":"tool_call","call_id":"1","name":"f",{args}}}]"#);
        let items = vec![raw_item(Role::Assistant, "tool_call", &call), result("1")];
        check_restored(items, &[&format!("calls 1 f({line}) = did 1")], &[]);
    }
}

#[test]
fn answers_of_every_form_are_restored() {
    let cases: &[(&str, &str)] = &[
        (r#""ok":true,"content":"t""#, "t"),
        (r#""ok":false,"content":"t""#, "failed t"),
        (r#""ok":false,"error":"t""#, "failed t"),
        (r#""content":" ""#, "nothing"),
        (r#""content":null"#, "nothing"),
        (r#""ok":true"#, "nothing"),
        (r#""content":{"a":[1]}"#, r#"value {"a":[1]}"#),
        (r#""content":[]"#, "nothing"),
        (r#""content":[1,2]"#, "value [1,2]"),
        (r#""content":[{"a":1}]"#, r#"value [{"a":1}]"#),
        (
            r#""content":[{"type":"x-own"}]"#,
            r#"value [{"type":"x-own"}]"#,
        ),
        (
            r#""content":[{"type":"text","text":"t"},{"type":"text","text":""},{"type":"image_url","url":"https://h/a"}]"#,
            "t + image ? ? url https://h/a",
        ),
        (r#""content":false"#, "value false"),
        (r#""content":-1e400"#, "-1e400"),
    ];
    for (content, line) in cases {
        let result = format!(r#"[{{"type":"tool_result","call_id":"1",{content}}}]"#);
        let items = vec![call("1"), raw_item(Role::Tool, "tool_result", &result)];
        check_restored(
            items,
            &[&format!("calls 1 f({{\"of\":\"1\"}}) = {line}")],
            &[],
        );
    }
}

#[test]
fn reasoning_belongs_to_the_provider_of_its_part_or_model() {
    let cases: &[(Value, &str, &str)] = &[
        (
            json!({"text": "t", "provider": "Anthropic", "signature": "s"}),
            "",
            "t anthropic",
        ),
        (
            json!({"thinking": "t", "signature": "s"}),
            "claude-opus-4-5",
            "t anthropic",
        ),
        (
            json!({"text": "t", "provider": "bedrock", "signature": "s"}),
            "eu.anthropic.claude-x",
            "t anthropic",
        ),
        (
            json!({"text": "t", "provider": "xai", "signature": "s"}),
            "claude",
            "t unknown",
        ),
        (json!({"text": "t", "signature": "s"}), "", "t unknown"),
        (json!({"text": "t", "signature": "s"}), "gpt-5", "t unknown"),
        (
            json!({"provider": "google", "signature": "s"}),
            "",
            "- google",
        ),
        (json!({"redacted": "d"}), "", "- anthropic redacted"),
        (
            json!({"redacted": "d", "provider": "openai"}),
            "",
            "- unknown",
        ),
        (
            json!({"id": "rs_1", "summary": [], "encrypted_content": "e"}),
            "",
            "- openai",
        ),
        (
            json!({"id": "rs_1", "encrypted_content": "e"}),
            "o4-mini",
            "- openai",
        ),
        (
            json!({"id": "rs_1", "encrypted_content": "e"}),
            "claude",
            "- unknown",
        ),
        (json!({"encrypted_content": "e"}), "gpt-5", "- unknown"),
        (
            json!({"id": "rs_1", "summary": [], "text": "t"}),
            "gpt-5",
            "t",
        ),
        (json!({"text": "t", "signature": " "}), "claude", "t"),
    ];
    for (fields, model, line) in cases {
        let mut part = fields.clone();
        part["type"] = json!("reasoning");
        let thought = item(Role::Assistant, "thought", json!([part]));
        let thought = if model.is_empty() {
            thought
        } else {
            with_model(model, thought)
        };
        let items = vec![thought, text_item(Role::Assistant, "plan", "p")];
        check_restored(items, &[&format!("({line}) assistant: p")], &[]);
    }
}

#[test]
fn a_call_may_be_signed() {
    let parts = |provider: &str| json!([{"type": "tool_call", "call_id": "1", "name": "f", "args": {}, "signature": "AAAA", "provider": provider}]);
    let signed_call = |provider| {
        vec![
            item(Role::Assistant, "tool_call", parts(provider)),
            result("1"),
        ]
    };
    check_restored(
        signed_call("google"),
        &["calls 1 f({}) signed = did 1"],
        &[],
    );
    check_restored(signed_call("someone"), &["calls 1 f({}) = did 1"], &[]);
}

#[test]
fn a_failed_call_is_answered_by_its_error() {
    let items = vec![call("1"), failed("1", json!("no such file"))];
    check_restored(
        items,
        &["calls 1 f({\"of\":\"1\"}) = failed no such file"],
        &[],
    );
}

#[test]
fn lone_surrogates_are_replaced_and_reported() {
    let test = TestSession::new();
    test.start("a", "q");
    let text = r#"[{"type":"text","text":"a\ud800b\ud83e\uddf5"}]"#;
    test.append("a", vec![raw_item(Role::Assistant, "plan", text)]);
    let lines = ["user: q", r"assistant: a\ufffdb\ud83e\uddf5"];
    assert_restored(
        &test,
        complete(),
        &lines,
        &[],
        &[(2, "surrogates_replaced")],
    );
}
