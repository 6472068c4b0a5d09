//! Parses the parameters of a tool call. Unknown parameters and values of a wrong type are refused; the error says what
//! the tool accepts.

use rmcp::model::JsonObject;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::refusal::Refusal;

/// Parses `given`, the parameters of a call of `tool`. `schema` is the JSON Schema of these parameters.
///
/// # Errors
/// [`Refusal`] with the code `unknown_parameter` or `invalid_argument`.
pub(crate) fn read<T: DeserializeOwned>(
    tool: &str,
    schema: &JsonObject,
    given: JsonObject,
) -> Result<T, Refusal> {
    let known: Vec<&str> = schema
        .get("properties")
        .and_then(Value::as_object)
        .map(|all| all.keys().map(String::as_str).collect())
        .unwrap_or_default();
    if let Some(unknown) = given.keys().find(|name| !known.contains(&name.as_str())) {
        let message = format!("{tool} has no parameter {unknown:?}");
        return Err(Refusal::new(
            "unknown_parameter",
            message,
            hint(tool, unknown, &known),
        ));
    }
    // A parameter with the value null counts as absent.
    let given: JsonObject = given.into_iter().filter(|(_, v)| !v.is_null()).collect();
    serde_path_to_error::deserialize(Value::Object(given)).map_err(|error| {
        let path = error.path().to_string();
        let why = error.into_inner();
        let message = match path.as_str() {
            "." | "" => why.to_string(),
            path => format!("{path}: {why}"),
        };
        Refusal::invalid(message, expected(tool, schema, &path, &known))
    })
}

/// The hint for an unknown parameter: all known ones and, if one differs only in case, `_` or `-`, that one first.
fn hint(tool: &str, unknown: &str, known: &[&str]) -> String {
    let plain = |name: &str| name.replace(['_', '-'], "").to_lowercase();
    let similar = known.iter().find(|name| plain(name) == plain(unknown));
    let all = known.join(", ");
    match similar {
        Some(similar) => format!("did you mean {similar:?}? {tool} knows: {all}"),
        None => format!("{tool} knows: {all}"),
    }
}

/// The hint for an invalid value: the description of the parameter at `path`, or all known parameters if it has none.
fn expected(tool: &str, schema: &JsonObject, path: &str, known: &[&str]) -> String {
    let name = path.split(['.', '[']).next().unwrap_or_default();
    let described = schema
        .get("properties")
        .and_then(|all| all.get(name)?.get("description")?.as_str());
    match described {
        Some(description) => format!("{name}: {description}"),
        None => format!("{tool} knows: {}", known.join(", ")),
    }
}
