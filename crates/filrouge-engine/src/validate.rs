//! What is refused before a ledger is asked: limits and shapes (DESIGN §3, §8).

use filrouge_store::rules::TURN_ITEMS_MAX;
use filrouge_types::{ErrorCode, Failure, JsonText, NewItem, Object, RawJson};
use serde::Deserialize;

/// Upper bounds, all of them configurable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one item: content, usage and metadata.
    pub item_bytes: usize,
    /// Bytes of what an application keeps with a session, a turn or an event: lists show it.
    pub metadata_bytes: usize,
    /// Bytes of a title, an agent's or a model's name, and the like.
    pub label_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            item_bytes: 16 << 20,
            metadata_bytes: 1 << 20,
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

/// Parts that filrouge alone writes: whoever could post them could tell of a redaction that never was.
const RESERVED: [&str; 4] = ["redaction", "session_closed", "session_link", "turn_status"];

/// Whose items are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Author {
    /// A caller.
    Caller,
    /// filrouge, or a history that is brought in.
    Engine,
}

impl Limits {
    /// Items that one turn can hold, each of them within the limits.
    pub(crate) fn items(&self, items: &[NewItem], author: Author) -> Result<(), Failure> {
        if items.len() as u64 > TURN_ITEMS_MAX {
            return Err(Failure::new(
                ErrorCode::LimitExceeded,
                format!("a turn has at most {TURN_ITEMS_MAX} items, these are more"),
            ));
        }
        items
            .iter()
            .enumerate()
            .try_for_each(|(index, item)| self.item(item, index, author))
    }

    /// An item whose parts are an array of objects with a `type`, within the limits.
    pub(crate) fn item(&self, item: &NewItem, index: usize, author: Author) -> Result<(), Failure> {
        let parts: Result<Vec<Object<PartShape>>, _> = serde_json::from_str(item.parts.as_str());
        let reserved = |kind: &str| author == Author::Caller && RESERVED.contains(&kind);
        match parts {
            Ok(parts) if parts.iter().any(|p| reserved(&p.0.kind)) => {
                let what = "parts of this type are written by filrouge alone";
                return Err(invalid(format!("items[{index}].parts: {what}")).with_hint(
                    "use the call that does it: …/redact, …/link, …/close, …/finalize; or another word",
                ));
            }
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

    /// The metadata of a session or a turn, or an event's detail: an object of a bounded size, or nothing.
    pub(crate) fn metadata(&self, json: Option<&RawJson>, field: &str) -> Result<(), Failure> {
        self.object(json, field)?;
        let bytes = json.map_or(0, |j| j.as_str().len());
        if bytes <= self.metadata_bytes {
            return Ok(());
        }
        let most = self.metadata_bytes;
        let detail = format!("{field} has {bytes} bytes, at most {most} are allowed");
        Err(Failure::new(ErrorCode::LimitExceeded, detail)
            .with_hint("lists show it with every row: put what is large into an item"))
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
