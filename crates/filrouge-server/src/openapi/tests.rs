//! The OpenAPI document: its references, examples, error codes and texts.

use std::collections::BTreeSet;

use serde_json::Value;

use super::complete_document;
use super::links::LINKS;
use super::problems::CODES;

fn document() -> Value {
    complete_document(crate::routes::api().into_openapi())
}

/// The operations, each with its id.
fn operations(document: &Value) -> Vec<(String, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    let operations = paths.values().flat_map(|item| item.as_object().unwrap());
    operations
        .map(|(_, operation)| {
            (
                operation["operationId"].as_str().unwrap().to_owned(),
                operation,
            )
        })
        .collect()
}

/// The value, or what it refers to.
fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(reference) => document.pointer(&reference[1..]).unwrap(),
        None => schema,
    }
}

/// Collects all references in a value.
fn collect_references(value: &Value, collected: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match (name.as_str(), member.as_str()) {
                    ("$ref", Some(reference)) => collected.push(reference.to_owned()),
                    _ => collect_references(member, collected),
                }
            }
        }
        Value::Array(elements) => elements
            .iter()
            .for_each(|element| collect_references(element, collected)),
        _ => {}
    }
}

#[test]
fn every_reference_resolves() {
    let document = document();
    let mut collected = Vec::new();
    collect_references(&document, &mut collected);
    assert!(collected.len() > 100);
    for reference in collected {
        assert!(document.pointer(&reference[1..]).is_some(), "{reference}");
    }
}

#[test]
fn links_name_existing_operations() {
    let document = document();
    let ids: BTreeSet<String> = operations(&document)
        .into_iter()
        .map(|(id, _)| id)
        .collect();
    for (source, targets, _) in LINKS {
        for name in targets.iter().chain([source]) {
            assert!(ids.contains(*name), "{name}");
        }
    }
}

#[test]
fn operations_are_described_once_and_with_examples() {
    let document = document();
    let mut ids = BTreeSet::new();
    for (id, operation) in operations(&document) {
        assert!(ids.insert(id.clone()), "{id} occurs twice");
        let summary = operation["summary"].as_str();
        assert!(
            summary.is_some_and(|summary| summary.ends_with('.')),
            "{id} has no summary that ends with a full stop"
        );
        let description = operation["description"].as_str();
        assert!(
            description.is_some_and(|description| description.ends_with('.')),
            "{id} has no description that ends with a full stop"
        );
        assert!(operation["tags"][0].is_string(), "{id} has no tag");
        let body = operation["requestBody"]["content"].as_object();
        for (media, content) in body.into_iter().flatten() {
            let named_examples = content["examples"].as_object();
            let named_examples = named_examples
                .into_iter()
                .flatten()
                .map(|(_, example)| &example["value"]);
            let examples: Vec<&Value> = named_examples.chain(content.get("example")).collect();
            assert!(!examples.is_empty(), "{id}: {media} without an example");
            for example in examples {
                let location = format!("{id} {media}");
                let as_text = content["schema"]["type"] == "string";
                assert!(
                    example.is_object() || as_text && example.is_string(),
                    "{location}"
                );
                assert_same_members(&document, &content["schema"], example, &location);
            }
        }
        for (status, response) in operation["responses"].as_object().unwrap() {
            let response = resolved(&document, response);
            for (media, content) in response["content"].as_object().into_iter().flatten() {
                assert_has_example(&document, content, &format!("{id} {status} {media}"));
            }
        }
    }
}

/// Asserts that a content has an example that agrees with its schema. Bundles and exported documents need none.
fn assert_has_example(document: &Value, content: &Value, location: &str) {
    let schema = content["schema"]["$ref"].as_str().unwrap_or_default();
    if ["Bundle", "Document"]
        .iter()
        .any(|name| schema.ends_with(&format!("/{name}")))
    {
        return;
    }
    assert!(
        !content["example"].is_null(),
        "{location} without an example"
    );
    assert_same_members(document, &content["schema"], &content["example"], location);
}

/// A schema, merged with the members of all schemas that it is composed of.
fn merged(document: &Value, schema: &Value) -> Value {
    let mut schema = resolved(document, schema).clone();
    let Some(Value::Array(parts)) = schema.as_object_mut().and_then(|s| s.remove("allOf")) else {
        return schema;
    };
    for part in parts {
        let part = merged(document, &part);
        for (name, member) in part["properties"].as_object().unwrap() {
            schema["properties"][name] = member.clone();
        }
        let mut required = schema["required"].as_array().cloned().unwrap_or_default();
        required.extend(part["required"].as_array().into_iter().flatten().cloned());
        schema["required"] = required.into();
    }
    schema
}

