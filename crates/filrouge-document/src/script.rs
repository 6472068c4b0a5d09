//! The items of one turn as they are read: calls of tools together with their results.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use filrouge_types::{Channel, Item, Timestamp, Turn, Variant, sound_json};

use crate::part::{Part, parts};
use crate::words::began;

/// An item with its parts.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    /// The item.
    pub(crate) item: &'a Item,
    /// Its parts.
    pub(crate) parts: Vec<Part<'a>>,
}

/// A part's place: the entry, and the part in it.
type Place = (usize, usize);

/// The entries of a turn and which results belong to which calls.
#[derive(Debug)]
pub(crate) struct Script<'a> {
    entries: Vec<Entry<'a>>,
    results: HashMap<Place, Place>,
    /// The parts that stand beneath a call.
    moved: HashSet<Place>,
    /// By entry, how many of its parts do.
    moved_of: Vec<usize>,
    /// Whether the items come in two languages.
    pub(crate) bilingual: bool,
    /// The time that the turn's heading tells.
    pub(crate) began: Option<Timestamp>,
}

/// A tool's result as it stands beneath its call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placed<'s, 'a> {
    /// The item it came in.
    pub(crate) item: &'a Item,
    /// The part itself.
    pub(crate) part: &'s Part<'a>,
    /// Whether this is where the item is shown, rather than one of its parts.
    pub(crate) stands_for_item: bool,
}

/// The contents of items, with what no text can hold made U+FFFD.
pub(crate) fn contents(items: &[Item]) -> Vec<Cow<'_, str>> {
    items
        .iter()
        .map(|i| sound_json(i.body.parts.as_str()))
        .collect()
}

impl<'a> Script<'a> {
    /// Reads `items`, whose contents are `contents`.
    pub(crate) fn read(
        turn: Option<&Turn>,
        items: &'a [Item],
        contents: &'a [Cow<'a, str>],
    ) -> Self {
        let entries: Vec<Entry<'a>> = items
            .iter()
            .zip(contents)
            .map(|(item, json)| Entry {
                item,
                parts: parts(json),
            })
            .collect();
        let results = pair(&entries);
        let moved: HashSet<Place> = results.values().copied().collect();
        let mut moved_of = vec![0; entries.len()];
        for (entry, _) in &moved {
            moved_of[*entry] += 1;
        }
        let bilingual = items.iter().any(|i| i.body.variant != Variant::default());
        Self {
            entries,
            results,
            moved,
            moved_of,
            bilingual,
            began: turn.map(|t| began(t, items)),
        }
    }

    /// The entries that are shown at their own place, with their index.
    pub(crate) fn shown(&self) -> impl Iterator<Item = (usize, &Entry<'a>)> {
        let at_own_place = |(at, entry): &(usize, &Entry<'a>)| !self.stands_elsewhere(*at, entry);
        self.entries.iter().enumerate().filter(at_own_place)
    }

    fn stands_elsewhere(&self, at: usize, entry: &Entry<'a>) -> bool {
        !entry.parts.is_empty() && self.moved_of[at] == entry.parts.len()
    }

    /// The parts of an entry that are shown at its place, each with the result that stands beneath it.
    pub(crate) fn parts_of(
        &self,
        at: usize,
    ) -> impl Iterator<Item = (&Part<'a>, Option<Placed<'_, 'a>>)> {
        let parts = self.entries[at].parts.iter().enumerate();
        parts
            .filter(move |(i, _)| !self.moved.contains(&(at, *i)))
            .map(move |(i, part)| (part, self.result_of((at, i))))
    }

    /// What an entry keeps the books of, type by type, when nothing in it is to be read.
    pub(crate) fn bookkeeping(&self, at: usize) -> Option<Vec<String>> {
        let entry = &self.entries[at];
        if entry.item.body.channel != Channel::SystemNote
            || entry.item.redacted
            || entry.parts.is_empty()
        {
            return None;
        }
        entry.parts.iter().map(Part::bookkeeping).collect()
    }

    fn result_of(&self, call: Place) -> Option<Placed<'_, 'a>> {
        let (at, part) = *self.results.get(&call)?;
        let entry = &self.entries[at];
        let stands_for_item = part == 0 && self.stands_elsewhere(at, entry);
        Some(Placed {
            item: entry.item,
            part: &entry.parts[part],
            stands_for_item,
        })
    }
}

/// A result belongs to the first unanswered call of its id before it; a second result stands alone (DESIGN §5).
fn pair(entries: &[Entry<'_>]) -> HashMap<Place, Place> {
    use crate::part::Kind::{Answer, Call};
    let mut open: HashMap<&str, Place> = HashMap::new();
    let mut results = HashMap::new();
    for (at, entry) in entries.iter().enumerate() {
        for (i, part) in entry.parts.iter().enumerate() {
            match &part.kind {
                Call {
                    call_id: Some(id), ..
                } => {
                    open.entry(id).or_insert((at, i));
                }
                Answer {
                    call_id: Some(id), ..
                } => {
                    if let Some(call) = open.remove(id.as_str()) {
                        results.insert(call, (at, i));
                    }
                }
                _ => {}
            }
        }
    }
    results
}
