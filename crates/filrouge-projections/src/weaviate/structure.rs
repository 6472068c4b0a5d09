//! The structure of a collection: its properties.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Properties with ids and words, which queries compare as they are.
const WORDS: [&str; 12] = [
    "identity_id",
    "kind",
    "owner_digest",
    "project_id",
    "request_id",
    "session_digest",
    "session_id",
    "session_order",
    "stamp",
    "status",
    "tenant_id",
    "turn_id",
];
/// Properties with texts, which queries search for words.
const TEXTS: [&str; 3] = ["answer", "question", "title"];
/// Properties with whole numbers below 2^31: queries return greater ones as null.
const NUMBERS: [&str; 3] = ["last_rank", "ordinal", "rank"];
/// Properties with times.
const DATES: [&str; 2] = ["created_at", "finalized_at"];

/// The definition of a collection. The description states the length of the vectors, which Weaviate does not keep
/// before the first of them.
pub(super) fn collection(name: &str, dimensions: Option<usize>) -> Value {
    let text = |name: &str, kind: &str, tokenization: &str| {
        json!({
            "name": name,
            "dataType": [kind],
            "tokenization": tokenization,
            "indexFilterable": true,
            "indexSearchable": tokenization != "field",
        })
    };
    let other = |name: &str, kind: &str| json!({ "name": name, "dataType": [kind] });
    let words = WORDS.iter().map(|name| text(name, "text", "field"));
    let texts = TEXTS.iter().map(|name| text(name, "text", "word"));
    let numbers = NUMBERS.iter().map(|name| other(name, "int"));
    let dates = DATES.iter().map(|name| other(name, "date"));
    let mut properties: Vec<Value> = words.chain(texts).chain(numbers).chain(dates).collect();
    properties.push(text("agents", "text[]", "field"));
    properties.push(other("redacted", "boolean"));
    // Whole numbers below 2^53.
    properties.extend(["place", "version"].map(|name| other(name, "number")));
    let vectors = dimensions.map_or("no vectors".to_owned(), |n| {
        format!("vectors of {n} numbers")
    });
    json!({
        "class": name,
        "description": format!("Sessions recorded by filrouge, {vectors}"),
        "vectorizer": "none",
        "multiTenancyConfig": {
            "enabled": true,
            "autoTenantCreation": true,
            "autoTenantActivation": true,
        },
        "properties": properties,
    })
}

/// The names of the properties of which a row is made, as the selection of a query.
pub(super) fn selection() -> String {
    let names = [&WORDS[..], &TEXTS[..], &NUMBERS[..], &DATES[..]].concat();
    let names = names.into_iter().chain(["agents", "place", "redacted"]);
    let is_other = |name: &&str| matches!(*name, "session_digest" | "session_order" | "stamp");
    let names: Vec<&str> = names.filter(|name| !is_other(name)).collect();
    names.join(" ")
}

/// The first part of a collection that is not as expected; `None` if there is none.
pub(super) fn first_difference(found: &Value, expected: &Value) -> Option<String> {
    if found["description"] != expected["description"] {
        return Some("description".to_owned());
    }
    if found["multiTenancyConfig"]["enabled"] != true {
        return Some("multiTenancyConfig".to_owned());
    }
    let (found, expected) = (kinds(found), kinds(expected));
    let names = expected.keys().chain(found.keys());
    let mut names = names.filter(|name| found.get(*name) != expected.get(*name));
    names.next().cloned()
}

/// The type and the tokenization of each property.
fn kinds(collection: &Value) -> BTreeMap<String, Value> {
    let properties = collection["properties"].as_array().into_iter().flatten();
    let kind = |property: &Value| {
        let name = property["name"].as_str().unwrap_or_default().to_owned();
        let tokenization = property["tokenization"].as_str().unwrap_or_default();
        (name, json!([property["dataType"], tokenization]))
    };
    properties.map(kind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_property_is_found() {
        let expected = collection("C_G1", Some(3));
        assert_eq!(first_difference(&expected, &expected), None);
        let other = collection("C_G1", Some(4));
        let difference = first_difference(&other, &expected);
        assert_eq!(difference.as_deref(), Some("description"));
        let mut changed = expected.clone();
        changed["properties"][0]["tokenization"] = json!("word");
        let difference = first_difference(&changed, &expected);
        assert_eq!(difference.as_deref(), Some(WORDS[0]));
    }
}
