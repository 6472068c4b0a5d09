//! The document as one HTML page, without scripts and without requests.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;

/// The only style sheet of the page.
pub(crate) const STYLE: &str = include_str!("page.css");

/// Writes the page of a document.
pub(crate) fn page(document: &Value) -> String {
    let info = &document["info"];
    let version = text(&info["version"]);
    let tags = document["tags"].as_array();
    let schemas = document["components"]["schemas"].as_object();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "filrouge " (version) ": reference" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { "filrouge " (version) }
                    (prose(text(&info["description"])))
                    p { "The same as an OpenAPI document: " a href="/openapi.json" { "/openapi.json" } "." }
                }
                nav aria-label="Operations" {
                    @for tag in tags.into_iter().flatten() { (contents(document, tag)) }
                }
                main {
                    @for tag in tags.into_iter().flatten() {
                        h2 { (text(&tag["name"])) }
                        (prose(text(&tag["description"])))
                        @for (method, path, operation) in operations(document, tag) {
                            (section(document, method, path, operation))
                        }
                    }
                    h2 { "schemas" }
                    @for (name, schema) in schemas.into_iter().flatten() {
                        section id={ "schema-" (name) } {
                            h3 { (name) }
                            (prose(text(&schema["description"])))
                            @if schema["properties"].is_null() && schema["allOf"].is_null() {
                                p { (kind(schema)) }
                            }
                            (members(schema))
                        }
                    }
                }
            }
        }
    };
    page.into_string()
}

/// The operations with a tag: method, path and definition.
fn operations<'d>(document: &'d Value, tag: &Value) -> Vec<(&'d str, &'d str, &'d Value)> {
    let paths = document["paths"].as_object().into_iter().flatten();
    let all = paths.flat_map(|(path, item)| {
        let methods = item.as_object().into_iter().flatten();
        methods.map(move |(method, operation)| (method.as_str(), path.as_str(), operation))
    });
    all.filter(|(.., operation)| operation["tags"][0] == tag["name"])
        .collect()
}

fn contents(document: &Value, tag: &Value) -> Markup {
    html! {
        details open {
            summary { (text(&tag["name"])) }
            ul {
                @for (.., operation) in operations(document, tag) {
                    @let id = text(&operation["operationId"]);
                    li { a href={ "#" (id) } { (id) } }
                }
            }
        }
    }
}

fn section(document: &Value, method: &str, path: &str, operation: &Value) -> Markup {
    let parameters = operation["parameters"].as_array();
    let parameters = parameters.into_iter().flatten();
    let parameters: Vec<&Value> = parameters.map(|one| resolved(document, one)).collect();
    let responses = operation["responses"].as_object();
    html! {
        section id=(text(&operation["operationId"])) {
            h3 { code { (method.to_uppercase()) " " (path) } }
            p { strong { (inline(text(&operation["summary"]))) } }
            (prose(text(&operation["description"])))
            @if !parameters.is_empty() {
                h4 { "Parameters" }
                table {
                    @for parameter in parameters {
                        tr {
                            td {
                                code { (text(&parameter["name"])) } " in " (text(&parameter["in"]))
                                @if parameter["required"] == true { ", required" }
                            }
                            td { (kind(&parameter["schema"])) }
                            td { (prose(text(&parameter["description"]))) }
                        }
                    }
                }
            }
            @if let Some(body) = operation.get("requestBody") {
                h4 { "Body" }
                (bodies(body))
            }
            h4 { "Responses" }
            table {
                @for (status, response) in responses.into_iter().flatten() {
                    @let response = resolved(document, response);
                    tr {
                        td { (status) }
                        td { (bodies(response)) (codes(response)) }
                        td { (prose(text(&response["description"]))) }
                    }
                }
            }
        }
    }
}

/// The media types of a body, each with the type of its content.
fn bodies(body: &Value) -> Markup {
    let contents = body["content"].as_object();
    html! {
        @for (media, content) in contents.into_iter().flatten() {
            p { (kind(&content["schema"])) " as " code { (media) } }
        }
    }
}

fn codes(response: &Value) -> Markup {
    let codes = response[super::problems::CODES].as_array();
    html! {
        @for code in codes.into_iter().flatten() { code { (text(code)) } " " }
    }
}

/// The table of an object's members, and of those of the schemas of which it is composed.
fn members(schema: &Value) -> Markup {
    let required = schema["required"].as_array();
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|n| n == name));
    let parts = schema["allOf"].as_array();
    html! {
        @for part in parts.into_iter().flatten() {
            @if !part["$ref"].is_null() { p { "All of " (kind(part)) ", and:" } }
            (members(part))
        }
        @if let Some(members) = schema["properties"].as_object() {
            table {
                @for (name, member) in members {
                    tr {
                        td { code { (name) } @if is_required(name) { ", required" } }
                        td { (kind(member)) }
                        td { (prose(member_description(member))) }
                    }
                }
            }
        }
    }
}

/// The description of a member; that of one that may be `null` can be in the first of its alternatives.
fn member_description(member: &Value) -> &str {
    match text(&member["description"]) {
        "" => text(&member["oneOf"][0]["description"]),
        own => own,
    }
}

/// The type that a schema describes, with links to named schemas.
fn kind(schema: &Value) -> Markup {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or_default();
        return html! { a href={ "#schema-" (name) } { (name) } };
    }
    for (keyword, word) in [("oneOf", " or "), ("anyOf", " or "), ("allOf", " and ")] {
        if let Some(parts) = schema[keyword].as_array() {
            return html! {
                @for (n, part) in parts.iter().enumerate() {
                    @if n > 0 { (word) }
                    (kind(part))
                }
            };
        }
    }
    let names = match &schema["type"] {
        Value::Array(names) => names.iter().map(text).collect(),
        name => vec![text(name)],
    };
    let words = schema["enum"].as_array();
    html! {
        @for (n, name) in names.iter().enumerate() {
            @if n > 0 { " or " }
            @match *name {
                "" => { "any value" }
                "array" => { "array of " (kind(&schema["items"])) }
                name => { (name) }
            }
        }
        @for (n, word) in words.into_iter().flatten().enumerate() {
            @if n > 0 { ", " } @else { ": " }
            code { (text(word)) }
        }
    }
}

/// The value, or what it refers to.
fn resolved<'d>(document: &'d Value, value: &'d Value) -> &'d Value {
    let pointer = value["$ref"].as_str();
    let pointer = pointer.and_then(|reference| reference.strip_prefix('#'));
    let target = pointer.and_then(|pointer| document.pointer(pointer));
    target.unwrap_or(value)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Paragraphs and lists.
fn prose(text: &str) -> Markup {
    html! {
        @for block in text.split("\n\n").filter(|block| !block.is_empty()) {
            @match block.strip_prefix("- ") {
                Some(list) => { ul { @for entry in list.split("\n- ") { li { (inline(entry)) } } } }
                None => { p { (inline(block)) } }
            }
        }
    }
}

/// A text with code between backticks.
fn inline(text: &str) -> Markup {
    html! {
        @for (n, piece) in text.split('`').enumerate() {
            @if n % 2 == 1 { code { (piece) } } @else { (piece) }
        }
    }
}
