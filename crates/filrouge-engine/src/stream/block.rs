//! Blocks: the contents of a stream that become one item each, such as a message or a tool call. A block consists of
//! pieces, and each piece becomes one part of the item.

use std::fmt::Write as _;

use filrouge_store::draft::{PieceKind, arguments};
use filrouge_types::{Channel, RawJson, Role};

/// The channel of alternative answers: if a request asks for several answers (`n` above 1), all answers but the first.
/// No context contains them.
const ALTERNATIVE: &str = "alternative";

/// A piece of a block; it becomes one part of the block's item.
#[derive(Debug, Clone)]
pub struct StreamPart {
    /// The kind of the piece.
    pub kind: PieceKind,
    /// The text so far, as spelled inside a JSON string. For [`PieceKind::Complete`], the JSON of the part.
    pub text: String,
    /// Further members of the part, raw JSON, such as a signature.
    pub(super) members: Vec<(&'static str, String)>,
    /// Lists of raw values collected over the stream, such as citations, by name.
    pub(super) lists: Vec<(&'static str, Vec<String>)>,
    /// The number of times that the text was replaced by one that does not continue it.
    pub(super) generation: u32,
}

impl StreamPart {
    pub(super) const fn new(kind: PieceKind) -> Self {
        Self {
            kind,
            text: String::new(),
            members: Vec::new(),
            lists: Vec::new(),
            generation: 0,
        }
    }
}

/// A block of a stream; it becomes one item.
#[derive(Debug, Clone, Default)]
pub struct StreamBlock {
    /// The block's number in the stream, from 0. It is part of the item's key.
    pub number: u64,
    /// The pieces. Only a message has several.
    pub parts: Vec<StreamPart>,
    /// For a tool call: the call's id and the tool's name, as JSON strings.
    pub call: Option<(String, String)>,
    /// Whether the block is complete.
    pub done: bool,
    /// Role and channel, if they are fixed when the block begins. `None` for the assistant's messages, reasoning and
    /// calls: see [`Self::role_and_channel()`].
    pub(super) role_and_channel: Option<(Role, Channel)>,
    /// The number of the alternative answer to which the block belongs; 0 is the main answer.
    pub(super) alternative: u32,
    /// Members of the item's metadata: names and raw JSON.
    pub(super) metadata: Vec<(&'static str, String)>,
    /// Whether the block becomes an item without waiting for data from the end of the response.
    pub(super) released: bool,
    /// Whether the block is a call whose arguments were cut off by a length limit.
    pub(super) cut: bool,
    /// The approximate memory of the block in bytes.
    pub(super) memory_bytes: usize,
}

impl StreamBlock {
    pub(super) fn is_message(&self) -> bool {
        self.role_and_channel.is_none()
            && matches!(self.parts.first(), Some(p) if p.kind.can_be_answer())
    }

    pub(super) fn is_answer(&self) -> bool {
        self.is_message() && self.alternative == 0
    }

    /// Whether the block is a step of the assistant: a text of the main answer, or a tool call.
    pub(super) fn is_step(&self) -> bool {
        self.is_answer() || self.call.is_some()
    }

    /// Whether the block is a call whose arguments are not a JSON object.
    pub(super) fn lacks_arguments(&self) -> bool {
        let text = self.parts.first().map_or("", |p| p.text.as_str());
        self.call.is_some() && !arguments(text).starts_with('{')
    }

    /// Role and channel as they appear now. A message of the assistant counts as the answer until the stream shows
    /// otherwise.
    pub fn role_and_channel(&self) -> (Role, Channel) {
        if let Some((role, channel)) = &self.role_and_channel {
            return (*role, channel.clone());
        }
        let channel = if self.alternative > 0 {
            Channel::from_word(ALTERNATIVE)
        } else if self.cut {
            Channel::Partial
        } else if self.call.is_some() {
            Channel::ToolCall
        } else if self.is_message() {
            Channel::Final
        } else {
            Channel::Thought
        };
        (Role::Assistant, channel)
    }
}

pub(super) fn object(members: &[(&'static str, String)]) -> Option<RawJson> {
    let members = members
        .iter()
        .map(|(name, value)| format!("\"{name}\":{value}"));
    let members = members.collect::<Vec<_>>().join(",");
    (!members.is_empty()).then(|| RawJson::from_checked(format!("{{{members}}}")))
}

/// The parts of a block's item, as a JSON array.
pub(super) fn parts(block: &StreamBlock) -> RawJson {
    if let Some(part) = block.parts.first()
        && block.role_and_channel.is_some()
        && part.kind == PieceKind::Complete
    {
        return RawJson::from_checked(part.text.as_str());
    }
    let mut out = String::from("[");
    for part in &block.parts {
        if part.kind.can_be_answer()
            && part.kind != PieceKind::Complete
            && part.text.is_empty()
            && block.parts.len() > 1
        {
            continue;
        }
        if out.len() > 1 {
            out.push(',');
        }
        write_part(&mut out, part, block);
    }
    out.push(']');
    RawJson::from_checked(out)
}

fn write_part(out: &mut String, part: &StreamPart, block: &StreamBlock) {
    // Writing to a string does not fail.
    let _ = match part.kind {
        PieceKind::Complete => {
            out.push_str(&part.text);
            return;
        }
        PieceKind::Text => write!(out, r#"{{"type":"text","text":"{}""#, part.text),
        PieceKind::Refusal => write!(out, r#"{{"type":"refusal","refusal":"{}""#, part.text),
        PieceKind::Reasoning if part.text.is_empty() => write!(out, r#"{{"type":"reasoning""#),
        PieceKind::Reasoning => {
            write!(out, r#"{{"type":"reasoning","text":"{}""#, part.text)
        }
        PieceKind::ToolCall => {
            let call = block.call.as_ref();
            let (id, name) = call.map_or(("\"\"", "\"\""), |(id, name)| (id, name));
            let kind = if block.cut {
                "tool_call_partial"
            } else {
                "tool_call"
            };
            let args = arguments(&part.text);
            write!(
                out,
                r#"{{"type":"{kind}","call_id":{id},"name":{name},"args":{args}"#
            )
        }
    };
    for (name, value) in &part.members {
        let _ = write!(out, ",\"{name}\":{value}");
    }
    for (name, values) in &part.lists {
        let _ = write!(out, ",\"{name}\":[{}]", values.join(","));
    }
    out.push('}');
}
