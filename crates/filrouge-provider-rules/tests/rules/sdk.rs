//! Tests with the real SDK types. The first run downloads the SDKs.

use std::path::{Path, PathBuf};

use filrouge_provider_rules::Provider;
use filrouge_provider_rules::sdk::{SdkError, check};
use serde_json::{Value, json};

use crate::accepted;

/// The directory that keeps the downloaded SDKs.
pub(crate) fn directory() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("provider-sdks")
}

#[test]
fn the_sdk_types_accept_the_histories_that_the_rules_accept() {
    let histories = accepted::histories();
    assert_eq!(check(&directory(), &histories).unwrap(), []);
}

#[test]
fn the_sdk_types_refuse_extra_members_wrong_types_and_missing_members() {
    let cases = refused();
    let histories: Vec<_> = cases
        .iter()
        .map(|(provider, history, _)| (*provider, history.clone()))
        .collect();
    let violations = check(&directory(), &histories).unwrap();
    for (index, (provider, history, at)) in cases.iter().enumerate() {
        let reported: Vec<_> = violations
            .iter()
            .filter(|violation| violation.history == index)
            .collect();
        assert!(
            reported
                .iter()
                .any(|violation| violation.description.starts_with(at)),
            "{provider} {at}: {reported:?} in {history}"
        );
        assert!(
            reported
                .iter()
                .all(|violation| violation.provider == *provider)
        );
    }
}

/// Histories with one error each, as (provider, history, path of the error).
fn refused() -> Vec<(Provider, Value, &'static str)> {
    let chat_call = |function: Value| json!([{"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": function}]}]);
    let anthropic_result = |block: Value| json!([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [block]}]}]);
    let anthropic_block = |block: Value| json!([{"role": "user", "content": [block]}]);
    let responses_summary =
        |part: Value| json!([{"type": "reasoning", "id": "rs_1", "summary": [part]}]);
    let gemini_call = |call: Value| json!([{"role": "model", "parts": [{"functionCall": call}]}]);
    let gemini_response =
        |answer: Value| json!([{"role": "user", "parts": [{"functionResponse": answer}]}]);
    vec![
        (
            Provider::OpenaiChat,
            chat_call(json!({"name": "f", "arguments": "{}", "index": 0})),
            "0.tool_calls.0.function.index: ",
        ),
        (
            Provider::OpenaiChat,
            chat_call(json!({"name": "f", "arguments": {}})),
            "0.tool_calls.0.function.arguments: ",
        ),
        (
            Provider::OpenaiChat,
            chat_call(json!({"name": "f"})),
            "0.tool_calls.0.function.arguments: ",
        ),
        (
            Provider::OpenaiResponses,
            responses_summary(json!({"type": "summary_text", "text": "x", "index": 0})),
            "0.summary.0.index: ",
        ),
        (
            Provider::OpenaiResponses,
            responses_summary(json!({"type": "summary_text", "text": 1})),
            "0.summary.0.text: ",
        ),
        (
            Provider::OpenaiResponses,
            responses_summary(json!({"type": "summary_text"})),
            "0.summary.0.text: ",
        ),
        (
            Provider::Anthropic,
            anthropic_block(json!({"type": "text", "text": "x", "index": 0})),
            "0.content.0.index: ",
        ),
        (
            Provider::Anthropic,
            anthropic_result(json!({"type": "text", "text": "x", "index": 0})),
            "0.content.0.content.0.index: ",
        ),
        (
            Provider::Anthropic,
            anthropic_result(json!({"type": "text", "text": 1})),
            "0.content.0.content.0.text: ",
        ),
        (
            Provider::Anthropic,
            anthropic_result(json!({"type": "text"})),
            "0.content.0.content.0.text: ",
        ),
        (
            Provider::Gemini,
            gemini_call(json!({"name": "f", "index": 0})),
            "0.parts.0.functionCall.index: ",
        ),
        (
            Provider::Gemini,
            gemini_call(json!({"name": "f", "args": "{}"})),
            "0.parts.0.functionCall.args: ",
        ),
        (
            Provider::Gemini,
            gemini_response(json!({"name": "f"})),
            "0.parts.0.functionResponse.response: ",
        ),
    ]
}

#[test]
fn one_run_can_check_several_thousand_histories() {
    let history = json!([{"role": "user", "content": "x"}]);
    let mut histories = vec![(Provider::OpenaiChat, history); 5_000];
    histories.push((Provider::Anthropic, json!([{"role": "user"}])));
    let violations = check(&directory(), &histories).unwrap();
    let refused_indexes: Vec<_> = violations
        .iter()
        .map(|violation| violation.history)
        .collect();
    assert_eq!(refused_indexes, [5_000]);
}

#[test]
fn an_unusable_directory_is_an_error() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("provider-sdks-file");
    std::fs::write(&file, "").unwrap();
    let error = check(&file, &[]).unwrap_err();
    assert!(matches!(error, SdkError::Directory { .. }), "{error}");
}
