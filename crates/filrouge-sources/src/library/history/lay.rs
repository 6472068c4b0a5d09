//! The texts of a message one behind the other, and how many characters each has.

use std::borrow::Cow;
use std::ops::Range;

use filrouge_engine::{Masked, mask_json, mask_text};

use crate::{Message, Part, PartKind, Tool};

/// What of a message is shown.
#[derive(Debug, Clone, Copy)]
pub(in crate::library) struct Shows {
    pub(in crate::library) tool_output: bool,
    pub(in crate::library) reasoning: bool,
    pub(in crate::library) synthetic: bool,
    /// Also what steps and snapshots say.
    pub(in crate::library) steps: bool,
    pub(in crate::library) mask: bool,
}

/// Which field of [`super::ShownPart`] a text is shown in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Text,
    Title,
    Input,
    Output,
    Error,
    Json,
}

/// Why a part is not shown, or not all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hidden {
    Reasoning,
    Synthetic,
    Output,
    /// It is not what was asked for.
    Other,
}

struct Text<'a> {
    field: Field,
    text: Cow<'a, str>,
    chars: usize,
}

/// The texts of one part, or of a message itself.
pub(super) struct Slot<'a> {
    texts: Vec<Text<'a>>,
    pub(super) chars: usize,
    pub(super) hidden: Option<Hidden>,
    /// How many credentials were masked in it.
    pub(super) masked: u64,
}

/// A message laid out: a slot for its own text, then one for each part. What is hidden has no characters.
pub(super) struct Laid<'a> {
    pub(super) message: &'a Message,
    pub(super) slots: Vec<Slot<'a>>,
}

impl<'a> Laid<'a> {
    pub(super) fn of(message: &'a Message, shows: &Shows, only_pruned: bool) -> Self {
        let mut slots = Vec::with_capacity(message.parts.len() + 1);
        slots.push(Slot::of_head(message, shows, only_pruned));
        let slot = |part| match part {
            part if only_pruned && !is_pruned(part) => Slot::hidden(Hidden::Other),
            part => Slot::of_part(part, shows),
        };
        slots.extend(message.parts.iter().map(slot));
        Self { message, slots }
    }

    /// How many characters there are in all.
    pub(super) fn chars(&self) -> usize {
        self.slots.iter().map(|s| s.chars).sum()
    }

    /// How many characters are before a place.
    pub(super) fn chars_before(&self, slot: usize, offset: usize) -> usize {
        let full = self.slots.iter().take(slot).map(|s| s.chars).sum::<usize>();
        full + offset.min(self.slots.get(slot).map_or(0, |s| s.chars))
    }
}

/// Whether the program no longer shows the model what a tool gave.
pub(in crate::library) fn is_pruned(part: &Part) -> bool {
    matches!(&part.kind, PartKind::Tool(tool) if tool.pruned.is_some())
}

impl<'a> Slot<'a> {
    fn empty() -> Self {
        Self {
            texts: Vec::new(),
            chars: 0,
            hidden: None,
            masked: 0,
        }
    }

    fn hidden(why: Hidden) -> Self {
        Self {
            hidden: Some(why),
            ..Self::empty()
        }
    }

    fn of_head(message: &'a Message, shows: &Shows, only_pruned: bool) -> Self {
        let mut slot = Self::empty();
        if let Some(error) = message.error.as_ref().filter(|_| !only_pruned) {
            let text = format!("{}: {}", error.name, error.message);
            slot.add(Field::Error, Cow::Owned(text), shows.mask);
        }
        slot
    }

    fn of_part(part: &'a Part, shows: &Shows) -> Self {
        let mut slot = Self::empty();
        match &part.kind {
            PartKind::Text { synthetic, .. } if *synthetic && !shows.synthetic => {
                return Self::hidden(Hidden::Synthetic);
            }
            PartKind::Reasoning { .. } if !shows.reasoning => {
                return Self::hidden(Hidden::Reasoning);
            }
            PartKind::Text { text, .. } | PartKind::Reasoning { text } => {
                slot.add(Field::Text, Cow::Borrowed(text), shows.mask);
            }
            PartKind::Compaction { summary, .. } => {
                slot.add_some(Field::Text, summary.as_deref(), shows.mask);
            }
            PartKind::Tool(tool) => slot.add_tool(tool, shows),
            PartKind::Other { name, json } if shows.steps || !is_step(name) => {
                slot.add(Field::Json, Cow::Borrowed(json), shows.mask);
            }
            PartKind::Other { .. } | PartKind::File { .. } | PartKind::Patch { .. } => {}
        }
        slot
    }

    /// What the tool gave is last, so that hiding it moves nothing else.
    fn add_tool(&mut self, tool: &'a Tool, shows: &Shows) {
        self.add_some(Field::Title, tool.title.as_deref(), shows.mask);
        self.add(Field::Input, Cow::Borrowed(&tool.input), shows.mask);
        self.add_some(Field::Error, tool.error.as_deref(), shows.mask);
        if shows.tool_output {
            self.add_some(Field::Output, tool.output.as_deref(), shows.mask);
        } else if tool.output.is_some() {
            self.hidden = Some(Hidden::Output);
        }
    }

    fn add_some(&mut self, field: Field, text: Option<&'a str>, mask: bool) {
        if let Some(text) = text {
            self.add(field, Cow::Borrowed(text), mask);
        }
    }

    fn add(&mut self, field: Field, text: Cow<'a, str>, mask: bool) {
        let mut found = Masked::default();
        let masked = match field {
            _ if !mask => None,
            Field::Input | Field::Json => mask_json(&text, &mut found),
            _ => mask_text(&text, &mut found),
        };
        let text = masked.map_or(text, Cow::Owned);
        let chars = text.chars().count();
        self.masked += found.count;
        self.chars += chars;
        self.texts.push(Text { field, text, chars });
    }

    /// What of its texts lies within `range`, in characters. An empty text goes with what is behind it.
    pub(super) fn within(&self, range: Range<usize>) -> impl Iterator<Item = (Field, String)> {
        let all = self.chars;
        self.texts
            .iter()
            .scan(0, move |before, text| {
                let start = *before;
                *before += text.chars;
                let from = range.start.saturating_sub(start).min(text.chars);
                let to = range.end.saturating_sub(start).min(text.chars);
                let at_end = range.end == all || start < range.end;
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

/// What programs note for themselves: where a step begins and ends, and the state of the files.
fn is_step(name: &str) -> bool {
    matches!(name, "step-start" | "step-finish" | "snapshot")
}
