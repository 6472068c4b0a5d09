//! Tests that every object of a history is closed: everywhere, the rules and the SDKs' request types refuse an extra
//! member and a value of a wrong type.

use std::collections::BTreeSet;

use filrouge_provider_rules::{Provider, check_history, sdk};
use serde_json::{Value, json};

use crate::{accepted, sdk::directory};

/// Members whose value can be any JSON object, because the tools define it.
const FREE_FORM: &[&str] = &["input", "args", "response"];

/// Adds the JSON pointers of all values in `value` to `pointers`, except those inside a free-form object.
fn add_pointers(value: &Value, pointer: &str, pointers: &mut Vec<String>) {
    pointers.push(pointer.to_owned());
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                add_pointers(item, &format!("{pointer}/{index}"), pointers);
            }
        }
        Value::Object(map) => {
            for (key, inner) in map {
                let pointer = format!("{pointer}/{key}");
                if FREE_FORM.contains(&key.as_str()) {
                    pointers.push(pointer);
                } else {
                    add_pointers(inner, &pointer, pointers);
                }
            }
        }
        _ => {}
    }
}

/// Variants of the accepted histories, with one changed value each, and the JSON pointer of that value. `change`
/// receives the pointer and the value, and returns whether it changed the value.
fn variants(change: impl Fn(&str, &mut Value) -> bool) -> Vec<(Provider, Value, String)> {
    let mut variants = Vec::new();
    for (provider, history) in accepted::short_histories() {
        let mut pointers = Vec::new();
        add_pointers(&history, "", &mut pointers);
        for pointer in pointers {
            let mut variant = history.clone();
            if change(&pointer, variant.pointer_mut(&pointer).unwrap()) {
                variants.push((provider, variant, pointer));
            }
        }
    }
    variants
}

/// Variants in which one object has an extra member.
fn with_extra_member() -> Vec<(Provider, Value, String)> {
    variants(|pointer, value| {
        let is_free_form = FREE_FORM
            .iter()
            .any(|key| pointer.ends_with(&format!("/{key}")));
        match value {
            Value::Object(map) if !is_free_form => {
                map.insert("extra".to_owned(), json!(1)).is_none()
            }
            _ => false,
        }
    })
}

/// Variants in which one value is a fraction. No member accepts a fraction.
fn with_wrong_type() -> Vec<(Provider, Value, String)> {
    variants(|_, value| {
        *value = json!(7.5);
        true
    })
}

#[test]
fn the_rules_refuse_an_extra_member_everywhere() {
    let variants = with_extra_member();
    assert!(variants.len() > 100, "only {} variants", variants.len());
    for (provider, history, pointer) in variants {
        let violations = check_history(provider, &history);
        let is_reported = violations
            .iter()
            .any(|violation| violation.rule == "unknown-member");
        assert!(is_reported, "{provider} {pointer}: {violations:?}");
    }
}

#[test]
fn the_rules_refuse_a_wrong_type_everywhere() {
    let variants = with_wrong_type();
    assert!(variants.len() > 300, "only {} variants", variants.len());
    for (provider, history, pointer) in variants {
        let violations = check_history(provider, &history);
        let is_reported = violations
            .iter()
            .any(|violation| violation.rule == "wrong-type");
        assert!(is_reported, "{provider} {pointer}: {violations:?}");
    }
}

#[test]
fn the_sdk_types_refuse_the_same_variants() {
    let variants: Vec<_> = with_extra_member()
        .into_iter()
        .chain(with_wrong_type())
        .collect();
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
    assert!(
        accepted.is_empty(),
        "the SDK types accept the variants at {accepted:?}"
    );
}
