//! Reads the parts of an item, and their text.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::{ItemBody, JsonText, Members, RawJson};

/// One part with its members.
pub struct Part<'a> {
    /// The part as it was recorded.
    pub raw: &'a str,
    members: Members<'a>,
}

impl<'a> Part<'a> {
    /// Parses the parts of an item; elements that are not objects are left out.
    pub fn all(parts: &'a RawJson) -> Vec<Self> {
        let elements: Vec<&RawValue> = serde_json::from_str(parts.as_str()).unwrap_or_default();
        elements
            .into_iter()
            .filter_map(|raw| Self::read(raw.get()))
            .collect()
    }

    /// One part; `None` when it is not an object.
    pub fn read(raw: &'a str) -> Option<Self> {
        let members = Members::parse(raw)?;
        Some(Self { raw, members })
    }

    /// A string member, with its escapes resolved; `None` when it is absent or not a string.
    pub fn text(&self, name: &str) -> Option<String> {
        Some(self.token(name)?.to_plain())
    }

    fn token(&self, name: &str) -> Option<JsonText> {
        JsonText::from_raw(RawJson::from_checked(self.members.get(name)?)).ok()
    }

    /// A member as it was recorded; `None` when it is absent or `null`.
    pub fn value(&self, name: &str) -> Option<RawJson> {
        self.members.get(name).map(RawJson::from_checked)
    }

    /// A boolean member; `None` when it is absent or not a boolean.
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.members.get(name)?.parse().ok()
    }

    /// Whether the part has this type.
    pub fn is(&self, kind: &str) -> bool {
        let token = self.members.get("type").unwrap_or_default();
        let inner = token.strip_prefix('"').and_then(|t| t.strip_suffix('"'));
        inner == Some(kind) || token.contains('\\') && self.text("type").as_deref() == Some(kind)
    }

    /// A readable form of the part, for lists and diagnoses. A `text` or `refusal` is shown as its text. A call, result
    /// or error is shown by its main members. A part of any other type is shown as the type in brackets, followed by
    /// the part's text, or by members such as its name.
    pub fn display_text(&self) -> String {
        let kind = self.text("type").unwrap_or_default();
        let member_text = |name: &&str| {
            let json = || self.value(name).map(|json| on_one_line(json.as_str()));
            self.text(name).or_else(json)
        };
        let join = |names: &[&str], between| {
            let texts: Vec<String> = names.iter().filter_map(member_text).collect();
            texts.join(between)
        };
        match kind.as_str() {
            "text" => join(&["text"], ""),
            "refusal" => join(&["refusal"], ""),
            "tool_call" => join(&["name", "args"], " "),
            "tool_result" => ["content", "error"]
                .iter()
                .find_map(member_text)
                .unwrap_or_default(),
            "error" => join(&["code", "message"], ": "),
            "tool_call_partial" => with_kind(&kind, &join(&["name", "args"], " ")),
            _ => {
                let text = self.text("text");
                let names = join(&["status", "filename", "name", "url", "reason"], " ");
                with_kind(&kind, &text.unwrap_or(names))
            }
        }
    }
}

/// The JSON on one line; unchanged if it cannot be parsed.
fn on_one_line(json: &str) -> String {
    serde_json::from_str::<Value>(json).map_or_else(|_| json.to_owned(), |value| value.to_string())
}

/// The type in brackets, followed by the text if there is one.
fn with_kind(kind: &str, text: &str) -> String {
    format!("[{kind}] {text}").trim_end().to_owned()
}

impl ItemBody {
    /// The *text* of the item in the sense of the glossary: the texts of its `text` parts, joined by line feeds. `None`
    /// if the item has no such part.
    pub fn text(&self) -> Option<JsonText> {
        self.text_and_rest().map(|(text, _)| text)
    }

