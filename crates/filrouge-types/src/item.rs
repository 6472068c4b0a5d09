//! Items: the ledger's entries (DESIGN §3).

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::words::stored_words;
use crate::{ItemId, JsonText, RawJson, Timestamp, TurnId, Variant};

stored_words!(
    /// The kind of author of an item.
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
        /// The kind of an item; unknown channels are kept and passed through.
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Channel {
            $($(#[$doc])* $variant,)+
            /// A channel that this version does not define.
            Other(Box<str>),
        }

        impl Channel {
            /// The name used in JSON and documents.
            pub fn as_str(&self) -> &str {
                match self { $(Self::$variant => $word,)+ Self::Other(word) => word }
            }

            /// The byte used in stored records; `None` for an unknown channel, which is stored by name.
            pub const fn code(&self) -> Option<u8> {
                match self { $(Self::$variant => Some($code),)+ Self::Other(_) => None }
            }

            /// The channel of a stored byte; `None` if this version defines no channel for it.
            pub const fn from_code(code: u8) -> Option<Self> {
                match code { $($code => Some(Self::$variant),)+ _ => None }
            }

            /// The channel with this name; [`Self::Other`] for an unknown name.
            pub fn from_word(word: &str) -> Self {
                match word { $($word => Self::$variant,)+ _ => Self::Other(word.into()) }
            }
        }
    };
}

impl Channel {
    /// Whether an interrupted or closed turn takes items of this channel: errors and notes that become known only
    /// afterwards.
    pub const fn may_be_late(&self) -> bool {
        matches!(self, Self::Error | Self::SystemNote)
    }
}

channels!(
    /// The user's question.
    Question = 0 "question",
    /// The answer.
    Final = 1 "final",
    /// Text that was shown before the turn ended without an answer.
    Partial = 2 "partial",
    /// The agent's plan.
    Plan = 3 "plan",
    /// The agent's reasoning.
    Thought = 4 "thought",
    /// An observation of the agent.
    Observation = 5 "observation",
    /// A tool call.
    ToolCall = 6 "tool_call",
    /// A tool's result.
    ToolResult = 7 "tool_result",
    /// An error.
    Error = 8 "error",
    /// A note of the application or of filrouge.
    SystemNote = 9 "system_note",
    /// A question to a human in the loop.
    HitlRequest = 10 "hitl_request",
    /// The human's answer to a `hitl_request`.
    HitlResponse = 11 "hitl_response",
    /// A summary that replaces older turns in a restored context.
    Summary = 12 "summary",
    /// The turn was interrupted, because it was abandoned before it ended.
    Interrupted = 13 "interrupted",
    /// The turn was cancelled.
    Cancelled = 14 "cancelled",
    /// The anonymous session was linked to an identity, its owner from then on.
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

/// An item as its caller supplies it, before the store assigns its seq.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewItem)]
pub struct ItemBody {
    /// The caller's key, unique in the session. Without one, a retry may append the item twice.
    pub item_id: Option<ItemId>,
    /// The kind of author.
    pub role: Role,
    /// The kind of entry.
    pub channel: Channel,
    /// The language of the item.
    #[serde(default)]
    pub variant: Variant,
    /// The content: a JSON array of objects with a `type`, kept byte for byte.
    #[schema(value_type = Vec<crate::schema::Part>)]
    pub parts: RawJson,
    /// The agent that spoke.
    #[schema(value_type = Option<crate::schema::Label>)]
    pub agent: Option<Box<str>>,
    /// The model that wrote it.
    #[schema(value_type = Option<crate::schema::Label>)]
    pub model: Option<Box<str>>,
    /// Token counts and costs, a JSON object.
    #[schema(value_type = Option<Object>)]
    pub usage: Option<RawJson>,
    /// Anything else, a JSON object.
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<RawJson>,
    /// The time of the item by the caller's clock.
    pub occurred_at: Option<Timestamp>,
}

impl ItemBody {
    /// An item with content only.
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

    /// An item whose content is one text part.
    pub fn from_text(role: Role, channel: Channel, variant: Variant, text: &JsonText) -> Self {
        let parts = format!(r#"[{{"type":"text","text":{}}}]"#, text.as_token());
        Self {
            variant,
            ..Self::new(role, channel, RawJson::from_checked(parts))
        }
    }

    /// The labels and JSON objects besides the content.
    pub fn annotations(&self) -> Annotations<&Option<Box<str>>, &Option<RawJson>> {
        Annotations::new([&self.agent, &self.model], [&self.metadata, &self.usage])
    }

    /// As [`Self::annotations`], mutable. The pattern names every field, so a new field of an item is a compile error
    /// here until it is classified.
    pub fn annotations_mut(&mut self) -> Annotations<&mut Option<Box<str>>, &mut Option<RawJson>> {
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
        Annotations::new([agent, model], [metadata, usage])
    }

    /// The total size in bytes of the content and of the JSON objects besides it; labels do not count.
    pub fn bytes(&self) -> usize {
        let objects = self.annotations().objects.into_iter();
        let objects = objects.filter_map(|(_, json)| Some(json.as_ref()?.as_str().len()));
        self.parts.as_str().len() + objects.sum::<usize>()
    }
}

/// An item's labels and JSON objects besides its content, by their names in JSON.
#[derive(Debug)]
pub struct Annotations<L, J> {
    /// Short texts such as a model's name.
    pub labels: [(&'static str, L); 2],
    /// JSON objects.
    pub objects: [(&'static str, J); 2],
}

impl<L, J> Annotations<L, J> {
    fn new([agent, model]: [L; 2], [metadata, usage]: [J; 2]) -> Self {
        Self {
            labels: [("agent", agent), ("model", model)],
            objects: [("metadata", metadata), ("usage", usage)],
        }
    }
}

/// An item as the ledger stores it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Position in the session: dense, from 1; [`crate::UNASSIGNED`] while the item waits in the spool.
    pub seq: u64,
    /// The turn that the item belongs to; `None` for an item without a turn, such as a link.
    pub turn_id: Option<TurnId>,
    /// The time of the commit by the store's clock.
    pub created_at: Timestamp,
    /// Whether the content was redacted.
    pub redacted: bool,
    /// The data that the caller supplied. In a redacted item, `parts` is an empty array.
    pub body: ItemBody,
}

impl Item {
    /// The time of the item according to the caller, or else the time of its commit.
    pub fn when(&self) -> Timestamp {
        self.body.occurred_at.unwrap_or(self.created_at)
    }
}

// The field order is that of the public JSON (DESIGN §12).
/// An item as the ledger stores it.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Item)]
struct ItemJson<'a> {
    /// Position in the session: dense, from 1. Absent while the item waits for the ledger.
    #[serde(serialize_with = "crate::unassigned::serialize")]
    #[schema(value_type = Option<u64>)]
    seq: u64,
    /// The caller's key.
    item_id: &'a Option<ItemId>,
    /// The turn that the item belongs to.
    turn_id: Option<TurnId>,
    /// The kind of author.
    role: Role,
    /// The kind of entry.
    channel: &'a Channel,
    /// The language of the item.
    variant: Variant,
    /// The content; an empty array once redacted.
    #[schema(value_type = Vec<crate::schema::Part>)]
    parts: &'a RawJson,
    /// The agent that spoke.
    agent: &'a Option<Box<str>>,
    /// The model that wrote it.
    model: &'a Option<Box<str>>,
    /// Token counts and costs.
    #[schema(value_type = Option<Object>)]
    usage: &'a Option<RawJson>,
    /// Anything else.
    #[schema(value_type = Option<Object>)]
    metadata: &'a Option<RawJson>,
    /// The time of the item by the caller's clock.
    occurred_at: Option<Timestamp>,
    /// The time of the commit by the store's clock.
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

impl utoipa::PartialSchema for Item {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        ItemJson::schema()
    }
}

impl utoipa::ToSchema for Item {
    fn name() -> std::borrow::Cow<'static, str> {
        std::borrow::Cow::Borrowed("Item")
    }

    fn schemas(all: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::Schema>)>) {
        ItemJson::schemas(all);
    }
}
