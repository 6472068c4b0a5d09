//! Histories that keep every rule.

use filrouge_provider_rules::{Provider, check_history};
use serde_json::{Value, json};

use crate::openai_chat::call;

/// The first bytes of a PNG file, in base64.
const PNG: &str = "iVBORw0KGgo=";
/// The first bytes of a PDF file, in base64.
const PDF: &str = "JVBERi0xLjcK";

/// Histories that both the rules and the SDKs' request types accept.
pub(crate) fn histories() -> Vec<(Provider, Value)> {
    let mut histories = short_histories();
    histories.push((Provider::OpenaiChat, long_chat(60)));
    histories.push((Provider::Anthropic, long_anthropic(60)));
    histories
}

/// Histories that together have every shape that the rules accept, except easy assistant messages with parts. Functions
/// named `…_calls` return exchanges with tool calls; functions named `…_parts` return every kind of content part.
pub(crate) fn short_histories() -> Vec<(Provider, Value)> {
    vec![
        (Provider::OpenaiChat, chat_calls()),
        (Provider::OpenaiChat, chat_parts()),
        (Provider::OpenaiResponses, responses_calls()),
        (Provider::OpenaiResponses, responses_parts()),
        (Provider::Anthropic, anthropic_calls()),
        (Provider::Anthropic, anthropic_parts()),
        (Provider::Gemini, gemini_calls()),
        (Provider::Gemini, gemini_parts()),
    ]
}

#[test]
fn realistic_histories_keep_every_rule() {
    for (provider, history) in histories() {
        let violations = check_history(provider, &history);
        assert!(violations.is_empty(), "{provider}: {violations:?}");
    }
}

#[test]
fn every_prefix_without_an_unanswered_call_keeps_every_rule() {
    let history = long_chat(3);
    for length in [0, 2, 5, 6, 9] {
        let prefix = json!(history.as_array().unwrap()[..length]);
        let violations = check_history(Provider::OpenaiChat, &prefix);
        assert!(violations.is_empty(), "{length}: {violations:?}");
    }
    for provider in Provider::ALL {
        assert!(check_history(provider, &json!([])).is_empty(), "{provider}");
    }
}

#[test]
fn easy_assistant_messages_may_contain_output_text() {
    // The SDK's `EasyInputMessage`: a message without type, id and status.
    let history = json!([
        {"role": "user", "content": "Which licence?"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Apache-2.0."}]},
    ]);
    assert!(check_history(Provider::OpenaiResponses, &history).is_empty());
}

#[test]
fn whitespace_at_the_end_of_an_earlier_assistant_message_is_accepted() {
    let history = json!([
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b\n"},
        {"role": "user", "content": "c\n"},
    ]);
    assert!(check_history(Provider::Anthropic, &history).is_empty());
}

/// Two calls at once, a failed call, a call id that is used again after its answer, and refusals.
fn chat_calls() -> Value {
    json!([
        {"role": "system", "content": "You help with this repository."},
        {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": "List the crates.", "name": "ann"},
        {"role": "assistant", "content": "Let me list them.", "tool_calls": [
            call("call_1", "list_files", "{\"path\":\"crates\"}"), call("call_2", "read-file", "{}")]},
        {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "[workspace]"}]},
        {"role": "tool", "tool_call_id": "call_1", "content": ""},
        {"role": "assistant", "content": null, "refusal": null, "tool_calls": [call("call_1", "list_files", "{}")]},
        {"role": "tool", "tool_call_id": "call_1", "content": "error: no such directory"},
        {"role": "assistant", "content": [{"type": "text", "text": "There are eight."}]},
        {"role": "user", "content": "Delete them."},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "I won't."}]},
        {"role": "user", "content": "Now?"},
        {"role": "assistant", "refusal": "No."},
    ])
}

fn chat_parts() -> Value {
    json!([{"role": "user", "content": [
        {"type": "text", "text": "What are these?"},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{PNG}")}},
        {"type": "file", "file": {"file_id": "file-1"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": format!("data:application/pdf;base64,{PDF}")}},
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
    ]}])
}

/// A history of `turns` turns. Each turn except the first has one call.
fn long_chat(turns: usize) -> Value {
    let mut messages = Vec::new();
    for turn in 0..turns {
        let id = format!("call_{turn}");
        let arguments = json!({"command": format!("ls {turn}")}).to_string();
        messages.push(json!({"role": "user", "content": format!("step {turn}")}));
        if turn > 0 {
            messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call(&id, "shell", &arguments)]}));
            messages.push(json!({"role": "tool", "tool_call_id": id, "content": "done\n"}));
        }
        messages.push(json!({"role": "assistant", "content": "ok\n"}));
    }
    json!(messages)
}

