//! Adds an entry to JSON text, with or without comments; nothing else in the text changes.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstObjectProp, CstRootNode};
use serde_json::Value;

use super::{Edit, NAME, Refused, existing_entry};

/// The entry that a file should have.
pub(super) struct Wanted<'a> {
    /// The member of the document that contains the servers.
    pub(super) section: &'static str,
    /// The command line with which an existing entry must begin to count as the same server. The user may have appended
    /// arguments.
    pub(super) runs: &'a [&'a str],
    /// The server's entry.
    pub(super) entry: Value,
    /// Whether the client accepts comments and trailing commas.
    pub(super) comments: bool,
    /// The first member of a new file.
    pub(super) head: Option<(&'static str, Value)>,
}

/// The byte order mark that some editors write.
const MARK: &str = "\u{feff}";

/// Computes the edit that adds the wanted entry to `text`.
pub(super) fn edit(text: &str, wanted: &Wanted<'_>) -> Result<Edit, Refused> {
    let marked = text.strip_prefix(MARK);
    let inner = marked.unwrap_or(text);
    if inner.trim().is_empty() {
        return Ok(Edit::Change(new_file(wanted)));
    }
    let root = read(inner, wanted.comments).map_err(|what| Refused {
        what,
        by_hand: None,
    })?;
    let by_hand = |what: String| Refused {
        what,
        by_hand: Some(wanted.lines()),
    };
    let not_object = |name: &str| by_hand(format!("{name} is no object"));
    let document = root
        .object_value()
        .ok_or_else(|| not_object("the document"))?;
    match unique_member(&document, wanted.section).map_err(by_hand)? {
        None => {
            let section = serde_json::json!({ NAME: wanted.entry });
            document.append(wanted.section, input(&section));
        }
        Some(section) => {
            let section = section.object_value();
            let section = section.ok_or_else(|| not_object(wanted.section))?;
            if let Some(entry) = unique_member(&section, NAME).map_err(by_hand)? {
                let name = format!("{}.{NAME}", wanted.section);
                let entry = entry.value().and_then(|value| value.to_serde_value());
                let entry = entry.unwrap_or_default();
                let is_off = entry["enabled"] == false;
                return existing_entry(&name, runs(&entry, wanted.runs), is_off).map_err(by_hand);
            }
            section.append(NAME, input(&wanted.entry));
        }
    }
    Ok(Edit::Change(format!(
        "{}{root}",
        marked.map_or("", |_| MARK)
    )))
}

/// Parses one document; the error names the line and column of the fault. `comments` says whether comments and trailing
/// commas are accepted.
fn read(text: &str, comments: bool) -> Result<CstRootNode, String> {
    if !comments {
        serde_json::from_str::<serde::de::IgnoredAny>(text).map_err(|why| {
            let (line, column, why) = (why.line(), why.column(), why.to_string());
            let what = why.split(" at line").next().unwrap_or_default();
            format!("line {line}, column {column}: {what}")
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
    CstRootNode::parse(text, &options).map_err(|why| {
        let (line, column) = (why.line_display(), why.column_display());
        format!("line {line}, column {column}: {}", why.kind())
    })
}

/// Converts a value for insertion.
fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(word) => CstInputValue::Bool(*word),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(values) => CstInputValue::Array(values.iter().map(input).collect()),
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(name, value)| (name.clone(), input(value)));
            CstInputValue::Object(members.collect())
        }
    }
}

impl Wanted<'_> {
    /// The lines to write by hand.
    fn lines(&self) -> String {
        format!(
            "{:#}",
            serde_json::json!({ self.section: { NAME: self.entry } })
        )
    }
}

fn new_file(wanted: &Wanted<'_>) -> String {
    let mut document = serde_json::Map::new();
    if let Some((name, value)) = &wanted.head {
        document.insert((*name).to_owned(), value.clone());
    }
    let section = serde_json::json!({ NAME: wanted.entry });
    document.insert(wanted.section.to_owned(), section);
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

/// Whether the command line of an entry begins with `wanted`. The arguments may be in `args`, or follow the program in
/// `command`.
fn runs(entry: &Value, wanted: &[&str]) -> bool {
    let words = |name: &str| match &entry[name] {
        Value::Array(words) => words.iter().map(Value::as_str).collect(),
        Value::Null => Vec::new(),
        word => vec![word.as_str()],
    };
    let command_line = [words("command"), words("args")].concat();
    let mut command_line = command_line.into_iter();
    wanted
        .iter()
        .all(|word| command_line.next() == Some(Some(word)))
}

#[cfg(test)]
mod tests;