    /// The text of [`Self::text`], and whether the item also has other parts: parts of another type, or a `text` part
    /// without a text.
    pub fn text_and_rest(&self) -> Option<(JsonText, bool)> {
        let parts: Vec<Members<'_>> = serde_json::from_str(self.parts.as_str()).ok()?;
        let text_parts = parts
            .iter()
            .filter(|part| part.get("type") == Some(r#""text""#));
        let values = text_parts.filter_map(|part| part.get("text").map(RawJson::from_checked));
        let texts: Vec<JsonText> = values
            .filter_map(|text| JsonText::from_raw(text).ok())
            .collect();
        Some((JsonText::join(&texts)?, texts.len() < parts.len()))
    }

    /// The display texts of all parts ([`Part::display_text`]) in order, joined by spaces. Unlike [`Self::text`], this
    /// text includes calls, results, errors and parts of unknown types.
    pub fn display_text(&self) -> String {
        let texts: Vec<String> = Part::all(&self.parts)
            .iter()
            .map(Part::display_text)
            .collect();
        texts.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Channel, Role};

    fn display_text(parts: &str) -> String {
        let parts = RawJson::from_checked(parts);
        ItemBody::new(Role::Tool, Channel::ToolResult, parts).display_text()
    }

    #[test]
    fn every_part_has_a_text() {
        for (part, text) in [
            (r#"{"type":"text","text":"caf\u00e9"}"#, "café"),
            (
                r#"{"type":"tool_call","name":"f","args":{"b": 2, "a": 1}}"#,
                r#"f {"a":1,"b":2}"#,
            ),
            (
                r#"{"type":"tool_result","content":["x"],"error":"y"}"#,
                r#"["x"]"#,
            ),
            (
                r#"{"type":"tool_result","ok":false,"error":"no such file"}"#,
                "no such file",
            ),
            (
                r#"{"type":"tool_result","content":null,"error":"late"}"#,
                "late",
            ),
            (r#"{"type":"error","code":"c","message":"m"}"#, "c: m"),
            (r#"{"type":"refusal","refusal":"no"}"#, "no"),
            (r#"{"type":"reasoning","text":"hm"}"#, "[reasoning] hm"),
            (r#"{"type":"odd","text":7}"#, "[odd]"),
            (r#"{"type":"file","filename":"a.txt"}"#, "[file] a.txt"),
            (r#"{"type":"hologram"}"#, "[hologram]"),
        ] {
            assert_eq!(display_text(&format!("[{part}]")), text);
        }
        assert_eq!(
            display_text(r#"[{"type":"text","text":"a"},7,{"type":"text","text":"b"}]"#),
            "a b"
        );
    }

    #[test]
    fn the_text_of_an_item_joins_its_text_parts() {
        let item = |parts: &str| {
            ItemBody::new(Role::User, Channel::Question, RawJson::from_checked(parts))
        };
        let text = |parts: &str| item(parts).text().map(|t| t.as_token().to_owned());
        let parts = r#"[{"type":"text","text":"a","x":{}},{"type":"image_url","text":"no"},{"text":"b","type":"text"}]"#;
        assert_eq!(text(parts).as_deref(), Some(r#""a\nb""#));
        assert_eq!(
            text(r#"[{"type":"text","text":"a","text":"b"}]"#).as_deref(),
            Some(r#""b""#)
        );
        assert_eq!(
            text(r#"[{"type":"text","text":"\ud800"}]"#).as_deref(),
            Some(r#""\ud800""#)
        );
        assert_eq!(text(r#"[{"type":"text","text":1}]"#), None);
        assert_eq!(text("[]"), None);
        for (parts, rest) in [
            (
                r#"[{"type":"text","text":"a"},{"type":"text","text":"b"}]"#,
                false,
            ),
            (r#"[{"type":"text","text":"a"},{"type":"text"}]"#, true),
            (
                r#"[{"type":"text","text":"a"},{"type":"image","text":"b"}]"#,
                true,
            ),
        ] {
            let read = item(parts).text_and_rest();
            assert_eq!(read.map(|(_, rest)| rest), Some(rest), "{parts}");
        }
    }
}
