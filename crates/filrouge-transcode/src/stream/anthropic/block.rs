//! Growing content blocks.

use filrouge_engine::stream::{PieceNo, Transcript};
use filrouge_store::draft::{PieceKind, chars};
use filrouge_types::{Channel, Role};
use serde::Deserialize;

use super::wire::{Content, Delta};
use crate::stream::json::{self, Raw};

/// The channel of a summary that replaces the earlier conversation.
const COMPACTION: &str = "compaction";
/// The channel of a note that another model continues the response.
const FALLBACK: &str = "fallback";

/// An incomplete block.
pub(super) enum Block {
    BlockText(BlockText),
    Thinking(PieceNo),
    /// A call. `input` is that of its start event, which is used if no further input follows.
    Call {
        piece: PieceNo,
        input: Option<String>,
    },
    /// A summary that replaces the earlier conversation, readable only by its provider.
    Compaction(PieceNo),
    /// A block that arrived complete.
    Whole,
}

/// A text block, which begins no piece before its first character.
#[derive(Default)]
pub(super) struct BlockText {
    /// The piece that contains the text, and the block's first byte in it, because several blocks may form one text;
    /// `None` before the first character.
    place: Option<(PieceNo, usize)>,
    /// Citations refer to the entire block, so they are recorded at its end.
    citations: Vec<String>,
}

impl BlockText {
    /// The block's place, which its first use determines.
    fn place(&mut self, out: &mut Transcript) -> (PieceNo, usize) {
        *self.place.get_or_insert_with(|| {
            let piece = out.say(PieceKind::Text, 0, true);
            let begin = out.text(piece).map_or(0, str::len);
            (piece, begin)
        })
    }

    fn push(&mut self, raw: Raw<'_>, out: &mut Transcript) -> bool {
        let Some(text) = json::inner(raw) else {
            return false;
        };
        if text.is_empty() {
            return true;
        }
        let (piece, _) = self.place(out);
        out.push(piece, text)
    }

