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

/// Returns the schema of a tool's serialized answer. Members that serialization may omit are not required.
pub(crate) fn answer_schema<T: JsonSchema>() -> Arc<JsonObject> {
    let mut settings = SchemaSettings::draft2020_12().for_serialize();
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    make_portable(&mut schema);
    let mut object = schema.as_object().cloned().unwrap_or_default();
    // Clients require this member in the schema.
    object.insert("type".to_owned(), "object".into());
    Arc::new(object)
}

/// Replaces each list of types by an `anyOf` of single types, and removes formats. Some clients support neither lists
/// of types nor Rust's number formats.
fn make_portable(schema: &mut Schema) {
    transform_subschemas(&mut make_portable, schema);
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    object.remove("format");
    if let Some(Value::Array(kinds)) = object.get("type") {
        let any = kinds.iter().map(|kind| json!({ "type": kind })).collect();
        object.remove("type");
        object.insert("anyOf".to_owned(), Value::Array(any));
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
