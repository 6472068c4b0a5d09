//! The contents of a stream so far, in a form that does not depend on the provider.
//!
//! Texts are kept as they are spelled inside a JSON string, with escapes. So if a stream splits a character of two
//! escapes, appending the second one completes it, and nothing is escaped twice.

use std::collections::VecDeque;

use filrouge_store::draft::{PieceKind, is_flat};
use filrouge_types::{Channel, ItemBody, JsonText, RawJson, Role};

use super::block::{StreamBlock, StreamPart};
use super::end::StreamEnd;
use crate::validate::{streamed_part, streamed_parts};

/// The maximum number of bytes of unknown events that are kept. Events beyond it are only counted.
const UNKNOWN_BYTES: usize = 256 << 10;
/// The maximum number of bytes of a model's name; the default limit of any label.
const MODEL_BYTES: usize = 4096;

/// The approximate memory of a block in bytes, without its texts.
const BLOCK_BYTES: usize = 256;

/// Identifies a piece: a part of a block. Blocks, and the parts of a block, are numbered in the order of their begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PieceId {
    block: u64,
    part: usize,
}

/// An item that a block has become; it has no key yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadyItem {
    /// The block's number; `None` for an item without a block.
    pub number: Option<u64>,
    /// The item.
    pub item: ItemBody,
}

/// The contents of a stream so far. A decoder fills it, and a `Recording` takes the items.
#[derive(Debug, Default)]
pub struct Transcript {
    /// The blocks that are not items yet.
    pub(super) blocks: VecDeque<StreamBlock>,
    /// The number of blocks that are steps of the assistant: a text or a tool call. A text that another step follows is
    /// not the answer.
    pub(super) steps: usize,
    /// The number of the next block.
    pub(super) next: u64,
    pub(super) model: Option<Box<str>>,
    pub(super) usage: Option<String>,
    /// Metadata from the end of the response, which the last item gets.
    pub(super) metadata: Vec<(&'static str, String)>,
    pub(super) ended: Option<StreamEnd>,
    pub(super) events: u64,
    pub(super) unknown: u64,
    pub(super) unknown_events: Vec<String>,
    pub(super) unknown_bytes: usize,
    /// The approximate memory of the blocks in bytes.
    pub(super) memory_bytes: usize,
    /// A number that grows with every change of the blocks.
    pub(super) version: u64,
    /// The items that were not taken yet.
    pub(super) ready: Vec<ReadyItem>,
    /// Whether an item contains the usage and the metadata from the end of the response.
    pub(super) is_reported: bool,
}

impl Transcript {
    /// Begins a message of the assistant. If `continues`, and the last block is a message of the same alternative
    /// answer, continues that block instead: a text continues its last text, any other kind becomes a further part.
    pub fn begin_message(&mut self, kind: PieceKind, alternative: u32, continues: bool) -> PieceId {
        if continues
            && let Some(last) = self.blocks.back_mut()
            && last.is_message()
            && last.alternative == alternative
        {
            last.done = false;
            self.version += 1;
            let continues_text = kind == PieceKind::Text
                && last
                    .parts
                    .last()
                    .is_some_and(|p| p.kind == kind && p.members.is_empty());
            if !continues_text {
                last.parts.push(StreamPart::new(kind));
            }
            return PieceId {
                block: last.number,
                part: last.parts.len() - 1,
            };
        }
        self.begin(kind, None, None, alternative)
    }

    /// Begins a text whose author is not the assistant, or that is never the answer.
    pub fn begin_text(&mut self, role: Role, channel: Channel) -> PieceId {
        self.begin(PieceKind::Text, None, Some((role, channel)), 0)
    }

    /// Begins reasoning.
    pub fn begin_reasoning(&mut self, alternative: u32) -> PieceId {
        self.begin(PieceKind::Reasoning, None, None, alternative)
    }

    /// Begins a tool call; its id and the tool's name are JSON strings.
    pub fn call(&mut self, call_id: &str, name: &str, alternative: u32) -> PieceId {
        let call = Some((call_id.to_owned(), name.to_owned()));
        self.begin(PieceKind::ToolCall, call, None, alternative)
    }

    /// Adds a complete item; `parts` is a JSON array of parts.
    pub fn add_item(&mut self, role: Role, channel: Channel, parts: String) -> PieceId {
        let parts = streamed_parts(parts);
        let piece = self.begin(PieceKind::Complete, None, Some((role, channel)), 0);
        self.replace(piece, &parts);
        self.finish(piece);
        piece
    }

