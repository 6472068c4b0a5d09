//! What is refused before a ledger is asked: limits and shapes (DESIGN §3, §8).

use filrouge_store::rules::TURN_ITEMS_MAX;
use filrouge_types::{ErrorCode, Failure, JsonText, NewItem, Object, RawJson};
use serde::Deserialize;

/// Upper bounds, all of them configurable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one item: content, usage and metadata.
    pub item_bytes: usize,
    /// Bytes of a title, an agent's or a model's name, and the like.
    pub label_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            item_bytes: 16 << 20,
            label_bytes: 4096,
        }
    }
}

fn invalid(detail: String) -> Failure {
    Failure::new(ErrorCode::Invalid, detail)
}

#[derive(Deserialize)]
struct PartShape {
    #[serde(rename = "type")]
    kind: Box<str>,
}

impl Limits {
    /// Items that one turn can hold, each of them within the limits.
    pub(crate) fn items(&self, items: &[NewItem]) -> Result<(), Failure> {
        if items.len() as u64 > TURN_ITEMS_MAX {
            return Err(Failure::new(
                ErrorCode::LimitExceeded,
                format!("a turn has at most {TURN_ITEMS_MAX} items, these are more"),
            ));
        }
        items
            .iter()
            .enumerate()
            .try_for_each(|(index, item)| self.item(item, index))
    }

    /// An item whose parts are an array of objects with a `type`, within the limits.
    pub(crate) fn item(&self, item: &NewItem, index: usize) -> Result<(), Failure> {
        let parts: Result<Vec<Object<PartShape>>, _> = serde_json::from_str(item.parts.as_str());
        match parts {
            Ok(parts) if parts.iter().all(|p| !p.0.kind.is_empty()) => {}
            Ok(_) => {
                return Err(invalid(format!(
                    "items[{index}].parts: a part's type is empty"
                )));
            }
            Err(e) => {
                return Err(invalid(format!("items[{index}].parts: {e}"))
                    .with_hint(r#"parts is an array of objects with a "type", such as [{"type":"text","text":"…"}]"#));
            }
        }
        self.object(item.metadata.as_ref(), &format!("items[{index}].metadata"))?;
        self.object(item.usage.as_ref(), &format!("items[{index}].usage"))?;
        self.label(item.agent.as_deref(), "agent")?;
        self.label(item.model.as_deref(), "model")?;
        let optional = |json: &Option<RawJson>| json.as_ref().map_or(0, |j| j.as_str().len());
        let bytes = item.parts.as_str().len() + optional(&item.metadata) + optional(&item.usage);
        self.size(bytes, &format!("items[{index}]"))
    }

    pub(crate) fn label(&self, text: Option<&str>, field: &str) -> Result<(), Failure> {
        match text {
            Some(t) if t.len() > self.label_bytes => Err(Failure::new(
                ErrorCode::LimitExceeded,
                format!(
                    "{field} has {} bytes, at most {} are allowed",
                    t.len(),
                    self.label_bytes
                ),
            )),
            Some(t) if t.contains('\0') => Err(invalid(format!("{field} must not hold NUL"))),
            _ => Ok(()),
        }
    }

    /// A JSON object of a bounded size, or nothing.
    pub(crate) fn object(&self, json: Option<&RawJson>, field: &str) -> Result<(), Failure> {
        match json {
            Some(json) if !json.is_object() => {
                Err(invalid(format!("{field} must be a JSON object")))
            }
            Some(json) => self.size(json.as_str().len(), field),
            None => Ok(()),
        }
    }

    /// A text of a bounded size, or nothing.
    pub(crate) fn text(&self, text: Option<&JsonText>, field: &str) -> Result<(), Failure> {
        self.size(text.map_or(0, |t| t.as_token().len()), field)
    }

    fn size(&self, bytes: usize, field: &str) -> Result<(), Failure> {
        if bytes <= self.item_bytes {
            return Ok(());
        }
        let detail = format!(
            "{field} has {bytes} bytes, at most {} are allowed",
            self.item_bytes
        );
        Err(Failure::new(ErrorCode::LimitExceeded, detail)
            .with_hint("store large content elsewhere and refer to it by a file or link part"))
    }
}
