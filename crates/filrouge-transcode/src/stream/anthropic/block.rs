//! Growing content blocks.

use filrouge_engine::stream::{PieceId, Transcript};
use filrouge_store::draft::{PieceKind, chars};
use filrouge_types::{Channel, Role};

use super::wire::{Content, Delta, ResultHead};
use crate::stream::json::{self, Raw};

/// The channel of a summary that replaces the earlier conversation.
const COMPACTION: &str = "compaction";
/// The channel of a note that another model continues the response.
const FALLBACK: &str = "fallback";

/// An incomplete block.
pub(super) enum Block {
    Text(BlockText),
    Thinking(PieceId),
    /// A call. `input` is that of its start event, which is used if no further input follows.
    Call {
        piece: PieceId,
        input: Option<String>,
    },
    /// A summary that replaces the earlier conversation, readable only by its provider.
    Compaction(PieceId),
    /// A block that arrived complete.
    Complete,
}

/// A text block, which begins no piece before its first character.
#[derive(Default)]
pub(super) struct BlockText {
    /// The piece that contains the text, and the byte at which the block begins in it, because several blocks may form
    /// one text. `None` before the first character.
    position: Option<(PieceId, usize)>,
    /// Citations refer to the entire block, so they are recorded at its end.
    citations: Vec<String>,
}

impl BlockText {
    /// The block's position, which the first use determines.
    fn position(&mut self, out: &mut Transcript) -> (PieceId, usize) {
        *self.position.get_or_insert_with(|| {
            let piece = out.begin_message(PieceKind::Text, 0, true);
            let begin = out.text(piece).map_or(0, str::len);
            (piece, begin)
        })
    }

    fn push_raw(&mut self, raw: Raw<'_>, out: &mut Transcript) -> bool {
        let Some(text) = json::string_content(raw) else {
            return false;
        };
        if text.is_empty() {
            return true;
        }
        let (piece, _) = self.position(out);
        out.push(piece, text)
    }

