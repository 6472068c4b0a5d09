//! JSON texts are preserved to the byte.

use super::*;

#[test]
fn bytes_are_preserved() {
    for text in [
        r#"{"b":1.0,"a":9007199254740993,"b":1}"#,
        r#"["\u0000","\ud800", 1e400]"#,
        "[ 1,\n 2 ]",
    ] {
        let raw: RawJson = serde_json::from_str(&format!("  {text} ")).unwrap();
        assert_eq!(raw.as_str(), text);
        assert_eq!(serde_json::to_string(&raw).unwrap(), text);
    }
}

#[test]
fn checked_json_is_written_unchanged_by_every_serializer() {
    let raw = RawJson::from_checked(r#"{"a": [1.0, "\u00e9"]}"#);
    let written = [
        serde_json::to_string(&raw).unwrap(),
        String::from_utf8(serde_json::to_vec(&raw).unwrap()).unwrap(),
        serde_json::to_string_pretty(&raw).unwrap(),
    ];
    assert!(written.iter().all(|text| text == raw.as_str()));
    let raw_value: Box<RawValue> = serde_json::from_str(raw.as_str()).unwrap();
    assert_eq!(serde_json::to_string(&raw_value).unwrap(), raw.as_str());
    let value = serde_json::to_value(&raw).unwrap();
    assert_eq!(value, serde_json::json!({"a": [1.0, "é"]}));
    let text = JsonText::within(RawJson::from_checked(r#"["b"]"#), 1..4).unwrap();
    assert_eq!(serde_json::to_value(&text).unwrap(), serde_json::json!("b"));
}

#[test]
fn nesting_is_limited() {
    let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    assert!(RawJson::parse(&deep(MAX_NESTING)).is_ok());
    assert_eq!(
        RawJson::parse(&deep(MAX_NESTING + 1)),
        Err(JsonError::TooDeep)
    );
    assert!(RawJson::parse(&format!("\"{}\\\"[\"", "[".repeat(500))).is_ok());
}

#[test]
fn only_lone_surrogates_are_replaced() {
    for (json, expected) in [
        (r#""a\ud83d\ude00b""#, r#""a\ud83d\ude00b""#),
        (r#""a\ud83e\uddf5b""#, r#""a\ud83e\uddf5b""#),
        (r#""\ud800""#, r#""\ufffd""#),
        (r#""\udc00x\uDBFF\n""#, r#""\ufffdx\ufffd\n""#),
        (r#""\ud83e x \uddf5""#, r#""\ufffd x \ufffd""#),
        (r#""\ud800\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
        (r#""\\ud800""#, r#""\\ud800""#),
        (r#"{"k\udfff":["\\\ud800"]}"#, r#"{"k\ufffd":["\\\ufffd"]}"#),
        (r#""\udc00é""#, r#""\ufffdé""#),
        ("[1]", "[1]"),
    ] {
        assert_eq!(replace_lone_surrogates(json), expected);
        serde_json::from_str::<serde_json::Value>(&replace_lone_surrogates(json)).unwrap();
    }
    for torn in ["\\", "\\u", "\\ud80", "\\é", "\\ud800\\"] {
        let _ = replace_lone_surrogates(torn);
    }
}

#[test]
fn texts_keep_their_escapes() {
    let a: JsonText = serde_json::from_str(r#""caf\u00e9 \ud800""#).unwrap();
    assert_eq!(a.as_token(), r#""caf\u00e9 \ud800""#);
    assert!(a.to_plain().starts_with("café "));
    let b = JsonText::from_plain("x\"y");
    assert_eq!(
        JsonText::join(&[a, b]).unwrap().as_token(),
        r#""caf\u00e9 \ud800\nx\"y""#
    );
    assert!(serde_json::from_str::<JsonText>("1").is_err());
}

#[test]
fn a_text_within_other_json_equals_the_same_separate_text() {
    let json = || RawJson::from_checked(r#"[{"text":"caf\u00e9"}]"#);
    let inside = JsonText::within(json(), 9..20).unwrap();
    let separate: JsonText = serde_json::from_str(r#""caf\u00e9""#).unwrap();
    assert_eq!((&inside, inside.as_token()), (&separate, r#""caf\u00e9""#));
    assert_eq!(inside.clone().to_plain(), "café");
    assert_eq!(serde_json::to_string(&inside).unwrap(), separate.as_token());
    let texts = std::collections::HashSet::from([inside.clone()]);
    assert!(texts.contains(&separate));
    for (from, to) in [(0, 3), (8, 20), (9, 9), (9, 10), (9, 500), (20, 9)] {
        assert!(JsonText::within(json(), from..to).is_err());
    }
}
