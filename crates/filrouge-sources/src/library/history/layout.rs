//! Lays out the texts of a message one after the other, with their lengths in characters, so that pages can count and
//! cut them.

use std::borrow::Cow;
use std::ops::Range;

use filrouge_engine::{Masked, mask_json, mask_text};

use crate::{Message, Part, PartKind, Tool};

/// Which texts of a message are displayed, and whether they are masked.
#[derive(Debug, Clone, Copy)]
pub(in crate::library) struct DisplayOptions {
    pub(in crate::library) tool_output: bool,
    pub(in crate::library) reasoning: bool,
    pub(in crate::library) synthetic: bool,
    /// Whether steps and snapshots are shown too.
    pub(in crate::library) steps: bool,
    pub(in crate::library) mask: bool,
}

/// The field of [`super::ShownPart`] that shows a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Text,
    Title,
    Input,
    Output,
    Error,
    Json,
}

/// The reason why a part is hidden, entirely or in some of its texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hidden {
    Reasoning,
    Synthetic,
    Output,
    /// The query is only about pruned outputs, and the part has none; or the part is a step or a snapshot.
    Other,
}

/// A text of a part, the field that shows it, and its length in characters.
struct Text<'a> {
    field: Field,
    text: Cow<'a, str>,
    chars: usize,
}

/// The texts of one part, or of a message itself.
#[derive(Default)]
pub(super) struct Slot<'a> {
    texts: Vec<Text<'a>>,
    pub(super) chars: usize,
    pub(super) hidden: Option<Hidden>,
    /// The number of credentials in it that were masked.
    pub(super) masked: u64,
}

/// The layout of a message: one slot for its own text (its error), then one for each part. A hidden part's slot has no
/// characters.
pub(super) struct MessageLayout<'a> {
    pub(super) message: &'a Message,
    pub(super) slots: Vec<Slot<'a>>,
}

impl<'a> MessageLayout<'a> {
    /// Lays out a message. With `only_pruned`, all parts except tool calls with pruned outputs are hidden.
    pub(super) fn new(message: &'a Message, options: &DisplayOptions, only_pruned: bool) -> Self {
        let mut slots = Vec::with_capacity(message.parts.len() + 1);
        slots.push(Slot::from_error(message, options, only_pruned));
        let slot = |part| match part {
            part if only_pruned && !is_pruned(part) => Slot::hidden(Hidden::Other),
            part => Slot::from_part(part, options),
        };
        slots.extend(message.parts.iter().map(slot));
        Self { message, slots }
    }

    /// The total number of characters.
    pub(super) fn chars(&self) -> usize {
        self.slots.iter().map(|s| s.chars).sum()
    }

    /// The number of characters before a position.
    pub(super) fn chars_before(&self, (slot, offset): (usize, usize)) -> usize {
        let full = self.slots.iter().take(slot).map(|s| s.chars).sum::<usize>();
        full + offset.min(self.slots.get(slot).map_or(0, |s| s.chars))
    }
}

/// Whether a part is a tool call whose output the program removed from the model's context.
pub(in crate::library) fn is_pruned(part: &Part) -> bool {
    matches!(&part.kind, PartKind::Tool(tool) if tool.pruned.is_some())
}

impl<'a> Slot<'a> {
    fn hidden(why: Hidden) -> Self {
        Self {
            hidden: Some(why),
            ..Self::default()
        }
    }

    fn from_error(message: &'a Message, options: &DisplayOptions, only_pruned: bool) -> Self {
        let mut slot = Self::default();
        if let Some(error) = message.error.as_ref().filter(|_| !only_pruned) {
            let text = format!("{}: {}", error.name, error.message);
            slot.add(Field::Error, Cow::Owned(text), options.mask);
        }
        slot
    }

    fn from_part(part: &'a Part, options: &DisplayOptions) -> Self {
        let mut slot = Self::default();
        match &part.kind {
            PartKind::Text { synthetic, .. } if *synthetic && !options.synthetic => {
                return Self::hidden(Hidden::Synthetic);
            }
            PartKind::Reasoning { .. } if !options.reasoning => {
                return Self::hidden(Hidden::Reasoning);
            }
            PartKind::Text { text, .. } | PartKind::Reasoning { text } => {
                slot.add(Field::Text, Cow::Borrowed(text), options.mask);
            }
            PartKind::Compaction { summary, .. } => {
                slot.add_optional(Field::Text, summary.as_deref(), options.mask);
            }
            PartKind::Tool(tool) => slot.add_tool(tool, options),
            PartKind::Other { name, .. } if !options.steps && is_step(name) => {
                return Self::hidden(Hidden::Other);
            }
            PartKind::Other { json, .. } => {
                slot.add(Field::Json, Cow::Borrowed(json), options.mask);
            }
            PartKind::File { .. } | PartKind::Patch { .. } => {}
        }
        slot
    }

    /// Adds the texts of a tool call. The output is added last, so that the offsets of the other texts do not depend on
    /// whether it is shown.
    fn add_tool(&mut self, tool: &'a Tool, options: &DisplayOptions) {
        self.add_optional(Field::Title, tool.title.as_deref(), options.mask);
        self.add(Field::Input, Cow::Borrowed(&tool.input), options.mask);
        self.add_optional(Field::Error, tool.error.as_deref(), options.mask);
        if options.tool_output {
            self.add_optional(Field::Output, tool.output.as_deref(), options.mask);
        } else if tool.output.is_some() {
            self.hidden = Some(Hidden::Output);
        }
    }

    fn add_optional(&mut self, field: Field, text: Option<&'a str>, mask: bool) {
        if let Some(text) = text {
            self.add(field, Cow::Borrowed(text), mask);
        }
    }

    fn add(&mut self, field: Field, text: Cow<'a, str>, mask: bool) {
        let mut masked_credentials = Masked::default();
        let masked = match field {
            _ if !mask => None,
            Field::Input | Field::Json => mask_json(&text, &mut masked_credentials),
            _ => mask_text(&text, &mut masked_credentials),
        };
        let text = masked.map_or(text, Cow::Owned);
        let chars = text.chars().count();
        self.masked += masked_credentials.count;
        self.chars += chars;
        self.texts.push(Text { field, text, chars });
    }

    /// The texts within `range`, a range of the slot's characters. Texts at its edges are cut. An empty text belongs to
    /// the text after it.
    pub(super) fn within(&self, range: Range<usize>) -> impl Iterator<Item = (Field, String)> {
        let slot_chars = self.chars;
        self.texts
            .iter()
            .scan(0, move |before, text| {
                let start = *before;
                *before += text.chars;
                let from = range.start.saturating_sub(start).min(text.chars);
                let to = range.end.saturating_sub(start).min(text.chars);
                let at_end = range.end == slot_chars || start < range.end;
                let is_empty = text.chars == 0 && start >= range.start && at_end;
                Some((from < to || is_empty).then(|| (text.field, text.slice(from, to))))
            })
            .flatten()
    }
}

impl Text<'_> {
    fn slice(&self, from: usize, to: usize) -> String {
        if from == 0 && to == self.chars {
            return self.text.clone().into_owned();
        }
        if self.text.len() == self.chars {
            return self.text.get(from..to).unwrap_or_default().to_owned();
        }
        self.text.chars().skip(from).take(to - from).collect()
    }
}

/// Whether this is a kind of part that programs write for their own use: the start or the end of a step, or a snapshot
/// of the files.
fn is_step(name: &str) -> bool {
    matches!(name, "step-start" | "step-finish" | "snapshot")
}
