//! An entry in JSON, with or without comments: put into the text, of which nothing else changes.

mod read;

use serde_json::Value;

use super::{Edit, NAME, Refused, compared};
use read::{Node, read};

/// What is to be in a file.
pub(super) struct Wanted<'a> {
    /// The member of the document that holds servers.
    pub(super) section: &'static str,
    /// What the entry runs; more behind it is the user's own.
    pub(super) runs: &'a [&'a str],
    /// The server's entry.
    pub(super) entry: Value,
    /// Whether the file's program reads comments and commas behind the last member.
    pub(super) comments: bool,
    /// What a new file begins with.
    pub(super) head: Option<(&'static str, Value)>,
}

/// What is to become of `text`.
pub(super) fn edit(text: &str, wanted: &Wanted<'_>) -> Result<Edit, Refused> {
    if text.trim_start_matches('\u{feff}').trim().is_empty() {
        return Ok(Edit::Change(new_file(wanted)));
    }
    let document = read(text, wanted.comments).map_err(|what| Refused {
        what,
        by_hand: None,
    })?;
    let by_hand = |what: String| Refused {
        what,
        by_hand: Some(wanted.lines()),
    };
    let not_object = |name: &str| by_hand(format!("{name} is no object"));
    if !document.is_object() {
        return Err(not_object("the document"));
    }
    let section = one(&document, wanted.section).map_err(by_hand)?;
    let new = match section {
        None => {
            let section = serde_json::json!({ NAME: wanted.entry });
            put(text, &document, wanted.section, &section)
        }
        Some(section) if !section.is_object() => return Err(not_object(wanted.section)),
        Some(section) => match one(section, NAME).map_err(by_hand)? {
            None => put(text, section, NAME, &wanted.entry),
            Some(entry) => {
                let place = format!("{}.{NAME}", wanted.section);
                let entry = entry.value(text).unwrap_or_default();
                let is_off = entry["enabled"] == false;
                return compared(&place, runs(&entry, wanted.runs), is_off).map_err(by_hand);
            }
        },
    };
    // What was written has to read as it was meant.
    let entry = read(&new, wanted.comments).ok().and_then(|document| {
        let section = one(&document, wanted.section).ok()??;
        one(section, NAME).ok()??.value(&new)
    });
    if entry.as_ref() == Some(&wanted.entry) {
        Ok(Edit::Change(new))
    } else {
        Err(by_hand("the entry finds no place in it".to_owned()))
    }
}

impl Wanted<'_> {
    /// What to write by hand.
    fn lines(&self) -> String {
        let section = serde_json::json!({ self.section: { NAME: self.entry } });
        pretty(&section, "", "  ", "\n")
    }
}

fn new_file(wanted: &Wanted<'_>) -> String {
    let mut document = serde_json::Map::new();
    if let Some((name, value)) = &wanted.head {
        document.insert((*name).to_owned(), value.clone());
    }
    let section = serde_json::json!({ NAME: wanted.entry });
    document.insert(wanted.section.to_owned(), section);
    pretty(&Value::Object(document), "", "  ", "\n") + "\n"
}

/// The member of a name; programs differ in which of two they take.
fn one<'a>(object: &'a Node, name: &str) -> Result<Option<&'a Node>, String> {
    let mut found = object.members.iter().filter(|member| member.name == name);
    match (found.next(), found.next()) {
        (_, Some(_)) => Err(format!("{name} stands in it twice")),
        (member, None) => Ok(member.map(|member| &member.node)),
    }
}

/// The text with a member more at the end of `object`.
fn put(text: &str, object: &Node, name: &str, value: &Value) -> String {
    let close = object.end - 1;
    let inside = &text[..close];
    // Behind whatever stands last in it, comments too.
    let at = inside.trim_end().len();
    let outer = line_indent(text, object.start);
    let indent = match object.members.first() {
        Some(first) if inside[object.start..first.start].contains('\n') => {
            line_indent(text, first.start).to_owned()
        }
        _ => format!("{outer}{}", unit(text)),
    };
    let line_end = line_end(text);
    let value = pretty(value, &indent, unit(text), line_end);
    let name = Value::from(name);
    let mut new = String::with_capacity(text.len() + value.len() + 64);
    let comma_at = object.members.last().map(|last| last.node.end);
    match comma_at.filter(|_| !object.trailing_comma) {
        Some(end) => {
            new.push_str(&text[..end]);
            new.push(',');
            new.push_str(&text[end..at]);
        }
        None => new.push_str(&text[..at]),
    }
    new.push_str(&format!("{line_end}{indent}{name}: {value}"));
    if object.trailing_comma {
        new.push(',');
    }
    if !text[at..close].contains('\n') {
        new.push_str(line_end);
        new.push_str(outer);
    } else {
        new.push_str(&text[at..close]);
    }
    new.push_str(&text[close..]);
    new
}

/// Whether an entry runs this, its arguments beside the command or within it.
fn runs(entry: &Value, wanted: &[&str]) -> bool {
    let words = |name: &str| match &entry[name] {
        Value::Array(words) => words.iter().map(Value::as_str).collect(),
        Value::Null => Vec::new(),
        word => vec![word.as_str()],
    };
    let whole = [words("command"), words("args")].concat();
    let mut whole = whole.into_iter();
    wanted.iter().all(|word| whole.next() == Some(Some(word)))
}

/// The white space that the line of a place begins with.
fn line_indent(text: &str, at: usize) -> &str {
    let line = &text[text[..at].rfind('\n').map_or(0, |feed| feed + 1)..];
    let rest = line.trim_start_matches([' ', '\t']);
    &line[..line.len() - rest.len()]
}

/// What the file's lines are indented with.
fn unit(text: &str) -> &'static str {
    let indented = text.lines().find(|line| line.starts_with([' ', '\t']));
    match indented {
        Some(line) if line.starts_with('\t') => "\t",
        Some(line) if line.starts_with("    ") => "    ",
        _ => "  ",
    }
}

fn line_end(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// A value over several lines, all but the first behind `indent`.
fn pretty(value: &Value, indent: &str, unit: &str, line_end: &str) -> String {
    let mut out = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(unit.as_bytes());
    let mut writer = serde_json::Serializer::with_formatter(&mut out, formatter);
    if serde::Serialize::serialize(value, &mut writer).is_err() {
        // Values have texts for keys and are written to memory.
        return value.to_string();
    }
    let text = String::from_utf8_lossy(&out);
    text.replace('\n', &format!("{line_end}{indent}"))
}

#[cfg(test)]
mod tests;
