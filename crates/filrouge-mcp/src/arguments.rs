//! Parses the parameters of a tool call. Unknown parameters and values of a wrong type are refused; the error says what
//! the tool accepts.

use rmcp::model::JsonObject;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::refusal::Refusal;

/// Parses `arguments`, the parameters of a call of `tool`. `schema` is the JSON Schema of these parameters.
///
/// # Errors
/// [`Refusal`] with the code `unknown_parameter` or `invalid_argument`.
pub(crate) fn parse_arguments<T: DeserializeOwned>(
    tool: &str,
    schema: &JsonObject,
    arguments: JsonObject,
) -> Result<T, Refusal> {
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
