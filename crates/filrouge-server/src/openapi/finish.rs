//! Completes the document with what all operations share.

use serde_json::{Map, Value, json};
use utoipa::OpenApi as _;
use utoipa::openapi::OpenApi;

use super::links::add_links;
use super::problems::{self, LITERAL};
use super::responses::COMPONENTS;
use super::schemas::{Components, complete_schemas};

/// Example requests and responses by operation id. `requests` contains several examples of a request, by name.
const EXAMPLES: &str = include_str!("examples.json");

/// Operations that anyone may call (DESIGN §8).
pub(super) const PUBLIC: &[&str] = &["getHealth", "getReadiness", "getOpenApi"];

/// Completes the generated document, and returns it as JSON.
pub(crate) fn complete_document(mut api: OpenApi) -> Value {
    api.merge(Components::openapi());
    let mut document = json!(api);
    let mut moved = Map::new();
    move_schemas(&mut document, &mut moved);
    if let Some(schemas) = document["components"]["schemas"].as_object_mut() {
        schemas.extend(moved);
    }
    document["info"] = json!({
        "title": "filrouge",
        "version": env!("CARGO_PKG_VERSION"),
        "description": include_str!("description.md"),
        "contact": {"name": "The maintainers of filrouge"},
        "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
    });
    document["servers"] = json!([{"url": "/", "description": "This server."}]);
    document["tags"] = TAGS
        .iter()
        .map(|(name, description, _)| json!({"name": name, "description": description}))
        .collect();
    document["components"]["securitySchemes"] = json!({
        "bearer": {
            "type": "http",
            "scheme": "bearer",
            "description": "An API key or a JWT. A server without keys accepts only its own machine, without either.",
        },
    });
    document["components"]["headers"] = json!({
        "RequestId": {
            "description": "The request's id, which the server also logs.",
            "schema": {"type": "string"},
        },
    });
    document["components"]["parameters"] = parameters();
    if let Some(schemas) = document["components"]["schemas"].as_object_mut() {
        complete_schemas(schemas);
    }
    let examples: Value = serde_json::from_str(EXAMPLES).unwrap_or_default();
    let mut shared = Map::new();
    for (path, item) in document["paths"].as_object_mut().into_iter().flatten() {
        for (method, operation) in item.as_object_mut().into_iter().flatten() {
            let id = operation_id(operation["operationId"].as_str().unwrap_or_default());
            let has_body = operation.get("requestBody").is_some();
            complete_operation(operation, &id, path, &examples);
            let codes = problems::codes(&id, method, path, has_body);
            problems::add_problem_responses(&mut operation["responses"], &mut shared, codes);
        }
    }
    document["components"]["responses"] = shared.into();
    document
}

/// Returns the id of the operation that a handler does: `getTurn` for `get_turn`.
fn operation_id(handler: &str) -> String {
    let mut id = handler.to_owned();
    while let Some(at) = id.find('_') {
        id.replace_range(at..=at, "");
        id[at..=at].make_ascii_uppercase();
    }
    id
}

/// Moves schemas out of the extensions that contain them. Schemas that responses refer to go into `components`, literal
/// ones to their places in the document.
fn move_schemas(value: &mut Value, components: &mut Map<String, Value>) {
    match value {
        Value::Object(object) => {
            if let Some(literal) = object.remove(LITERAL) {
                *value = literal;
                return move_schemas(value, components);
            }
            if let Some(Value::Object(mut moved)) = object.remove(COMPONENTS) {
                moved
                    .values_mut()
                    .for_each(|schema| move_schemas(schema, components));
                components.extend(moved);
            }
            object
                .values_mut()
                .for_each(|member| move_schemas(member, components));
        }
        Value::Array(elements) => elements
            .iter_mut()
            .for_each(|e| move_schemas(e, components)),
        _ => {}
    }
}

macro_rules! tags {
    ($($name:literal $description:literal: $($segment:literal)+;)+) => {
        /// The tags, each with its description and with the last segments of the paths of its operations.
        const TAGS: &[(&str, &str, &[&str])] = &[$(($name, $description, &[$($segment),+])),+];
    };
}

tags! {
    "sessions" "Conversations.": "sessions" "{session_id}" "close" "link";
    "turns" "Requests and their responses.": "turns" "{turn_id}" "stream" "finalize" "fail" "cancel" "redact" "replace";
    "items" "The journal's entries.": "items";
    "calls" "Live calls: one holder at a time, checkpoints, and resuming.": "lease" "checkpoints" "latest" "resume";
    "events" "What happened in a session, for key figures.": "events";
    "changes" "The feed of what happened in sessions, each session's changes in order.": "changes";
    "reading" "A conversation as a whole: context, export, verification.":
        "audit" "context" "export" "lineage" "search" "stats" "verify";
    "key figures" "How live calls of a tenant do, counted from events.": "kpi" "technical-status";
    "server" "The server itself.": "info" "healthz" "readyz" "metrics" "openapi.json";
}

/// Returns the parameters that a path contains.
fn path_parameters(path: &str) -> Vec<Value> {
    let mut all = vec![
        json!({
            "name": "session_id",
            "description": "The session; percent-encoded, so that an id may contain `/`.",
            "schema": reference("schemas", "SessionId"),
        }),
        json!({
            "name": "turn_id",
            "description": "The turn's id, as the response to its start returned it.",
            "schema": {"type": "string", "format": "uuid"},
        }),
        json!({
            "name": "tenant_id",
            "description": "The caller's own tenant; `default` where none is configured.",
            "schema": reference("schemas", "TenantId"),
            "example": "default",
        }),
    ];
    all.retain(|parameter| {
        let name = parameter["name"].as_str();
        name.is_some_and(|name| path.contains(name))
    });
    for parameter in &mut all {
        parameter["in"] = json!("path");
        parameter["required"] = json!(true);
    }
    all
}