    fn record_held_back(&mut self, count: &mut CharCount, out: &mut Transcript) {
        let citations = std::mem::take(&mut self.citations);
        if citations.is_empty() {
            return;
        }
        let (piece, begin) = self.position(out);
        let end = out.text(piece).map_or(0, str::len);
        let start = count.chars_before(piece, begin, out);
        let end = count.chars_before(piece, end, out);
        for raw in citations {
            let citation = format!(r#"{{"start":{start},"end":{end},"citation":{raw}}}"#);
            out.add_to_list(piece, "citations", citation);
        }
    }
}

/// The number of characters in the first bytes of a piece, so that each is counted only once.
#[derive(Default)]
pub(super) struct CharCount {
    piece: Option<PieceId>,
    bytes: usize,
    chars: u64,
}

impl CharCount {
    /// The number of characters of a piece up to this byte. Successive calls must pass increasing positions.
    fn chars_before(&mut self, piece: PieceId, bytes: usize, out: &Transcript) -> u64 {
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
        let content: Content<'_> = json::read_object(raw)?;
        let kind = json::nonempty_string(content.kind)?;
        let block = match kind {
            "text" => Self::begin_text(&content, out),
            "thinking" => {
                let piece = begin_thinking(out);
                push_raw(piece, content.thinking, out);
                if let Some(signature) = json::nonempty_string(content.signature) {
                    out.extend(piece, "signature", signature);
                }
                Self::Thinking(piece)
            }
            "redacted_thinking" => {
                let data = json::string_token(content.data)?;
                let piece = begin_thinking(out);
                out.set(piece, "redacted", data);
                out.finish(piece);
                Self::Complete
            }
            COMPACTION => {
                let piece = out.begin_text(Role::Assistant, Channel::from_word(COMPACTION));
                push_raw(piece, content.content, out);
                json::set_string(out, piece, "encrypted_content", content.encrypted_content);
                Self::Compaction(piece)
            }
            FALLBACK => {
                let parts = format!("[{}]", json::part(raw)?);
                out.add_item(Role::System, Channel::from_word(FALLBACK), parts);
                Self::Complete
            }
            "container_upload" => {
                let file = json::string_token(content.file_id)?;
                let part = format!(r#"{{"type":"file","file_id":{file},"provider":"anthropic"}}"#);
                out.add_part(&part, 0);
                Self::Complete
            }
            "tool_use" => return Some((Self::begin_call(&content, kind, out)?, true)),
            _ if kind.ends_with("_tool_use") => Self::begin_call(&content, kind, out)?,
            _ if kind.ends_with("_tool_result") => record_result(&content, kind, out)?,
            _ => return None,
        };
        Some((block, false))
    }

    fn begin_text(content: &Content<'_>, out: &mut Transcript) -> Self {
        let mut text = BlockText::default();
        text.push_raw(content.text, out);
        let citations = content.citations.iter().flatten().copied();
        text.citations = citations
            .filter_map(json::non_null)
            .map(json::storable)
            .collect();
        Self::Text(text)
    }

    fn begin_call(content: &Content<'_>, kind: &str, out: &mut Transcript) -> Option<Self> {
        let id = json::string_token(content.id)?;
        let name = json::string_token(content.name)?;
        let piece = out.call(id, name, 0);
        if kind != "tool_use" {
            // The provider runs the tool.
            out.set(piece, "call_type", &format!("\"{kind}\""));
        }
        json::set_string(out, piece, "server_name", content.server_name);
        let caller = json::non_null(content.caller).map(json::storable);
        if let Some(caller) = caller.filter(|caller| caller != r#"{"type":"direct"}"#) {
            out.set(piece, "caller", &caller);
        }
        let input = json::non_null(content.input).filter(|input| *input != "{}");
        Some(Self::Call {
            piece,
            input: input.map(json::escape_text),
        })
    }

    /// Adds a delta; `false` if its kind or shape is wrong.
    pub(super) fn add_delta(&mut self, delta: &Delta<'_>, out: &mut Transcript) -> bool {
        let kind = json::nonempty_string(delta.kind).unwrap_or_default();
        match (kind, self) {
            ("text_delta", Self::Text(text)) => text.push_raw(delta.text, out),
            ("input_json_delta", Self::Call { piece, input }) => {
                if json::nonempty_string(delta.partial_json).is_some() {
                    *input = None;
                }
                // Some servers leave out an empty `partial_json`.
                delta.partial_json.is_none() || push_raw(*piece, delta.partial_json, out)
            }
            ("thinking_delta", Self::Thinking(piece)) => push_raw(*piece, delta.thinking, out),
            ("signature_delta", Self::Thinking(piece)) => {
                if let Some(signature) = json::nonempty_string(delta.signature) {
                    out.extend(*piece, "signature", signature);
                }
                json::string_content(delta.signature).is_some()
            }
            ("citations_delta", Self::Text(text)) => {
                text.citations
                    .extend(json::non_null(delta.citation).map(json::storable));
                delta.citation.is_some()
            }
            ("compaction_delta", Self::Compaction(piece)) => {
                json::set_string(out, *piece, "encrypted_content", delta.encrypted_content);
                json::non_null(delta.content).is_none() || push_raw(*piece, delta.content, out)
            }
            _ => false,
        }
    }

    /// Records what was held back until the end of the block: citations, or the call's first input.
    pub(super) fn record_held_back(&mut self, count: &mut CharCount, out: &mut Transcript) {
        match self {
            Self::Text(text) => text.record_held_back(count, out),
            Self::Call { piece, input } => {
                if let Some(input) = input.take() {
                    out.push(*piece, &input);
                }
            }
            Self::Thinking(_) | Self::Compaction(_) | Self::Complete => {}
        }
    }

    /// Completes the block.
    pub(super) fn finish(mut self, count: &mut CharCount, out: &mut Transcript) {
        self.record_held_back(count, out);
        match self {
            Self::Thinking(piece) | Self::Compaction(piece) | Self::Call { piece, .. } => {
                out.finish(piece);
            }
            Self::Text(text) => {
                if let Some((piece, _)) = text.position {
                    out.finish(piece);
                }
            }
            Self::Complete => {}
        }
    }
}

fn begin_thinking(out: &mut Transcript) -> PieceId {
    let piece = out.begin_reasoning(0);
    out.set(piece, "provider", "\"anthropic\"");
    piece
}

fn push_raw(piece: PieceId, raw: Raw<'_>, out: &mut Transcript) -> bool {
    json::string_content(raw).is_some_and(|text| out.push(piece, text))
}

/// Records the result of a tool that the provider runs.
fn record_result(content: &Content<'_>, kind: &str, out: &mut Transcript) -> Option<Block> {
    let call_id = json::string_token(content.tool_use_id)?;
    let result_content = json::non_null(content.content).unwrap_or("[]");
    let head = json::read_object::<ResultHead<'_>>(result_content);
    let result_kind = head.and_then(|head| json::nonempty_string(head.kind));
    let is_error = result_kind.is_some_and(|k| k.ends_with("_error"));
    let ok = !is_error && json::non_null(content.is_error) != Some("true");
    let result_content = json::storable(result_content);
    let part = format!(
        r#"[{{"type":"tool_result","call_id":{call_id},"ok":{ok},"content":{result_content},"result_type":"{kind}"}}]"#
    );
    out.add_item(Role::Tool, Channel::ToolResult, part);
    Some(Block::Complete)
}
