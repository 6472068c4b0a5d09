//! Decodes the message items of a response: their texts, refusals and citations.

use filrouge_engine::stream::{PieceId, Transcript};
use filrouge_store::draft::PieceKind;
use serde_json::value::RawValue;

use super::Event;
use super::items::{Item, Items, set_complete_text};
use crate::stream::json::{self, Raw};

json::members! {
    Content { kind = "type", text, refusal, annotations: Option<Vec<&'a RawValue>> }
}

/// One content part of a message: a text or a refusal.
struct MessagePart {
    /// The part's `content_index`.
    index: u64,
    kind: PieceKind,
    piece: PieceId,
    /// The byte at which the part begins in its piece. Several parts may be joined in one piece.
    from: usize,
    /// The position of `from`, counted in characters.
    offset: u64,
    /// The number of annotations that are recorded so far.
    annotations: usize,
}

/// A message item.
#[derive(Default)]
pub(super) struct Message {
    phase: Option<String>,
    /// The parts that are recorded so far.
    parts: Vec<MessagePart>,
}

/// The state that decides whether a new part joins the text before it. It is shared by all messages of a response.
/// While a part grows, no part of another message may join its text.
#[derive(Default)]
pub(super) struct OpenPart {
    /// The growing part: the output index of its message, and its `content_index`.
    part: Option<(u64, u64)>,
    phase: Option<String>,
    /// The part that began last, in the same form. Only its text can be completed, because it reaches to the end of its
    /// piece.
    last_begun: Option<(u64, u64)>,
}

impl Message {
    pub(super) fn new(phase: Raw<'_>) -> Self {
        Self {
            phase: json::string_content(phase).map(str::to_owned),
            parts: Vec::new(),
        }
    }

    fn part(
        &mut self,
        at: u64,
        index: u64,
        kind: PieceKind,
        open: &mut OpenPart,
        out: &mut Transcript,
    ) -> Option<&mut MessagePart> {
        if let Some(position) = self.parts.iter().position(|p| p.index == index) {
            return self.parts.get_mut(position).filter(|p| p.kind == kind);
        }
        // The parts of one message arrive one after the other, so a part of this message never grows while the next
        // begins.
        let may_join = open.part.is_none_or(|(message, _)| message == at);
        let joins = may_join && (!self.parts.is_empty() || open.phase == self.phase);
        let piece = out.begin_message(kind, 0, joins);
        let from = out.text(piece).map_or(0, str::len);
        let offset = if from > 0 { out.chars(piece) } else { 0 };
        open.part = Some((at, index));
        open.last_begun = open.part;
        open.phase.clone_from(&self.phase);
        self.parts.push(MessagePart {
            index,
            kind,
            piece,
            from,
            offset,
            annotations: 0,
        });
        self.parts.last_mut()
    }

    /// Records a part that arrives complete. Returns `false` if the part is neither a text nor a refusal, or not of the
    /// kind that its first event had. `at` is the output index of the message.
    fn complete_part(
        &mut self,
        at: u64,
        index: u64,
        raw: &RawValue,
        open: &mut OpenPart,
        out: &mut Transcript,
    ) -> bool {
        let Some(content) = json::read::<Content<'_>>(raw.get()) else {
            return false;
        };
        let (kind, text) = match json::string_content(content.kind) {
            Some("output_text" | "text") => (PieceKind::Text, content.text),
            Some("refusal") => (PieceKind::Refusal, content.refusal),
            _ => return false,
        };
        let Some(part) = self.part(at, index, kind, open, out) else {
            return false;
        };
        if let Some(text) = json::string_content(text)
            && open.last_begun == Some((at, index))
        {
            set_complete_text(part.piece, part.from, text, out);
        }
        let recorded = part.annotations;
        for annotation in content.annotations.iter().flatten().skip(recorded) {
            part.record_annotation(annotation, out);
        }
        true
    }

    /// Ends the message. The end event repeats the complete content, which supplies all parts, texts and annotations
    /// that did not arrive earlier.
    pub(super) fn complete(
        &mut self,
        at: u64,
        item: &Item<'_>,
        open: &mut OpenPart,
        out: &mut Transcript,
    ) {
        let contents = item.content.map(RawValue::get);
        let contents = contents.and_then(json::read::<Vec<&RawValue>>);
        for (index, raw) in (0..).zip(contents.unwrap_or_default()) {
            let is_recorded = self.parts.iter().any(|p| p.index == index);
            if !self.complete_part(at, index, raw, open, out) && !is_recorded {
                match json::part(raw.get()) {
                    Some(part) => drop(out.add_part(&part, 0)),
                    None => out.unknown(raw.get()),
                }
            }
        }
        if open.part.is_some_and(|(message, _)| message == at) {
            open.part = None;
        }
        if let Some(last) = self.parts.last() {
            out.finish(last.piece);
        }
    }
}

