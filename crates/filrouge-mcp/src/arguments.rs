//! Parses the parameters of a call: unknown ones and wrong types are refused, and the error lists the known ones.

use rmcp::model::JsonObject;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::refusal::Refusal;

/// Parses the parameters of `tool`, whose schema is `schema`.
///
/// # Errors
/// [`Refusal`] `unknown_parameter` or `invalid_argument`.
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
    // A null parameter counts as left out.
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

fn hint(tool: &str, unknown: &str, known: &[&str]) -> String {
    let plain = |name: &str| name.replace(['_', '-'], "").to_lowercase();
    let similar = known.iter().find(|name| plain(name) == plain(unknown));
    let all = known.join(", ");
    match similar {
        Some(similar) => format!("did you mean {similar:?}? {tool} knows: {all}"),
        None => format!("{tool} knows: {all}"),
    }
}

/// The expected value of a parameter: its description.
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