    /// Adds a complete part, such as an image, to the assistant's current message, or begins one; `part` is a JSON
    /// object.
    pub fn add_part(&mut self, part: &str, alternative: u32) -> PieceId {
        let part = streamed_part(part);
        let piece = self.begin_message(PieceKind::Complete, alternative, true);
        self.replace(piece, &part);
        piece
    }

    fn begin(
        &mut self,
        kind: PieceKind,
        call: Option<(String, String)>,
        role_and_channel: Option<(Role, Channel)>,
        alternative: u32,
    ) -> PieceId {
        let number = self.next;
        self.next += 1;
        let block = StreamBlock {
            number,
            parts: vec![StreamPart::new(kind)],
            call,
            role_and_channel,
            alternative,
            memory_bytes: BLOCK_BYTES,
            ..StreamBlock::default()
        };
        let names = block
            .call
            .as_ref()
            .map_or(0, |(id, name)| id.len() + name.len());
        self.memory_bytes += BLOCK_BYTES;
        self.steps += usize::from(block.is_step());
        self.blocks.push_back(block);
        self.add_memory(number, names);
        PieceId {
            block: number,
            part: 0,
        }
    }

    /// Adds `bytes` to the memory of the block with this number, if it was not taken yet.
    fn add_memory(&mut self, number: u64, bytes: usize) {
        if let Some(block) = self.block(number) {
            block.memory_bytes += bytes;
            self.memory_bytes += bytes;
        }
    }

    fn block(&mut self, number: u64) -> Option<&mut StreamBlock> {
        self.version += 1;
        let first = self.blocks.front()?.number;
        let at = usize::try_from(number.checked_sub(first)?).ok()?;
        self.blocks.get_mut(at)
    }

    fn part(&mut self, piece: PieceId) -> Option<&mut StreamPart> {
        self.block(piece.block)?.parts.get_mut(piece.part)
    }

    /// Appends text, as spelled inside a JSON string. Returns `false`, and adds nothing, if the block was already
    /// taken.
    pub fn push(&mut self, piece: PieceId, inner: &str) -> bool {
        let Some(part) = self.part(piece) else {
            return false;
        };
        part.text.push_str(inner);
        // Arguments are kept twice: as received, and masked for the draft.
        let copies = 1 + usize::from(part.kind == PieceKind::ToolCall);
        self.add_memory(piece.block, inner.len() * copies);
        true
    }

    /// Replaces the text of a piece, for streams whose complete text at the end differs from the delivered pieces.
    pub fn replace(&mut self, piece: PieceId, inner: &str) {
        let Some(part) = self.part(piece) else { return };
        // If the new text does not continue the old one, the drafted text must be replaced.
        part.generation += u32::from(!inner.starts_with(part.text.as_str()));
        let more = inner.len().saturating_sub(part.text.len());
        inner.clone_into(&mut part.text);
        self.add_memory(piece.block, more);
    }

    /// The text of a piece so far; `None` if its block was taken.
    pub fn text(&self, piece: PieceId) -> Option<&str> {
        let first = self.blocks.front()?.number;
        let at = usize::try_from(piece.block.checked_sub(first)?).ok()?;
        Some(&self.blocks.get(at)?.parts.get(piece.part)?.text)
    }

    /// The number of characters of a piece so far. It must be added to positions (of annotations) that count from the
    /// start of text that continues the piece.
    pub fn chars(&self, piece: PieceId) -> u64 {
        filrouge_store::draft::chars(self.text(piece).unwrap_or_default())
    }

    /// Sets a member of a piece's part to raw JSON, and replaces an earlier value.
    pub fn set(&mut self, piece: PieceId, name: &'static str, raw: &str) {
        let Some(part) = self.part(piece) else { return };
        set(&mut part.members, name, raw);
        self.add_memory(piece.block, raw.len());
    }

    /// Appends to a string member of a piece's part that a stream delivers in fragments, such as a signature. `inner`
    /// is spelled as inside a JSON string.
    pub fn extend(&mut self, piece: PieceId, name: &'static str, inner: &str) {
        let Some(part) = self.part(piece) else { return };
        match part.members.iter_mut().find(|(n, _)| *n == name) {
            Some((_, value)) => {
                value.pop();
                value.push_str(inner);
                value.push('"');
            }
            None => part.members.push((name, format!("\"{inner}\""))),
        }
        self.add_memory(piece.block, inner.len());
    }

    /// Adds a value, as raw JSON, to a list in a piece's part, such as `citations`.
    pub fn add_to_list(&mut self, piece: PieceId, name: &'static str, raw: String) {
        self.add_memory(piece.block, raw.len());
        let Some(part) = self.part(piece) else { return };
        match part.lists.iter_mut().find(|(n, _)| *n == name) {
            Some((_, values)) => values.push(raw),
            None => part.lists.push((name, vec![raw])),
        }
    }

