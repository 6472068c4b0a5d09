//! The texts of parts, and JSON objects merged.

use filrouge_types::{JsonText, Members, RawJson};

/// The text of parts: their `text` parts joined by line feeds; `None` when there is none. Of a member that stands
/// twice the last counts, as most JSON readers have it.
#[must_use]
pub fn text_of(parts: &RawJson) -> Option<JsonText> {
    let parts: Vec<Members<'_>> = serde_json::from_str(parts.as_str()).ok()?;
    let texts = parts
        .iter()
        .filter(|part| part.get("type") == Some("\"text\""));
    let texts =
        texts.filter_map(|part| JsonText::from_raw(RawJson::from_checked(part.get("text")?)).ok());
    JsonText::join(&texts.collect::<Vec<_>>())
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
