//! What becomes one item, and how its parts are written.

use std::fmt::Write as _;

use filrouge_store::draft::{PieceKind, arguments};
use filrouge_types::{Channel, RawJson, Role};

/// What the channel of an answer is that is not the first of several (`n` above 1): no context shows it.
const ALTERNATIVE: &str = "alternative";

/// One part of a block.
#[derive(Debug, Clone)]
pub struct Part {
    /// What it is.
    pub kind: PieceKind,
    /// Its text as spelled inside a JSON string; of a whole part its JSON.
    pub text: String,
    /// Further members of the part, raw JSON, such as a signature.
    pub(super) members: Vec<(&'static str, String)>,
    /// What is gathered in lists, such as citations: the list's name and the raw values.
    pub(super) lists: Vec<(&'static str, Vec<String>)>,
    /// How often its text was replaced by another one.
    pub(super) generation: u32,
}

impl Part {
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

/// What becomes one item.
#[derive(Debug, Clone)]
pub struct Block {
    /// Its number in the stream, from 0; its item has it, too.
    pub number: u64,
    /// Its parts; of what is said several, else one.
    pub parts: Vec<Part>,
    /// Of a call: its id and the tool's name, as JSON strings.
    pub call: Option<(String, String)>,
    /// Whether nothing is added to it any more.
    pub done: bool,
    /// Who says it, and where, when that is known from the beginning.
    pub(super) place: Option<(Role, Channel)>,
    /// Which of several answers it belongs to; 0 is the one that counts.
    pub(super) alternative: u32,
    /// Further members of its item's metadata.
    pub(super) metadata: Vec<(&'static str, String)>,
    /// Whether it becomes an item without waiting for what the response tells at its end.
    pub(super) released: bool,
    /// Whether it is a call that a limit has cut off in the middle of its arguments.
    pub(super) cut: bool,
    /// Bytes that it holds, about.
    pub(super) held: usize,
}

impl Block {
    pub(super) fn is_said(&self) -> bool {
        self.place.is_none() && matches!(self.parts.first(), Some(p) if p.kind.is_said())
    }

    pub(super) fn is_answer(&self) -> bool {
        self.is_said() && self.alternative == 0
    }

    pub(super) fn is_step(&self) -> bool {
        self.is_answer() || self.call.is_some()
    }

    /// Whether it is a call whose arguments are not the text of an object.
    pub(super) fn lacks_arguments(&self) -> bool {
        let text = self.parts.first().map_or("", |p| p.text.as_str());
        self.call.is_some() && !arguments(text).starts_with('{')
    }

    /// Who says it, and on which channel as far as that is known: what is said may be the answer.
    #[must_use]
    pub fn place(&self) -> (Role, Channel) {
        if let Some((role, channel)) = &self.place {
            return (*role, channel.clone());
        }
        let channel = if self.alternative > 0 {
            Channel::from_word(ALTERNATIVE)
        } else if self.cut {
            Channel::Partial
        } else if self.call.is_some() {
            Channel::ToolCall
        } else if self.is_said() {
            Channel::Final
        } else {
            Channel::Thought
        };
        (Role::Assistant, channel)
    }
}

pub(super) fn object(members: &[(&'static str, String)]) -> Option<RawJson> {
    if members.is_empty() {
        return None;
    }
    let mut out = String::from("{");
    for (index, (name, value)) in members.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        // Writing to a string does not fail.
        let _ = write!(out, "{comma}\"{name}\":{value}");
    }
    out.push('}');
    Some(RawJson::from_checked(out))
}

/// The parts of a block's item.
pub(super) fn parts(block: &Block) -> RawJson {
    if let Some(part) = block.parts.first()
        && block.place.is_some()
        && part.kind == PieceKind::Whole
    {
        return RawJson::from_checked(part.text.as_str());
    }
    let mut out = String::from("[");
    for part in &block.parts {
        if part.kind.is_said()
            && part.kind != PieceKind::Whole
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

fn write_part(out: &mut String, part: &Part, block: &Block) {
    // Writing to a string does not fail.
    let _ = match part.kind {
        PieceKind::Whole => {
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
