//! Arranges the items of one turn, or those outside turns, for a reader: tool calls together with their results.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use filrouge_types::{Channel, Item, Timestamp, Turn, Variant, replace_lone_surrogates};

use crate::part::{Kind, Part, parts};
use crate::words::began;

/// An item with its parsed parts.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    /// The item.
    pub(crate) item: &'a Item,
    /// The item's parts.
    pub(crate) parts: Vec<Part<'a>>,
}

/// The position of a part: the index of its entry, and its own index in that entry.
type PartPosition = (usize, usize);

/// The entries of a turn, and the pairs of calls and results.
#[derive(Debug)]
pub(crate) struct TurnEntries<'a> {
    entries: Vec<Entry<'a>>,
    /// For each call with a result, the result's position.
    results: HashMap<PartPosition, PartPosition>,
    /// The results that are shown below a call.
    attached: HashSet<PartPosition>,
    /// Whether the turn has items in two languages.
    pub(crate) bilingual: bool,
    /// The time in the turn's heading; `None` for the items outside turns.
    pub(crate) began: Option<Timestamp>,
}

/// A tool result that is shown below its call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttachedResult<'s, 'a> {
    /// The item that contains the result.
    pub(crate) item: &'a Item,
    /// The part itself.
    pub(crate) part: &'s Part<'a>,
    /// Whether this result is the link target of its item: all parts of the item are shown below calls, and this part
    /// is the first.
    pub(crate) shows_complete_item: bool,
}

/// The JSON of each item's parts; lone surrogates, which no text can contain, become U+FFFD.
pub(crate) fn readable_parts(items: &[Item]) -> Vec<Cow<'_, str>> {
    items
        .iter()
        .map(|i| replace_lone_surrogates(i.body.parts.as_str()))
        .collect()
}

impl<'a> TurnEntries<'a> {
    /// Arranges `items`, whose [`readable_parts`] are `parts_json`.
    pub(crate) fn new(
        turn: Option<&Turn>,
        items: &'a [Item],
        parts_json: &'a [Cow<'a, str>],
    ) -> Self {
        let entries: Vec<Entry<'a>> = items
            .iter()
            .zip(parts_json)
            .map(|(item, json)| Entry {
                item,
                parts: parts(json),
            })
            .collect();
        let results = pair_calls_with_results(&entries);
        Self {
            entries,
            attached: results.values().copied().collect(),
            results,
            bilingual: items.iter().any(|i| i.body.variant != Variant::default()),
            began: turn.map(|t| began(t, items)),
        }
    }

    /// The entries that are shown at their own position, with their index.
    pub(crate) fn entries_in_place(&self) -> impl Iterator<Item = (usize, &Entry<'a>)> {
        let is_in_place = |(at, entry): &(usize, &Entry<'a>)| !self.is_shown_elsewhere(*at, entry);
        self.entries.iter().enumerate().filter(is_in_place)
    }

    fn is_shown_elsewhere(&self, at: usize, entry: &Entry<'a>) -> bool {
        let mut parts = 0..entry.parts.len();
        !parts.is_empty() && parts.all(|i| self.attached.contains(&(at, i)))
    }

    /// The earlier entries whose calls the last entry answers, with their index.
    pub(crate) fn answered_by_last(&self) -> impl Iterator<Item = (usize, &Entry<'a>)> {
        let last = self.entries.len().saturating_sub(1);
        let pairs = self.results.iter();
        let answered = pairs.filter(|(call, result)| result.0 == last && call.0 != last);
        let answered: HashSet<usize> = answered.map(|(call, _)| call.0).collect();
        let entries = self.entries.iter().enumerate();
        entries.filter(move |(at, _)| answered.contains(at))
    }

    /// The parts of an entry that are shown at its position, each with the result below it.
    pub(crate) fn parts_of(
        &self,
        at: usize,
    ) -> impl Iterator<Item = (&Part<'a>, Option<AttachedResult<'_, 'a>>)> {
        let parts = self.entries[at].parts.iter().enumerate();
        parts
            .filter(move |(i, _)| !self.attached.contains(&(at, *i)))
            .map(move |(i, part)| (part, self.result_of((at, i))))
    }

    /// The types of an entry's parts, if the entry is a note without any text to read; otherwise `None`.
    pub(crate) fn bookkeeping_types(&self, at: usize) -> Option<Vec<String>> {
        let entry = &self.entries[at];
        if entry.item.body.channel != Channel::SystemNote
            || entry.item.redacted
            || entry.parts.is_empty()
        {
            return None;
        }
        entry.parts.iter().map(Part::bookkeeping_type).collect()
    }

    fn result_of(&self, call: PartPosition) -> Option<AttachedResult<'_, 'a>> {
        let (at, part) = *self.results.get(&call)?;
        let entry = &self.entries[at];
        let shows_complete_item = part == 0 && self.is_shown_elsewhere(at, entry);
        Some(AttachedResult {
            item: entry.item,
            part: &entry.parts[part],
            shows_complete_item,
        })
    }
}

/// Pairs calls with results. A result belongs to the first unanswered call that precedes it and has the same call id. A
/// second result of a call stays at its own position (DESIGN §5).
fn pair_calls_with_results(entries: &[Entry<'_>]) -> HashMap<PartPosition, PartPosition> {
    let mut unanswered: HashMap<&str, PartPosition> = HashMap::new();
    let mut results = HashMap::new();
    for (at, entry) in entries.iter().enumerate() {
        for (i, part) in entry.parts.iter().enumerate() {
            if let Kind::ToolCall(call) = &part.kind
                && let Some(id) = &call.call_id
            {
                unanswered.entry(id).or_insert((at, i));
            } else if let Kind::ToolResult(result) = &part.kind
                && let Some(id) = &result.call_id
                && let Some(call) = unanswered.remove(id.as_str())
            {
                results.insert(call, (at, i));
            }
        }
    }
    results
}
