//! Tests of the rules of base64 and links, with an image for Anthropic as the example.

use filrouge_provider_rules::{Provider, check_history};
use serde_json::{Value, json};

fn image(source: Value) -> Value {
    json!([{"role": "user", "content": [{"type": "image", "source": source}]}])
}

fn rule_names(history: &Value) -> Vec<&'static str> {
    let violations = check_history(Provider::Anthropic, history);
    violations.iter().map(|violation| violation.rule).collect()
}

#[test]
fn base64_is_strict() {
    let base64 = |data: &str| {
        rule_names(&image(
            json!({"type": "base64", "media_type": "image/png", "data": data}),
        ))
    };
    for data in ["iVBORw0KGgo=", "AA==", "AAA=", "AAAA", "+/9/"] {
        assert!(base64(data).is_empty(), "{data}");
    }
    for data in [
        "", "A", "AA", "AAA", "A===", "====", "AB==", "AAB=", "AA=A", "_-8A", "AA\nA", "AAAA AAA",
    ] {
        assert_eq!(base64(data), ["base64"], "{data:?}");
    }
}

#[test]
fn links_are_absolute() {
    let url = |url: &str| rule_names(&image(json!({"type": "url", "url": url})));
    for valid in ["https://example.com/a.png", "http://127.0.0.1:8080/a"] {
        assert!(url(valid).is_empty(), "{valid}");
    }
    for invalid in [
        "",
        "https://",
        "https:///a",
        "ftp://example.com/a",
        "/a.png",
        "https://example.com/a b",
    ] {
        assert_eq!(url(invalid), ["url"], "{invalid:?}");
    }
}
