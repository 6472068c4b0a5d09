//! Tests that every object of a history is closed: the rules and the SDKs' request types refuse an extra member and a
//! value of a wrong type everywhere.

use std::collections::BTreeSet;

use filrouge_provider_rules::{Provider, check_history, sdk};
use serde_json::{Value, json};

use crate::{accepted, sdk::directory};

/// Members whose value can be any JSON object, because the tools define it.
const FREE: &[&str] = &["input", "args", "response"];

/// JSON pointers of all values in `value`, except those inside a free object.
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

/// Variants of the accepted histories: `change` is applied at one place of each, which is returned as a JSON pointer.
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
fn the_rules_refuse_an_extra_member_everywhere() {
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
fn the_rules_refuse_a_wrong_type_everywhere() {
    let variants = mistyped();
    assert!(variants.len() > 300, "{}", variants.len());
    for (provider, history, place) in variants {
        let found = check_history(provider, &history);
        let named = found.iter().any(|violation| violation.rule == "wrong-type");
        assert!(named, "{provider} {place}: {found:?}");
    }
}

#[test]
fn the_sdk_types_refuse_the_same_variants() {
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
    let accepted: Vec<_> = (0..variants.len())
        .filter(|index| !refused.contains(index))
        .map(|index| (variants[index].0, &variants[index].2))
        .collect();
    assert!(accepted.is_empty(), "{accepted:?}");
}
