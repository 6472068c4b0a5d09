//! Values of secret members, and of a `runtime_context` in metadata, are masked; all other bytes stay unchanged.

use super::super::members::{mask_runtime_contexts, mask_secret_members};
use super::*;

const MASK: &str = r#""[masked:secret_member]""#;

/// The JSON with its secret members masked, and their number.
fn members_masked(json: &str) -> (String, u64) {
    let mut counts = Masked::default();
    let output = mask_secret_members(json, &mut counts).unwrap_or_else(|| json.to_owned());
    serde_json::from_str::<serde_json::Value>(&output).unwrap_or_else(|e| panic!("{e}: {output}"));
    (output, counts.count)
}

#[test]
fn values_of_members_with_secret_names_are_masked() {
    for name in [
        "authorization",
        "Proxy-Authorization",
        "cookie",
        "Set-Cookie",
        "access_token",
        "csrfToken",
        "token",
        "api_key",
        "X-Api-Key",
        "openaiApiKey",
        "password",
        "db_password",
        "client_secret",
        "private_key",
        "credentials",
        "p\\u0061ssword",
    ] {
        for value in [r#""x""#, r#"["x", {"a":"}"}]"#, r#"{"password":"x"}"#] {
            let json = format!(r#"{{"a":1.0,  "b":[{{"{name}" : {value}}}],"c":"password"}}"#);
            let expected = format!(r#"{{"a":1.0,  "b":[{{"{name}" : {MASK}}}],"c":"password"}}"#);
            assert_eq!(members_masked(&json), (expected.clone(), 1), "{json}");
            assert_eq!(members_masked(&expected), (expected, 0), "a mask stays");
        }
    }
    let number = format!(r#"{{"password":{MASK}}}"#);
    assert_eq!(members_masked(r#"{"password":12345}"#), (number, 1));
}

#[test]
fn other_members_stay() {
    for json in [
        r#"{"input_tokens":5,"max_token":7,"tokens":{"input":1},"token_type":"bearer"}"#,
        r#"{"password":null,"has_password":true,"is_secret":false,"token":"","keys":["a"]}"#,
        r#"["password","x",{"secretary":"x","tokenizer":"x","passwords_changed":1}]"#,
        "{}",
    ] {
        assert_eq!(members_masked(json), (json.to_owned(), 0));
    }
}

#[test]
fn only_listed_members_of_a_runtime_context_stay() {
    const MASK: &str = r#""[masked:runtime_context]""#;
    let listed = ["locale".to_owned()];
    for (json, expected, count) in [
        (
            r#"{"a": 1,"runtime_context": {"locale":"fr","access_token":"x","n":[7]}}"#,
            format!(
                r#"{{"a": 1,"runtime_context": {{"locale":"fr","access_token":{MASK},"n":{MASK}}}}}"#
            ),
            2,
        ),
        (
            r#"{"deep":[{"runtimeContext":"x"}],"runtime_context":null}"#,
            format!(r#"{{"deep":[{{"runtimeContext":{MASK}}}],"runtime_context":null}}"#),
            1,
        ),
    ] {
        let mut counts = Masked::default();
        let output = mask_runtime_contexts(json, &listed, &mut counts);
        assert_eq!((output.as_deref(), counts.count), (Some(&*expected), count));
    }
    let mut counts = Masked::default();
    assert_eq!(
        mask_runtime_contexts(r#"{"a":"runtime_context"}"#, &listed, &mut counts),
        None
    );
}
