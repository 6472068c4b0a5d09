//! The texts of parts, and JSON objects merged.

use filrouge_types::{JsonText, RawJson};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The text of parts: their `text` parts joined by line feeds; `None` when there is none. Of a member that stands
/// twice the last counts, as most JSON readers have it.
#[must_use]
pub fn text_of(parts: &RawJson) -> Option<JsonText> {
    let parts: Vec<Part> = serde_json::from_str(parts.as_str()).ok()?;
    let texts: Vec<JsonText> = parts.into_iter().filter_map(|p| p.text).collect();
    JsonText::join(&texts)
}

/// A part, if it is of type `text`.
struct Part {
    text: Option<JsonText>,
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PartVisitor)
    }
}

struct PartVisitor;

#[derive(serde::Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Member {
    Type,
    Text,
    #[serde(other)]
    Other,
}

impl<'de> Visitor<'de> for PartVisitor {
    type Value = Part;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a part")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Part, A::Error> {
        let (mut kind, mut text) = (None, None);
        while let Some(member) = map.next_key()? {
            match member {
                Member::Type => kind = Some(map.next_value::<&RawValue>()?.get()),
                Member::Text => text = Some(map.next_value::<&RawValue>()?.get()),
                Member::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let text = text.filter(|_| kind == Some("\"text\""));
        Ok(Part {
            text: text.and_then(|t| JsonText::from_raw(RawJson::from_checked(t)).ok()),
        })
    }
}

/// Two JSON objects, the second one's members over the first one's; `{}` when there is none.
#[must_use]
pub fn merged(first: Option<&RawJson>, second: Option<&RawJson>) -> RawJson {
    match (first, second) {
        (None, None) => RawJson::from_checked("{}"),
        (Some(one), None) | (None, Some(one)) => one.clone(),
        (Some(first), Some(second)) => filrouge_types::merge_objects(first, second),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_parts() {
        let text =
            |parts: &str| text_of(&RawJson::from_checked(parts)).map(|t| t.as_token().to_owned());
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
    }
}