impl MessagePart {
    /// Records an annotation, whose positions count from the start of its part. If the part does not begin at the start
    /// of its piece, the annotation gets the member `offset`: the part's start in characters. Otherwise the annotation
    /// is unchanged.
    fn record_annotation(&mut self, annotation: &RawValue, out: &mut Transcript) {
        self.annotations += 1;
        let mut citation = json::storable(annotation.get());
        if self.offset > 0
            && let Some(members) = citation.strip_prefix('{')
        {
            let is_empty = members.trim_start().starts_with('}');
            let comma = if is_empty { "" } else { "," };
            citation = format!("{{\"offset\":{}{comma}{members}", self.offset);
        }
        out.add_to_list(self.piece, "citations", citation);
    }
}

impl Items {
    fn part(
        &mut self,
        event: &Event<'_>,
        kind: PieceKind,
        out: &mut Transcript,
    ) -> Option<&mut MessagePart> {
        let (message, open, at) = self.message(event)?;
        message.part(at, event.content_index.unwrap_or_default(), kind, open, out)
    }

    /// Appends the text of a delta event to its part. Returns `false` if the text cannot be recorded.
    pub(super) fn add_text(
        &mut self,
        event: &Event<'_>,
        kind: PieceKind,
        out: &mut Transcript,
    ) -> bool {
        let Some(delta) = json::string_content(event.delta) else {
            return false;
        };
        let part = self.part(event, kind, out).map(|p| p.piece);
        part.is_some_and(|piece| out.push(piece, delta))
    }

    /// Completes a part's text from the event that repeats the complete text.
    pub(super) fn complete_text(
        &mut self,
        event: &Event<'_>,
        kind: PieceKind,
        text: Raw<'_>,
        out: &mut Transcript,
    ) -> bool {
        let Some(text) = json::string_content(text) else {
            return false;
        };
        let Some((message, open, at)) = self.message(event) else {
            return false;
        };
        let index = event.content_index.unwrap_or_default();
        let Some(part) = message.part(at, index, kind, open, out) else {
            return false;
        };
        if open.last_begun == Some((at, index)) {
            set_complete_text(part.piece, part.from, text, out);
        }
        true
    }

    /// `content_part.added`: begins a text or a refusal.
    pub(super) fn begin_part(&mut self, event: &Event<'_>, out: &mut Transcript) -> bool {
        let Some(content) = event.part.and_then(|p| json::read::<Content<'_>>(p.get())) else {
            return false;
        };
        let kind = match json::string_content(content.kind) {
            Some("output_text" | "text") => PieceKind::Text,
            Some("refusal") => PieceKind::Refusal,
            // A part of any other type is recorded from the end event of its item, which contains the complete part.
            _ => return true,
        };
        self.part(event, kind, out).is_some()
    }

    /// `content_part.done`: completes a text or a refusal, which no longer grows.
    pub(super) fn end_part(&mut self, event: &Event<'_>, out: &mut Transcript) -> bool {
        let Some(part) = event.part else { return false };
        // Two kinds of parts are recorded only when their item ends: parts of an item that is not a message, such as
        // reasoning, and parts that `complete_part` does not record.
        if let Some((message, open, at)) = self.message(event) {
            let index = event.content_index.unwrap_or_default();
            message.complete_part(at, index, part, open, out);
            if open.part == Some((at, index)) {
                open.part = None;
            }
        }
        true
    }

    /// Records an annotation of a text.
    pub(super) fn record_annotation(&mut self, event: &Event<'_>, out: &mut Transcript) -> bool {
        let Some(annotation) = event.annotation else {
            return false;
        };
        let part = self.part(event, PieceKind::Text, out);
        part.map(|part| part.record_annotation(annotation, out))
            .is_some()
    }
}