    /// Sets the id or the tool's name of a call if they arrive after its beginning. Both are JSON strings; `None`
    /// changes nothing.
    pub fn set_call(&mut self, piece: PieceId, call_id: Option<&str>, name: Option<&str>) {
        let more = call_id.map_or(0, str::len) + name.map_or(0, str::len);
        self.add_memory(piece.block, more);
        let Some(call) = self.block(piece.block).and_then(|b| b.call.as_mut()) else {
            return;
        };
        if let Some(id) = call_id {
            id.clone_into(&mut call.0);
        }
        if let Some(name) = name {
            name.clone_into(&mut call.1);
        }
    }

    /// Sets a member of the metadata of the piece's item to raw JSON.
    pub fn set_item_metadata(&mut self, piece: PieceId, name: &'static str, raw: &str) {
        if let Some(block) = self.block(piece.block) {
            set(&mut block.metadata, name, raw);
        }
        self.add_memory(piece.block, raw.len());
    }

    /// Marks a piece's block as complete.
    pub fn finish(&mut self, piece: PieceId) {
        if let Some(block) = self.block(piece.block) {
            block.done = true;
        }
    }

    /// Like [`Self::finish`], but the block becomes an item as soon as all earlier ones have, without waiting for data
    /// from the end of the response.
    pub fn release(&mut self, piece: PieceId) {
        if let Some(block) = self.block(piece.block) {
            (block.done, block.released) = (true, true);
        }
    }

    /// Sets the name of the model. A name that is no valid label, or any after the first, is ignored.
    pub fn model(&mut self, name: &str) {
        let is_label = !name.is_empty() && name.len() <= MODEL_BYTES && !name.contains('\0');
        if is_label && self.model.is_none() {
            self.model = Some(name.into());
        }
    }

    /// Sets the token counts of the response, a raw JSON object, and replaces earlier ones. A value that is no object
    /// is kept as an unknown event.
    pub fn usage(&mut self, raw: &str) {
        if !raw.starts_with('{') {
            return self.unknown(raw);
        }
        let usage = self.usage.get_or_insert_default();
        raw.clone_into(usage);
    }

    /// Sets a member of the last item's metadata to raw JSON, such as `finish_reason`.
    pub fn set_metadata(&mut self, name: &'static str, raw: &str) {
        set(&mut self.metadata, name, raw);
    }

    /// Counts an event of the stream.
    pub fn event(&mut self) {
        self.events += 1;
    }

    /// Counts an unknown event, and keeps it if there is room: unchanged if it is JSON, otherwise as a JSON string.
    pub fn unknown(&mut self, raw: &str) {
        self.unknown += 1;
        if self.unknown_bytes + raw.len() > UNKNOWN_BYTES {
            return;
        }
        let json = match RawJson::parse(raw) {
            Ok(json) if is_flat(json.as_str()) => json.as_str().to_owned(),
            _ => JsonText::from_plain(raw).as_token().to_owned(),
        };
        self.unknown_bytes += json.len();
        self.unknown_events.push(json);
    }

    /// Sets the end of the response; does nothing if an end was set before.
    pub fn end(&mut self, end: StreamEnd) {
        if self.ended.is_none() {
            for block in &mut self.blocks {
                // A stream that breaks off completes no block.
                block.done |= matches!(end, StreamEnd::Answered | StreamEnd::Continues);
            }
            self.ended = Some(end);
        }
    }

    /// The end of the response; `None` if it has not ended.
    pub const fn ended(&self) -> Option<&StreamEnd> {
        self.ended.as_ref()
    }

    /// The number of events so far, and the number of unknown ones among them.
    pub const fn events(&self) -> (u64, u64) {
        (self.events, self.unknown)
    }

    /// The approximate memory of the transcript in bytes.
    pub fn memory_bytes(&self) -> usize {
        let ready = self.ready.iter().map(|r| r.item.parts.as_str().len());
        ready.sum::<usize>() + self.memory_bytes + self.unknown_bytes
    }

    /// A number that grows with every change of the blocks that are not items yet.
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// The name of the model, if it is known yet.
    pub fn model_name(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// The blocks that are not items yet, in order.
    pub fn blocks(&self) -> impl Iterator<Item = &StreamBlock> {
        self.blocks.iter()
    }
}

fn set(members: &mut Vec<(&'static str, String)>, name: &'static str, raw: &str) {
    match members.iter_mut().find(|(n, _)| *n == name) {
        Some((_, value)) => raw.clone_into(value),
        None => members.push((name, raw.to_owned())),
    }
}
