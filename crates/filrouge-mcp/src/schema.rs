//! The JSON Schemas of a tool's parameters and answer.

use std::sync::Arc;

use rmcp::model::JsonObject;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, transform::transform_subschemas};
use serde_json::{Value, json};

/// Returns the schema of a tool's parameters, without `$ref`. No type is "or null": a caller omits a parameter to give
/// no value.
pub(crate) fn arguments_schema<T: JsonSchema>() -> Arc<JsonObject> {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    remove_null(&mut schema);
    let mut object = schema.as_object().cloned().unwrap_or_default();
    object.remove("title");
    object.remove("description");
    object.entry("properties").or_insert_with(|| json!({}));
    Arc::new(object)
}

/// Returns the schema of a tool's serialized answer: the types of its members. What is inside them is not described,
/// because clients give every schema to their model with each question. Members that serialization may omit are not
/// required.
pub(crate) fn answer_schema<T: JsonSchema>() -> Arc<JsonObject> {
    let mut settings = SchemaSettings::draft2020_12().for_serialize();
    settings.inline_subschemas = true;
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let complete = schema.as_object().cloned().unwrap_or_default();
    let members = complete.get("properties").and_then(Value::as_object);
    let members = members.into_iter().flatten();
    let members: JsonObject = members
        .map(|(name, member)| (name.clone(), types_of(member)))
        .collect();
    let mut object = JsonObject::new();
    // Clients require this member in the schema.
    object.insert("type".to_owned(), "object".into());
    object.insert("properties".to_owned(), members.into());
    if let Some(required) = complete.get("required") {
        object.insert("required".to_owned(), required.clone());
    }
    Arc::new(object)
}

/// Returns a schema with only the type of `member`, or an `anyOf` of its types: some clients do not support lists of
/// types. A member whose schema names no type may have any.
fn types_of(member: &Value) -> Value {
    let types = match (member.get("type"), member.get("anyOf")) {
        (Some(Value::Array(types)), _) => Some(types.clone()),
        (Some(only), _) => Some(vec![only.clone()]),
        (None, Some(Value::Array(any))) => any.iter().map(|s| s.get("type").cloned()).collect(),
        (None, _) => None,
    };
    let types = types.unwrap_or_default();
    let mut types: Vec<Value> = types.iter().map(|kind| json!({ "type": kind })).collect();
    match types.len() {
        0 => json!({}),
        1 => types.remove(0),
        _ => json!({ "anyOf": types }),
    }
}

/// Removes the type "null", formats and default values.
fn remove_null(schema: &mut Schema) {
    transform_subschemas(&mut remove_null, schema);
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    object.remove("format");
    object.remove("default");
    if let Some(Value::Array(kinds)) = object.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [only] = kinds.as_slice() {
            let only = only.clone();
            object.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(kinds)) = object.get_mut("enum") {
        kinds.retain(|kind| !kind.is_null());
    }
    if let Some(Value::Array(any)) = object.get_mut("anyOf") {
        any.retain(|schema| schema.get("type").is_none_or(|kind| kind != "null"));
        if let [Value::Object(only)] = any.as_slice() {
            let only = only.clone();
            object.remove("anyOf");
            for (name, value) in only {
                object.entry(name).or_insert(value);
            }
        }
    }
}
