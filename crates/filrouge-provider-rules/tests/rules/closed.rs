//! No place in a history is open: everywhere one member too many, and everywhere a value of a wrong type, is refused by
//! the rules and by the SDKs' request types.

use std::collections::BTreeSet;

use filrouge_provider_rules::{Provider, check_history, sdk};
use serde_json::{Value, json};

use crate::{accepted, sdk::directory};

/// Members whose value is the tools' own: any JSON object.
const FREE: &[&str] = &["input", "args", "response"];

/// JSON pointers of all values in `value`, but for those inside a free object.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                places(item, &format!("{at}/{index}"), found);
            }
        }
        Value::Object(map) => {
            for (key, inner) in map {
                let at = format!("{at}/{key}");
                if FREE.contains(&key.as_str()) {
                    found.push(at);
                } else {
                    places(inner, &at, found);
                }
            }
        }
        _ => {}
    }
}

/// Each accepted history with one change at one place, and that place.
fn changed(change: impl Fn(&str, &mut Value) -> bool) -> Vec<(Provider, Value, String)> {
    let mut variants = Vec::new();
    for (provider, history) in accepted::short_histories() {
        let mut found = Vec::new();
        places(&history, "", &mut found);
        for place in found {
            let mut variant = history.clone();
            if change(&place, variant.pointer_mut(&place).unwrap()) {
                variants.push((provider, variant, place));
            }
        }
    }
    variants
}

fn surplus() -> Vec<(Provider, Value, String)> {
    changed(|place, value| {
        let free = FREE.iter().any(|key| place.ends_with(&format!("/{key}")));
        match value {
            Value::Object(map) if !free => map.insert("surplus".to_owned(), json!(1)).is_none(),
            _ => false,
        }
    })
}

fn mistyped() -> Vec<(Provider, Value, String)> {
    changed(|_, value| {
        *value = json!(7.5);
        true
    })
}

#[test]
fn the_rules_take_no_member_too_many_anywhere() {
    let variants = surplus();
    assert!(variants.len() > 100, "{}", variants.len());
    for (provider, history, place) in variants {
        let found = check_history(provider, &history);
        let named = found
            .iter()
            .any(|violation| violation.rule == "unknown-member");
        assert!(named, "{provider} {place}: {found:?}");
    }
}

#[test]
fn the_rules_take_no_wrong_type_anywhere() {
    let variants = mistyped();
    assert!(variants.len() > 300, "{}", variants.len());
    for (provider, history, place) in variants {
        let found = check_history(provider, &history);
        let named = found.iter().any(|violation| violation.rule == "wrong-type");
        assert!(named, "{provider} {place}: {found:?}");
    }
}

#[test]
fn the_sdk_types_are_as_closed_as_the_rules() {
    let variants: Vec<_> = surplus().into_iter().chain(mistyped()).collect();
    let histories: Vec<_> = variants
        .iter()
        .map(|(provider, history, _)| (*provider, history.clone()))
        .collect();
    let violations = sdk::check(&directory(), &histories).unwrap();
    let refused: BTreeSet<_> = violations
        .iter()
        .map(|violation| violation.history)
        .collect();
    let taken: Vec<_> = (0..variants.len())
        .filter(|index| !refused.contains(index))
        .map(|index| (variants[index].0, &variants[index].2))
        .collect();
    assert!(taken.is_empty(), "{taken:?}");
}
