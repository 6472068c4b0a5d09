//! Adds an entry to JSON text, with or without comments; nothing else in the text changes.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstObjectProp, CstRootNode};
use serde_json::Value;

use super::{Edit, NAME, RefusedEdit, existing_entry};

/// The entry that a file should have.
pub(super) struct ExpectedEntry<'a> {
    /// The member of the document that contains the servers.
    pub(super) section: &'static str,
    /// The start of the command line of an existing entry that runs this server. The user may have appended arguments.
    pub(super) command_line: &'a [&'a str],
    /// The server's entry.
    pub(super) entry: Value,
    /// Whether the client accepts comments and trailing commas.
    pub(super) allow_comments: bool,
    /// The first member of a new file.
    pub(super) first_member: Option<(&'static str, Value)>,
}

/// The byte order mark that some editors write.
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// Computes the edit that adds the wanted entry to `text`.
pub(super) fn edit(text: &str, expected: &ExpectedEntry<'_>) -> Result<Edit, RefusedEdit> {
    let without_mark = text.strip_prefix(BYTE_ORDER_MARK);
    let document_text = without_mark.unwrap_or(text);
    if document_text.trim().is_empty() {
        return Ok(Some(new_file(expected)));
    }
    let root = parse(document_text, expected.allow_comments).map_err(|reason| RefusedEdit {
        reason,
        by_hand: None,
    })?;
    let by_hand = |reason: String| RefusedEdit {
        reason,
        by_hand: Some(format!(
            "{:#}",
            serde_json::json!({ expected.section: { NAME: expected.entry } })
        )),
    };
    let not_object = |name: &str| by_hand(format!("{name} is no object"));
    let document = root
        .object_value()
        .ok_or_else(|| not_object("the document"))?;
    match unique_member(&document, expected.section).map_err(by_hand)? {
        None => {
            let section = serde_json::json!({ NAME: expected.entry });
            document.append(expected.section, to_cst(&section));
        }
        Some(section) => {
            let section = section.object_value();
            let section = section.ok_or_else(|| not_object(expected.section))?;
            if let Some(entry) = unique_member(&section, NAME).map_err(by_hand)? {
                let name = format!("{}.{NAME}", expected.section);
                let entry = entry.value().and_then(|value| value.to_serde_value());
                let entry = entry.unwrap_or_default();
                let is_same = starts_with_command_line(&entry, expected.command_line);
                let is_disabled = entry["enabled"] == false;
                return existing_entry(&name, is_same, is_disabled).map_err(by_hand);
            }
            section.append(NAME, to_cst(&expected.entry));
        }
    }
    let mark = without_mark.map_or("", |_| BYTE_ORDER_MARK);
    Ok(Some(format!("{mark}{root}")))
}

/// Parses one document. The error names the line and column of the fault. `allow_comments` also allows trailing commas.
fn parse(text: &str, allow_comments: bool) -> Result<CstRootNode, String> {
    if !allow_comments {
        serde_json::from_str::<serde::de::IgnoredAny>(text).map_err(|error| {
            let (line, column, error) = (error.line(), error.column(), error.to_string());
            let message = error.split(" at line").next().unwrap_or_default();
            format!("line {line}, column {column}: {message}")
        })?;
    }
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    CstRootNode::parse(text, &options).map_err(|error| {
        let (line, column) = (error.line_display(), error.column_display());
        format!("line {line}, column {column}: {}", error.kind())
    })
}

/// Converts a value to the type that the editor inserts.
fn to_cst(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(values) => CstInputValue::Array(values.iter().map(to_cst).collect()),
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(name, value)| (name.clone(), to_cst(value)));
            CstInputValue::Object(members.collect())
        }
    }
}

fn new_file(expected: &ExpectedEntry<'_>) -> String {
    let mut document = serde_json::Map::new();
    if let Some((name, value)) = &expected.first_member {
        document.insert((*name).to_owned(), value.clone());
    }
    let section = serde_json::json!({ NAME: expected.entry });
    document.insert(expected.section.to_owned(), section);
    format!("{:#}\n", Value::Object(document))
}

/// The member with this name; `None` if there is none. Two members with this name are refused: programs differ in which
/// of the two they read.
fn unique_member(object: &CstObject, name: &str) -> Result<Option<CstObjectProp>, String> {
    let members = object.properties().into_iter();
    let mut named = members.filter(|member| member.decoded_name().as_deref() == Some(name));
    match (named.next(), named.next()) {
        (_, Some(_)) => Err(format!("{name} is in the file twice")),
        (member, None) => Ok(member),
    }
}

/// Whether the command line of an entry begins with `expected`. The arguments may be in `args`, or follow the program
/// in `command`.
fn starts_with_command_line(entry: &Value, expected: &[&str]) -> bool {
    let member_words = |name: &str| match &entry[name] {
        Value::Array(words) => words.iter().map(Value::as_str).collect(),
        Value::Null => Vec::new(),
        word => vec![word.as_str()],
    };
    let command_line = [member_words("command"), member_words("args")].concat();
    let mut command_line = command_line.into_iter();
    expected
        .iter()
        .all(|word| command_line.next() == Some(Some(word)))
}

#[cfg(test)]
mod tests;
