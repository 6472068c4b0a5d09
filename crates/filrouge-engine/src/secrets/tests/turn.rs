//! Values of `runtime_context` are masked in the texts of their turn.

use std::sync::Arc;

use filrouge_types::{JsonText, RawJson};

use super::super::TurnSecrets;
use super::*;

/// The secrets of a turn with this `runtime_context`, of which `allowed` is recorded.
fn secrets(context: serde_json::Value, allowed: serde_json::Value) -> Option<Arc<TurnSecrets>> {
    let raw = |value| RawJson::write(&value).unwrap();
    let question = JsonText::from_plain("what is the weather like");
    TurnSecrets::from_contexts(&[raw(context)], &[raw(allowed)], &[&question])
}

const MASK: &str = "[masked:runtime_context]";

#[test]
fn values_are_masked_in_every_spelling() {
    for value in [
        "c4n4ry-t0k3n",
        "a/b+c/d=e\"f",
        "clé secrète\n2",
        "back\\slash\\n",
        "nfoobarbaz",
    ] {
        let context = serde_json::json!({ "deep": [{ "token": value, "short": "1234567" }], "n": 12_345_678 });
        let secrets = secrets(context, serde_json::json!({})).unwrap();
        let text = format!("a {value} b 1234567 12345678 {value}");
        let expected = format!("a {MASK} b 1234567 12345678 {MASK}");
        let mut counts = Masked::default();
        assert_eq!(secrets.mask_text(&text, &mut counts).unwrap(), expected);
        for (raw, depth) in [
            (json(&text), 1),
            (json(&text).replace('/', "\\/"), 1),
            (
                json(&text).replace('é', "\\u00e9").replace('è', "\\u00e8"),
                1,
            ),
            (json(&json(&text)), 2),
        ] {
            let mut output = secrets.mask_json(&raw, &mut counts).unwrap();
            for _ in 0..depth {
                output = serde_json::from_str(&output).unwrap();
            }
            assert_eq!(output, expected, "{raw}");
        }
        assert_eq!(counts.count, 10);
        for size in [1, 2, 5, 1000] {
            let mut stream = secrets.stream();
            let mut output = String::new();
            let characters: Vec<char> = text.chars().collect();
            for piece in characters.chunks(size) {
                output.push_str(&stream.push(&String::from_iter(piece)));
            }
            assert_eq!(output + &stream.finish(), expected, "{size}");
        }
    }
}

#[test]
fn a_mask_never_splits_an_escape() {
    let context = serde_json::json!({ "a": "nfoobarbaz", "b": "0041foobar" });
    let secrets = secrets(context, serde_json::json!({})).unwrap();
    for raw in [
        r#""x\nfoobarbaz""#,
        r#""x\u0041foobar""#,
        r#""x\\nfoobarbaz""#,
    ] {
        assert_eq!(
            secrets.mask_json(raw, &mut Masked::default()),
            None,
            "{raw}"
        );
    }
}

#[test]
fn allowed_values_and_the_question_are_not_secrets() {
    let has_none = |context, allowed| secrets(context, allowed).is_none();
    let empty = || serde_json::json!({});
    assert!(has_none(
        serde_json::json!({ "a": 1, "b": ["short"], "longer_name": {} }),
        empty()
    ));
    assert!(has_none(
        serde_json::json!({ "query": "what is the weather like" }),
        empty()
    ));
    let context = serde_json::json!({ "timezone": "Europe/Paris", "zone": "Europe/Paris" });
    assert!(has_none(
        context,
        serde_json::json!({ "timezone": "Europe/Paris" })
    ));
    let header = serde_json::json!({ "authorization": "Bearer opaque-token" });
    let secrets = secrets(header, empty()).unwrap();
    let masked = secrets.mask_text("with opaque-token", &mut Masked::default());
    assert_eq!(masked.unwrap(), format!("with {MASK}"));
}

#[test]
fn the_longest_match_is_masked() {
    let context = serde_json::json!({ "a": "abcdefgh", "b": "abcdefghij", "c": "efghijklmn" });
    let secrets = secrets(context, serde_json::json!({})).unwrap();
    let text = "abcdefgh abcdefghi abcdefghij abcdefghijklmn efghijklmn";
    let expected = format!("{MASK} {MASK}i {MASK} {MASK}klmn {MASK}");
    let masked = secrets.mask_text(text, &mut Masked::default()).unwrap();
    assert_eq!(masked, expected);
    let mut stream = secrets.stream();
    let output: String = text.chars().map(|c| stream.push(&c.to_string())).collect();
    assert_eq!(output + &stream.finish(), expected);
}
