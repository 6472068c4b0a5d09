//! Parses the parameters of a tool call. Unknown parameters and values of a wrong type are refused; the error says what
//! the tool accepts.

use rmcp::model::JsonObject;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::refusal::{Refusal, Result};

/// Parses `arguments`, the parameters of a call of `tool`. `schema` is the JSON Schema of these parameters.
///
/// # Errors
/// [`Refusal`] with the code `unknown_parameter` or `invalid_argument`.
pub(crate) fn parse_arguments<T: DeserializeOwned>(
    tool: &str,
    schema: &JsonObject,
    arguments: JsonObject,
) -> Result<T> {
    let parameter_names: Vec<&str> = schema
        .get("properties")
        .and_then(Value::as_object)
        .map(|properties| properties.keys().map(String::as_str).collect())
        .unwrap_or_default();
    let is_unknown = |name: &&String| !parameter_names.contains(&name.as_str());
    if let Some(unknown) = arguments.keys().find(is_unknown) {
        let message = format!("{tool} has no parameter {unknown:?}");
        let hint = unknown_parameter_hint(tool, unknown, &parameter_names);
        return Err(Refusal::new("unknown_parameter", message, hint));
    }
    // A parameter with the value null counts as absent.
    let given = arguments.into_iter().filter(|(_, v)| !v.is_null());
    let arguments: JsonObject = given.collect();
    if let Some((name, why)) = first_fault(schema, &arguments) {
        let hint = invalid_value_hint(tool, schema, name, &parameter_names);
        return Err(Refusal::invalid(format!("{name}: {why}"), hint));
    }
    serde_path_to_error::deserialize(Value::Object(arguments)).map_err(|error| {
        let path = error.path().to_string();
        let cause = error.into_inner();
        let message = match path.as_str() {
            "." | "" => cause.to_string(),
            path => format!("{path}: {cause}"),
        };
        let hint = invalid_value_hint(tool, schema, &path, &parameter_names);
        Refusal::invalid(message, hint)
    })
}

/// Returns the first parameter that is missing, of another type than `schema` says, or none of its words, and what is
/// wrong with it. The parsers of numbers and times report their own faults.
fn first_fault<'s>(schema: &'s JsonObject, arguments: &JsonObject) -> Option<(&'s str, String)> {
    let required = schema.get("required").and_then(Value::as_array);
    let mut required = required.into_iter().flatten().filter_map(Value::as_str);
    if let Some(missing) = required.find(|name| !arguments.contains_key(*name)) {
        return Some((missing, "missing".to_owned()));
    }
    let properties = schema.get("properties")?.as_object()?;
    properties.iter().find_map(|(name, property)| {
        let value = arguments.get(name)?;
        let words = property.get("enum").and_then(Value::as_array);
        let expected = match (words, property.get("type").and_then(Value::as_str)) {
            (Some(words), _) if !words.contains(value) => {
                let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
                format!("one of {}", words.join(", "))
            }
            (None, Some("boolean")) if !value.is_boolean() => "true or false".to_owned(),
            (None, Some("string")) if !value.is_string() => "a string".to_owned(),
            _ => return None,
        };
        Some((name.as_str(), format!("{value} is not {expected}")))
    })
}

/// Returns the hint for an unknown parameter: first the known one that differs only in case, `_` or `-`, if there is
/// one, then all known ones.
fn unknown_parameter_hint(tool: &str, unknown: &str, parameter_names: &[&str]) -> String {
    let normalized = |name: &str| name.replace(['_', '-'], "").to_lowercase();
    let similar = parameter_names
        .iter()
        .find(|name| normalized(name) == normalized(unknown));
    let names = parameter_names.join(", ");
    match similar {
        Some(similar) => format!("did you mean {similar:?}? {tool} knows: {names}"),
        None => format!("{tool} knows: {names}"),
    }
}

/// Returns the hint for an invalid value: the description of the parameter at `path`, or all known parameters if it has
/// none.
fn invalid_value_hint(
    tool: &str,
    schema: &JsonObject,
    path: &str,
    parameter_names: &[&str],
) -> String {
    let name = path.split(['.', '[']).next().unwrap_or_default();
    let description = schema
        .get("properties")
        .and_then(|properties| properties.get(name)?.get("description")?.as_str());
    match description {
        Some(description) => format!("{name}: {description}"),
        None => format!("{tool} knows: {}", parameter_names.join(", ")),
    }
}
