//! Items: the journal's entries (DESIGN §3).

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::words::stored_words;
use crate::{ItemId, JsonText, RawJson, Timestamp, TurnId, Variant};

stored_words!(
    /// Who an item comes from.
    pub enum Role: "role" {
        /// The person.
        User = 0 => "user",
        /// The agent.
        Assistant = 1 => "assistant",
        /// A tool.
        Tool = 2 => "tool",
        /// The application or filrouge itself.
        System = 3 => "system",
    }
);

macro_rules! channels {
    ($($(#[$doc:meta])* $variant:ident = $code:literal $word:literal),+ $(,)?) => {
        /// What kind of entry an item is; unknown channels are kept and passed through.
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Channel {
            $($(#[$doc])* $variant,)+
            /// A channel this version does not know.
            Other(Box<str>),
        }

        impl Channel {
            /// The word used in JSON and documents.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self { $(Self::$variant => $word,)+ Self::Other(word) => word }
            }

            /// The byte used in stored records; `None` for an unknown channel, which is stored by its word.
            #[must_use]
            pub const fn code(&self) -> Option<u8> {
                match self { $(Self::$variant => Some($code),)+ Self::Other(_) => None }
            }

            /// The channel of a stored byte.
            #[must_use]
            pub const fn from_code(code: u8) -> Option<Self> {
                match code { $($code => Some(Self::$variant),)+ _ => None }
            }

            /// The channel of a word.
            #[must_use]
            pub fn from_word(word: &str) -> Self {
                match word { $($word => Self::$variant,)+ _ => Self::Other(word.into()) }
            }
        }
    };
}

channels!(
    /// What the user asked.
    Question = 0 "question",
    /// The answer.
    Final = 1 "final",
    /// Text shown before the turn ended without an answer.
    Partial = 2 "partial",
    /// A plan.
    Plan = 3 "plan",
    /// Reasoning.
    Thought = 4 "thought",
    /// An observation.
    Observation = 5 "observation",
    /// A call of a tool.
    ToolCall = 6 "tool_call",
    /// A tool's answer.
    ToolResult = 7 "tool_result",
    /// An error.
    Error = 8 "error",
    /// A note of the application or of filrouge.
    SystemNote = 9 "system_note",
    /// A question to a human in the loop.
    HitlRequest = 10 "hitl_request",
    /// The human's answer.
    HitlResponse = 11 "hitl_response",
    /// A summary of older items.
    Summary = 12 "summary",
    /// The turn's owner is gone.
    Interrupted = 13 "interrupted",
    /// The turn was cancelled.
    Cancelled = 14 "cancelled",
    /// A session was linked to an identity.
    Link = 15 "link",
    /// Items were redacted.
    Redaction = 16 "redaction",
);

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Channel {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Channel {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let word = String::deserialize(d)?;
        if word.is_empty() || word.len() > 64 || word.chars().any(char::is_control) {
            return Err(de::Error::custom(
                "a channel has 1 to 64 bytes and no control characters",
            ));
        }
        Ok(Self::from_word(&word))
    }
}

/// An item as a caller gives it, before the store has given it a seq.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = NewItem))]
pub struct ItemBody {
    /// The caller's key, unique in the session; without one a retry is not promised to be safe.
    pub item_id: Option<ItemId>,
    /// Who it comes from.
    pub role: Role,
    /// What it is.
    pub channel: Channel,
    /// The language it is in.
    #[serde(default)]
    pub variant: Variant,
    /// The content: a JSON array of objects with a `type`, kept byte for byte.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<crate::schema::Part>))]
    pub parts: RawJson,
    /// The agent that spoke.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Label>))]
    pub agent: Option<Box<str>>,
    /// The model that wrote it.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Label>))]
    pub model: Option<Box<str>>,
    /// Token counts and costs, a JSON object.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub usage: Option<RawJson>,
    /// Anything else, a JSON object.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub metadata: Option<RawJson>,
    /// The caller's time of it.
    pub occurred_at: Option<Timestamp>,
}

impl ItemBody {
    /// An item with nothing but its content.
    #[must_use]
    pub fn new(role: Role, channel: Channel, parts: RawJson) -> Self {
        Self {
            item_id: None,
            role,
            channel,
            variant: Variant::default(),
            parts,
            agent: None,
            model: None,
            usage: None,
            metadata: None,
            occurred_at: None,
        }
    }

    /// An item that says this text.
    #[must_use]
    pub fn said(role: Role, channel: Channel, variant: Variant, text: &JsonText) -> Self {
        let parts = format!(r#"[{{"type":"text","text":{}}}]"#, text.as_token());
        Self {
            variant,
            ..Self::new(role, channel, RawJson::from_checked(parts))
        }
    }

    /// The fields around the content.
    #[must_use]
    pub fn around(&self) -> Around<&Option<Box<str>>, &Option<RawJson>> {
        Around::new([&self.agent, &self.model], [&self.metadata, &self.usage])
    }

    /// As [`Self::around`], to be changed. A new field of an item has its place here, or is named among those that have
    /// none.
    pub fn around_mut(&mut self) -> Around<&mut Option<Box<str>>, &mut Option<RawJson>> {
        let Self {
            item_id: _,
            role: _,
            channel: _,
            variant: _,
            parts: _,
            agent,
            model,
            usage,
            metadata,
            occurred_at: _,
        } = self;
        Around::new([agent, model], [metadata, usage])
    }

    /// The bytes of its content and of the objects around it.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let objects = self.around().objects.into_iter();
        let objects = objects.filter_map(|(_, json)| Some(json.as_ref()?.as_str().len()));
        self.parts.as_str().len() + objects.sum::<usize>()
    }
}

/// The fields around an item's content, by their names in JSON.
#[derive(Debug)]
pub struct Around<L, J> {
    /// Words such as a model's name.
    pub labels: [(&'static str, L); 2],
    /// JSON objects.
    pub objects: [(&'static str, J); 2],
}

impl<L, J> Around<L, J> {
    fn new([agent, model]: [L; 2], [metadata, usage]: [J; 2]) -> Self {
        Self {
            labels: [("agent", agent), ("model", model)],
            objects: [("metadata", metadata), ("usage", usage)],
        }
    }
}

/// An item as it stands in the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Position in the session: dense, from 1. [`crate::UNPLACED`] while the item waits for the ledger.
    pub seq: u64,
    /// The turn it belongs to.
    pub turn_id: Option<TurnId>,
    /// The store's time of the commit.
    pub created_at: Timestamp,
    /// Whether the content was redacted.
    pub redacted: bool,
    /// What the caller supplied; `parts` is an empty array once redacted.
    pub body: ItemBody,
}

impl Item {
    /// When the caller says it happened; else when it was committed.
    #[must_use]
    pub fn when(&self) -> Timestamp {
        self.body.occurred_at.unwrap_or(self.created_at)
    }
}

// Field order is that of the public JSON (DESIGN §12).
/// An item as it stands in the journal.
#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Item))]
struct ItemJson<'a> {
    /// Position in the session: dense, from 1. Absent while the item waits for the ledger.
    #[serde(serialize_with = "crate::placed::serialize")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>))]
    seq: u64,
    /// The caller's key.
    item_id: &'a Option<ItemId>,
    /// The turn it belongs to.
    turn_id: Option<TurnId>,
    /// Who it comes from.
    role: Role,
    /// What it is.
    channel: &'a Channel,
    /// The language it is in.
    variant: Variant,
    /// The content; an empty array once redacted.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<crate::schema::Part>))]
    parts: &'a RawJson,
    /// The agent that spoke.
    agent: &'a Option<Box<str>>,
    /// The model that wrote it.
    model: &'a Option<Box<str>>,
    /// Token counts and costs.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    usage: &'a Option<RawJson>,
    /// Anything else.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    metadata: &'a Option<RawJson>,
    /// The caller's time of it.
    occurred_at: Option<Timestamp>,
    /// The store's time of the commit.
    created_at: Timestamp,
    /// Whether the content was redacted.
    redacted: bool,
}

impl Serialize for Item {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let Self {
            seq,
            turn_id,
            created_at,
            redacted,
            body,
        } = self;
        let ItemBody {
            item_id,
            role,
            channel,
            variant,
            parts,
            agent,
            model,
            usage,
            metadata,
            occurred_at,
        } = body;
        let json = ItemJson {
            seq: *seq,
            item_id,
            turn_id: *turn_id,
            role: *role,
            channel,
            variant: *variant,
            parts,
            agent,
            model,
            usage,
            metadata,
            occurred_at: *occurred_at,
            created_at: *created_at,
            redacted: *redacted,
        };
        json.serialize(s)
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for Item {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        ItemJson::schema()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for Item {
    fn name() -> std::borrow::Cow<'static, str> {
        std::borrow::Cow::Borrowed("Item")
    }

    fn schemas(all: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::Schema>)>) {
        ItemJson::schemas(all);
    }
}