fn responses_calls() -> Value {
    json!([
        {"role": "developer", "content": "Be brief."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "List the crates."}]},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "**Listing**"}], "encrypted_content": "gAAAAB=="},
        {"type": "reasoning", "id": "rs_2", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}], "status": "completed"},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "list_files", "arguments": "{\"path\":\"crates\"}", "status": "completed"},
        {"type": "function_call", "call_id": "call_2", "name": "read-file", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_2", "output": [
            {"type": "input_text", "text": "a picture"},
            {"type": "input_image", "image_url": format!("data:image/png;base64,{PNG}")},
            {"type": "input_file", "file_id": "file-1"}]},
        {"type": "function_call_output", "id": "fco_1", "call_id": "call_1", "output": "", "status": "completed"},
        {"type": "reasoning", "id": "rs_3", "summary": []},
        {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "phase": "final_answer", "content": [
            {"type": "output_text", "text": "Eight.", "annotations": [
                {"type": "url_citation", "url": "https://example.com", "title": "x", "start_index": 0, "end_index": 5},
                {"type": "file_citation", "file_id": "file-1", "filename": "a", "index": 1},
                {"type": "container_file_citation", "container_id": "c", "file_id": "f", "filename": "a", "start_index": 0, "end_index": 1},
                {"type": "file_path", "file_id": "f", "index": 0}]},
            {"type": "refusal", "refusal": "No more."}]},
        {"role": "user", "content": "Thanks."},
        {"role": "assistant", "content": "Welcome.", "phase": "commentary"},
    ])
}

fn responses_parts() -> Value {
    json!([
        {"role": "system", "content": [{"type": "input_text", "text": "Be brief."}]},
        {"role": "user", "content": [
            {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "auto"},
            {"type": "input_image", "file_id": "file-1", "detail": "original"},
            {"type": "input_file", "file_url": "https://example.com/a.pdf"},
            {"type": "input_file", "filename": "a.pdf", "file_data": format!("data:application/pdf;base64,{PDF}"), "detail": "high"}]},
    ])
}

fn anthropic_calls() -> Value {
    json!([
        {"role": "user", "content": "List the crates."},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "", "signature": "EqQBCkYI"},
            {"type": "redacted_thinking", "data": "EmwKAhgB"},
            {"type": "text", "text": "Let me list them.\n"},
            {"type": "tool_use", "id": "toolu_1", "name": "list_files", "input": {"path": "crates"}},
            {"type": "tool_use", "id": "toolu_2", "name": "read-file", "input": {}},
            {"type": "tool_use", "id": "toolu_3", "name": "read-file", "input": {}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_3", "is_error": true, "content": [{"type": "text", "text": "gone"}]},
            {"type": "tool_result", "tool_use_id": "toolu_2"},
            {"type": "tool_result", "tool_use_id": "toolu_1", "is_error": false, "content": [
                {"type": "text", "text": "a picture"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}]},
            {"type": "text", "text": "And be quick."}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_4", "name": "list_files", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_4", "is_error": true, "content": "no such directory"}]},
        {"role": "assistant", "content": "Eight."},
    ])
}

fn anthropic_parts() -> Value {
    json!([{"role": "user", "content": [
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
        {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}, "title": "A", "context": null},
        {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}, "citations": {"enabled": true}},
        {"type": "document", "source": {"type": "content", "content": "x"}},
        {"type": "document", "source": {"type": "content", "content": [
            {"type": "text", "text": "x"},
            {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}]}},
        {"type": "document", "source": {"type": "file", "file_id": "file_2"}},
        {"type": "text", "text": "What are these?"},
    ]}])
}

fn long_anthropic(turns: usize) -> Value {
    let mut messages = vec![json!({"role": "user", "content": "begin"})];
    for turn in 0..turns {
        let id = format!("toolu_{turn}");
        messages.push(json!({"role": "assistant", "content": [
            {"type": "text", "text": format!("step {turn}")},
            {"type": "tool_use", "id": id, "name": "shell", "input": {"command": "ls"}}]}));
        messages.push(json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": id, "content": "done\n"}]}));
    }
    json!(messages)
}

fn gemini_calls() -> Value {
    json!([
        {"role": "user", "parts": [{"text": "List the crates."}]},
        {"role": "model", "parts": [
            {"text": "First the files.", "thought": true},
            {"text": "Let me list them."},
            {"functionCall": {"name": "list_files", "args": {"path": "crates"}, "id": "a"}, "thoughtSignature": "CsAB"},
            {"functionCall": {"name": "mcp:read.file-2"}}]},
        {"role": "user", "parts": [
            {"functionResponse": {"name": "list_files", "response": {"output": "8"}, "id": "a"}},
            {"functionResponse": {"name": "mcp:read.file-2", "response": {"error": "gone"}}}]},
        {"role": "model", "parts": [{"functionCall": {"name": "_again", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "_again", "response": {}}}]},
        {"role": "model", "parts": [{"text": "Eight.\n", "thoughtSignature": "CsAB"}]},
    ])
}

fn gemini_parts() -> Value {
    json!([
        {"role": "user", "parts": [
            {"inlineData": {"mimeType": "image/png", "data": PNG}},
            {"fileData": {"fileUri": "https://example.com/v1beta/files/abc"}},
            {"fileData": {"fileUri": "gs://bucket/a.mp4", "mimeType": "video/mp4"}},
            {"text": "What are these?"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "search", "args": {}}, "thoughtSignature": "skip_thought_signature_validator"}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "search", "response": {"output": []}}}]},
    ])
}