/// Returns the header parameters that operations share (DESIGN §6, §8).
fn parameters() -> Value {
    let visible = r"^[!-~]([ -~]*[!-~])?$";
    json!({
        "Identity": {
            "name": "Filrouge-Identity",
            "in": "header",
            "description": "The end user on whose behalf a service calls; other characters as UTF-8.",
            "schema": {"type": "string", "minLength": 1, "maxLength": 256, "pattern": visible},
        },
        "SessionToken": {
            "name": "Filrouge-Session-Token",
            "in": "header",
            "description": "The secret of an anonymous session, where the server asks for one.",
            "schema": {"type": "string", "minLength": 16, "maxLength": 256, "pattern": "^[!-~]+$"},
        },
        "Fence": {
            "name": "Filrouge-Fence",
            "in": "header",
            "description": "The fence of the lease that holds the session; a fence in the body must be equal.",
            "schema": {"type": "integer", "minimum": 0, "maximum": u64::MAX},
        },
    })
}

/// Adds the id, the tag, authentication, shared parameters, examples and links to an operation.
fn complete_operation(operation: &mut Value, id: &str, path: &str, examples: &Value) {
    let segment = path.rsplit('/').next().unwrap_or_default();
    let tag = TAGS
        .iter()
        .find(|(.., segments)| segments.contains(&segment));
    operation["operationId"] = json!(id);
    operation["tags"] = tag.into_iter().map(|(name, ..)| *name).collect();
    let mut parameters = path_parameters(path);
    if let Some(Value::Array(own)) = operation.get_mut("parameters").map(Value::take) {
        parameters.extend(own);
    }
    parameters.iter_mut().for_each(remove_null);
    parameters.iter_mut().for_each(set_maximum);
    if PUBLIC.contains(&id) {
        operation["security"] = json!([]);
    } else {
        operation["security"] = json!([{"bearer": []}]);
        if id != "getMetrics" {
            let headers = ["Identity", "SessionToken"];
            parameters.extend(headers.map(|name| reference("parameters", name)));
            if problems::is_fenced(id) {
                parameters.push(reference("parameters", "Fence"));
            }
        }
    }
    operation["parameters"] = parameters.into();
    let examples_of_operation = &examples[id];
    if let Some(body) = operation.get_mut("requestBody") {
        for (media, content) in body["content"].as_object_mut().into_iter().flatten() {
            remove_null(content);
            match examples_of_operation.get("requests") {
                Some(named) => content["examples"] = named.clone(),
                None => {
                    content["example"] =
                        example_for(&examples_of_operation["request"], media).clone();
                }
            }
        }
    }
    complete_responses(&mut operation["responses"], examples_of_operation);
    add_links(id, &mut operation["responses"]);
}

pub(super) fn reference(kind: &str, name: &str) -> Value {
    json!({"$ref": format!("#/components/{kind}/{name}")})
}

/// Returns the example for a media type: a member of `example` if the names of its members are media types, otherwise
/// all of `example`.
fn example_for<'e>(example: &'e Value, media: &str) -> &'e Value {
    let mut names = example.as_object().into_iter().flat_map(Map::keys);
    if names.any(|name| name.contains('/')) {
        &example[media]
    } else {
        example
    }
}

fn complete_responses(responses: &mut Value, examples: &Value) {
    for (status, response) in responses.as_object_mut().into_iter().flatten() {
        response["headers"]["Filrouge-Request-Id"] = reference("headers", "RequestId");
        let example = &examples[status.as_str()];
        // A response without a body has no `content`.
        let contents = response.get_mut("content").and_then(Value::as_object_mut);
        for (media, content) in contents.into_iter().flatten() {
            let example = example_for(example, media);
            if content.get("example").is_none() && !example.is_null() {
                content["example"] = example.clone();
            }
        }
    }
}

/// Sets the maximum of an integer parameter that states none to the greatest number that the server accepts.
fn set_maximum(parameter: &mut Value) {
    if let Some(schema) = parameter.get_mut("schema")
        && schema["type"] == "integer"
        && schema.get("maximum").is_none()
    {
        schema["maximum"] = json!(u64::MAX);
    }
}

/// Removes `null` from the schema of a parameter or a body: a caller leaves out an optional value instead.
fn remove_null(parameter: &mut Value) {
    let Some(schema) = parameter.get_mut("schema") else {
        return;
    };
    let the_other = |values: &Value, is_null: fn(&Value) -> bool| {
        let all = values.as_array()?.iter().filter(|value| !is_null(value));
        let mut others: Vec<Value> = all.cloned().collect();
        if others.len() == 1 {
            others.pop()
        } else {
            None
        }
    };
    if let Some(kind) = the_other(&schema["type"], |kind| kind == "null") {
        schema["type"] = kind;
    }
    if let Some(mut schema_without_null) =
        the_other(&schema["oneOf"], |value| value["type"] == "null")
    {
        if let Some(description) = schema.get("description") {
            schema_without_null["description"] = description.clone();
        }
        *schema = schema_without_null;
    }
}