    fn record_held_back(&mut self, count: &mut Count, out: &mut Transcript) {
        let citations = std::mem::take(&mut self.citations);
        if citations.is_empty() {
            return;
        }
        let (piece, begin) = self.place(out);
        let end = out.text(piece).map_or(0, str::len);
        let start = count.at(piece, begin, out);
        let end = count.at(piece, end, out);
        for raw in citations {
            let citation = format!(r#"{{"start":{start},"end":{end},"citation":{raw}}}"#);
            out.list(piece, "citations", citation);
        }
    }
}

/// The number of characters in the first bytes of a piece, so that each is counted only once.
#[derive(Default)]
pub(super) struct Count {
    piece: Option<PieceNo>,
    bytes: usize,
    chars: u64,
}

impl Count {
    /// The number of characters of a piece up to this byte. Successive calls must pass rising positions.
    fn at(&mut self, piece: PieceNo, bytes: usize, out: &Transcript) -> u64 {
        if self.piece != Some(piece) {
            *self = Self {
                piece: Some(piece),
                ..Self::default()
            };
        }
        let text = out.text(piece).unwrap_or_default();
        if let Some(more) = text.get(self.bytes..bytes) {
            self.chars += chars(more);
            self.bytes = bytes;
        }
        self.chars
    }
}

impl Block {
    /// Begins a block, which may already be complete; also returns whether it is a call that the caller answers. `None`
    /// if its kind or shape is unknown.
    pub(super) fn begin(raw: &str, out: &mut Transcript) -> Option<(Self, bool)> {
        let content: Content<'_> = raw.starts_with('{').then(|| json::read(raw)).flatten()?;
        let kind = json::some(content.kind)?;
        let block = match kind {
            "text" => Self::text(&content, out),
            "thinking" => {
                let piece = think(out);
                out.push(piece, json::inner(content.thinking).unwrap_or_default());
                if let Some(signature) = json::some(content.signature) {
                    out.extend(piece, "signature", signature);
                }
                Self::Thinking(piece)
            }
            "redacted_thinking" => {
                let data = json::token(content.data)?;
                let piece = think(out);
                out.set(piece, "redacted", data);
                out.finish(piece);
                Self::Whole
            }
            COMPACTION => {
                let piece = out.say_as(Role::Assistant, Channel::from_word(COMPACTION));
                out.push(piece, json::inner(content.content).unwrap_or_default());
                encrypt(piece, content.encrypted_content, out);
                Self::Compaction(piece)
            }
            FALLBACK => {
                let part = json::part(raw)?;
                out.whole(
                    Role::System,
                    Channel::from_word(FALLBACK),
                    format!("[{part}]"),
                );
                Self::Whole
            }
            "container_upload" => {
                let file = json::token(content.file_id)?;
                let part = format!(r#"{{"type":"file","file_id":{file},"provider":"anthropic"}}"#);
                out.say_whole(&part, 0);
                Self::Whole
            }
            "tool_use" => return Some((Self::call(&content, kind, out)?, true)),
            _ if kind.ends_with("_tool_use") => Self::call(&content, kind, out)?,
            _ if kind.ends_with("_tool_result") => result(&content, kind, out)?,
            _ => return None,
        };
        Some((block, false))
    }

    fn text(content: &Content<'_>, out: &mut Transcript) -> Self {
        let mut text = BlockText::default();
        text.push(content.text, out);
        let citations = content.citations.iter().flatten().copied();
        text.citations = citations.filter_map(json::value).map(json::kept).collect();
        Self::BlockText(text)
    }

    fn call(content: &Content<'_>, kind: &str, out: &mut Transcript) -> Option<Self> {
        let (id, name) = (json::token(content.id)?, json::token(content.name)?);
        let piece = out.call(id, name, 0);
        if kind != "tool_use" {
            // The provider runs the tool.
            out.set(piece, "call_type", &format!("\"{kind}\""));
        }
        if let Some(server) = json::token(content.server_name) {
            out.set(piece, "server_name", server);
        }
        let caller = json::value(content.caller).map(json::kept);
        if let Some(caller) = caller.filter(|caller| caller != r#"{"type":"direct"}"#) {
            out.set(piece, "caller", &caller);
        }
        let input = json::value(content.input).filter(|input| *input != "{}");
        Some(Self::Call {
            piece,
            input: input.map(json::escaped),
        })
    }

    /// Adds a delta; `false` if its kind or shape is wrong.
    pub(super) fn add(&mut self, delta: &Delta<'_>, out: &mut Transcript) -> bool {
        let kind = json::some(delta.kind).unwrap_or_default();
        match (kind, self) {
            ("text_delta", Self::BlockText(text)) => text.push(delta.text, out),
            ("input_json_delta", Self::Call { piece, input }) => {
                if json::some(delta.partial_json).is_some() {
                    *input = None;
                }
                // Some servers leave out an empty `partial_json`.
                delta.partial_json.is_none() || push(*piece, delta.partial_json, out)
            }
            ("thinking_delta", Self::Thinking(piece)) => push(*piece, delta.thinking, out),
            ("signature_delta", Self::Thinking(piece)) => {
                let signature = json::inner(delta.signature);
                if let Some(signature) = signature.filter(|signature| !signature.is_empty()) {
                    out.extend(*piece, "signature", signature);
                }
                signature.is_some()
            }
            ("citations_delta", Self::BlockText(text)) => {
                text.citations
                    .extend(json::value(delta.citation).map(json::kept));
                delta.citation.is_some()
            }
            ("compaction_delta", Self::Compaction(piece)) => {
                encrypt(*piece, delta.encrypted_content, out);
                json::value(delta.content).is_none() || push(*piece, delta.content, out)
            }
            _ => false,
        }
    }

    /// Records what was held back until the end of the block: citations, or the call's first input.
    pub(super) fn record_held_back(&mut self, count: &mut Count, out: &mut Transcript) {
        match self {
            Self::BlockText(text) => text.record_held_back(count, out),
            Self::Call { piece, input } => {
                if let Some(input) = input.take() {
                    out.push(*piece, &input);
                }
            }
            Self::Thinking(_) | Self::Compaction(_) | Self::Whole => {}
        }
    }

    /// Completes the block.
    pub(super) fn finish(mut self, count: &mut Count, out: &mut Transcript) {
        self.record_held_back(count, out);
        match self {
            Self::Thinking(piece) | Self::Compaction(piece) | Self::Call { piece, .. } => {
                out.finish(piece);
            }
            Self::BlockText(text) => {
                if let Some((piece, _)) = text.place {
                    out.finish(piece);
                }
            }
            Self::Whole => {}
        }
    }
}

fn think(out: &mut Transcript) -> PieceNo {
    let piece = out.think(0);
    out.set(piece, "provider", "\"anthropic\"");
    piece
}

fn encrypt(piece: PieceNo, raw: Raw<'_>, out: &mut Transcript) {
    if let Some(data) = json::token(raw) {
        out.set(piece, "encrypted_content", data);
    }
}

fn push(piece: PieceNo, raw: Raw<'_>, out: &mut Transcript) -> bool {
    json::inner(raw).is_some_and(|text| out.push(piece, text))
}

/// Records the result of a tool that the provider runs.
fn result(content: &Content<'_>, kind: &str, out: &mut Transcript) -> Option<Block> {
    #[derive(Deserialize)]
    struct Head<'a> {
        #[serde(rename = "type", borrow)]
        kind: Raw<'a>,
    }

    let call_id = json::token(content.tool_use_id)?;
    let answer = json::value(content.content).unwrap_or("[]");
    let head: Option<Head<'_>> = answer
        .starts_with('{')
        .then(|| json::read(answer))
        .flatten();
    let is_error =
        head.is_some_and(|head| json::some(head.kind).is_some_and(|k| k.ends_with("_error")));
    let ok = !is_error && json::value(content.is_error) != Some("true");
    let answer = json::kept(answer);
    let part = format!(
        r#"[{{"type":"tool_result","call_id":{call_id},"ok":{ok},"content":{answer},"result_type":"{kind}"}}]"#
    );
    out.whole(Role::Tool, Channel::ToolResult, part);
    Some(Block::Whole)
}