/// Asserts that an example has the members that its schema requires, and no others.
fn assert_same_members(document: &Value, schema: &Value, example: &Value, location: &str) {
    let schema = merged(document, schema);
    let (Some(members), Some(properties)) = (example.as_object(), schema["properties"].as_object())
    else {
        return;
    };
    let open = schema["additionalProperties"] == true;
    for name in members.keys().filter(|_| !open) {
        assert!(
            properties.contains_key(name),
            "{location}: {name} is not in the schema"
        );
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        assert!(
            members.contains_key(name.as_str().unwrap()),
            "{location}: no {name}"
        );
    }
    for (name, inner) in properties {
        let location = format!("{location}.{name}");
        match members.get(name) {
            Some(Value::Array(elements)) => elements.iter().for_each(|element| {
                assert_same_members(document, &inner["items"], element, &location);
            }),
            Some(member) => assert_same_members(document, inner, member, &location),
            None => {}
        }
    }
}

/// The schema of the stream is a string, so its description names the schemas of the events, and its example shows one
/// of each.
#[test]
fn events_of_the_tail_are_described() {
    let document = document();
    let list = document.pointer("/paths/~1api~1v1~1sessions~1{session_id}~1items/get");
    let content = &list.unwrap()["responses"]["200"]["content"]["text/event-stream"];
    let description = content["schema"]["description"].as_str().unwrap();
    let mut shown = BTreeSet::new();
    for event in content["example"]
        .as_str()
        .unwrap()
        .trim_end()
        .split("\n\n")
    {
        let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
        let (name, data) = (field("event: ").unwrap(), field("data: ").unwrap());
        let data: Value = serde_json::from_str(data).unwrap();
        let schema = match name {
            "item" => "Item",
            "draft" => "DraftEvent",
            other => panic!("{other}"),
        };
        assert!(
            description.contains(&format!("`{name}`"))
                && description.contains(&format!("`{schema}`"))
        );
        let schema = &document["components"]["schemas"][schema];
        assert!(schema["required"].as_array().unwrap().len() > 5, "{name}");
        assert_same_members(&document, schema, &data, name);
        shown.insert(name);
    }
    assert!(shown.into_iter().eq(["draft", "item"]));
}

#[test]
fn every_error_code_is_documented() {
    let mut documented = BTreeSet::new();
    let document = document();
    for (_, operation) in operations(&document) {
        for response in operation["responses"].as_object().unwrap().values() {
            let codes = resolved(&document, response)[CODES].as_array();
            documented.extend(codes.into_iter().flatten().filter_map(Value::as_str));
        }
    }
    // No operation returns these codes: they state that there is no such operation.
    let of_no_operation = ["route_not_found", "method_not_allowed"];
    for code in filrouge_types::ErrorCode::ALL {
        assert_ne!(
            documented.contains(code.as_str()),
            of_no_operation.contains(&code.as_str()),
            "{code}"
        );
    }
}

/// Texts must not contain what a reader of the document cannot know: references to this project's design documents,
/// Rust syntax, or the router's own names of parameters.
#[test]
fn texts_contain_no_internal_references() {
    let mut texts = Vec::new();
    collect_texts(&document(), &mut texts);
    assert!(texts.len() > 200);
    for text in texts {
        for word in [
            "DESIGN", "`None`", "`Some`", "{sid}", "{tid}", "§", "[`", "::",
        ] {
            assert!(!text.contains(word), "{word} in {text:?}");
        }
    }
}

/// Collects all titles, summaries and descriptions in a value.
fn collect_texts(value: &Value, collected: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match (name.as_str(), member.as_str()) {
                    ("description" | "summary" | "title", Some(text)) => {
                        collected.push(text.to_owned());
                    }
                    _ => collect_texts(member, collected),
                }
            }
        }
        Value::Array(elements) => elements
            .iter()
            .for_each(|element| collect_texts(element, collected)),
        _ => {}
    }
}

#[test]
fn tags_are_declared_and_schemas_of_pages_are_named() {
    let document = document();
    let declared: BTreeSet<&str> = document["tags"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tag| tag["name"].as_str().unwrap())
        .collect();
    let mut pages = BTreeSet::new();
    for (id, operation) in operations(&document) {
        let tag = operation["tags"][0].as_str().unwrap();
        assert!(declared.contains(tag), "{id}: {tag}");
        let schema = &operation["responses"]["200"]["content"]["application/json"]["schema"];
        let members = &resolved(&document, schema)["properties"];
        if members["data"].is_object() && members["next_cursor"].is_object() {
            let name = schema["$ref"].as_str().unwrap();
            pages.insert(name.rsplit('/').next().unwrap().to_owned());
        }
    }
    let expected = [
        "AuditPage",
        "ChangePage",
        "CheckpointPage",
        "EventPage",
        "ItemPage",
        "SearchPage",
        "SessionPage",
        "TurnPage",
    ];
    assert!(pages.iter().eq(expected), "{pages:?}");
}

#[test]
fn only_writes_promise_durability() {
    let document = document();
    for path in document["paths"].as_object().unwrap().values() {
        for (method, operation) in path.as_object().unwrap() {
            for (status, response) in operation["responses"].as_object().unwrap() {
                // 204 means that nothing was written.
                if status.starts_with('2') && status != "204" {
                    let promised = response["headers"]["Filrouge-Durability"].is_object();
                    assert_eq!(promised, method != "get", "{}", operation["operationId"]);
                }
            }
        }
    }
}
