//! Call ids and tool names that a provider takes, made of those that were recorded.
//!
//! A made one depends on what was recorded alone, as far as it can, so that the same history begins with the same bytes
//! tomorrow: providers cache by the beginning.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use filrouge_engine::restore::{Block, Call, Fates, PlanTurn};
use filrouge_types::TurnId;

/// What a provider asks of ids and names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// Whether an id is taken; `None` where ids are not written.
    pub(crate) id: Option<fn(&str) -> bool>,
    /// Whether a name may begin so.
    pub(crate) first: fn(u8) -> bool,
    /// Whether a name may hold this.
    pub(crate) inner: fn(u8) -> bool,
    /// Longest name in bytes.
    pub(crate) longest: usize,
}

pub(crate) const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

impl Rules {
    fn takes_name(&self, name: &str) -> bool {
        let mut bytes = name.bytes();
        bytes.next().is_some_and(self.first) && bytes.all(self.inner) && name.len() <= self.longest
    }

    /// `name` with `_` for what is not taken, cut to `longest` bytes.
    fn mend(&self, name: &str, longest: usize) -> String {
        let mut mended = String::with_capacity(longest);
        for c in name.chars() {
            let taken = u8::try_from(c)
                .ok()
                .filter(u8::is_ascii)
                .filter(|b| (self.inner)(*b));
            let c = taken.map_or('_', char::from);
            if mended.is_empty() && !u8::try_from(c).is_ok_and(self.first) {
                mended.push('_');
            }
            mended.push(c);
            if mended.len() >= longest {
                break;
            }
        }
        mended.truncate(longest);
        if mended.is_empty() {
            "tool".to_owned()
        } else {
            mended
        }
    }
}

/// What a call is written under.
#[derive(Debug, Clone)]
pub(crate) struct Label<'a> {
    pub(crate) id: Cow<'a, str>,
    pub(crate) name: Cow<'a, str>,
}

/// The labels of a conversation's calls.
pub(crate) struct Labels<'a> {
    /// Of all calls in order.
    pub(crate) labels: Vec<Label<'a>>,
    /// Which items are shown under another id or name than they were recorded under.
    changes: Vec<(u64, &'static str)>,
}

impl Labels<'_> {
    /// Notes what differs from the record. An item's first change is the one that is told, so this comes last: what
    /// became of its content matters more.
    pub(crate) fn note(self, fates: &mut Fates) {
        for (seq, change) in self.changes {
            fates.adapt(seq, change);
        }
    }
}

/// Finds the labels that a provider takes.
pub(crate) fn labels<'a>(turns: &'a [PlanTurn], rules: &Rules) -> Labels<'a> {
    let calls: Vec<(TurnId, &Call)> = turns.iter().flat_map(calls).collect();
    let names = names(&calls, rules);
    let mut ids = Ids::new(&calls, rules);
    let mut labels = Vec::with_capacity(calls.len());
    let mut changes = Vec::new();
    for (turn, call) in &calls {
        let id = ids.take(turn, &call.call_id);
        let name = match names.get(&*call.name) {
            Some(name) => {
                changes.push((call.seq, "tool_name_replaced"));
                Cow::Owned(name.clone())
            }
            None => Cow::Borrowed(&*call.name),
        };
        if matches!(id, Cow::Owned(_)) {
            let both = [Some(call.seq), call.result.seq];
            changes.extend(
                both.into_iter()
                    .flatten()
                    .map(|seq| (seq, "call_id_replaced")),
            );
        }
        labels.push(Label { id, name });
    }
    Labels { labels, changes }
}

fn calls(turn: &PlanTurn) -> impl Iterator<Item = (TurnId, &Call)> {
    let groups = turn.blocks.iter().filter_map(|block| match block {
        Block::Calls(calls) => Some(&calls.calls),
        Block::Say(_) => None,
    });
    groups.flatten().map(|call| (turn.turn_id, call))
}

/// The names that must be replaced, with what replaces them; no two fall together.
fn names<'a>(calls: &[(TurnId, &'a Call)], rules: &Rules) -> HashMap<&'a str, String> {
    let recorded: HashSet<&str> = calls.iter().map(|(_, call)| &*call.name).collect();
    let mut bad: Vec<&str> = recorded
        .iter()
        .copied()
        .filter(|name| !rules.takes_name(name))
        .collect();
    bad.sort_unstable();
    let mut used: HashSet<String> = HashSet::with_capacity(bad.len());
    let mut names = HashMap::with_capacity(bad.len());
    for name in bad {
        let mut made = rules.mend(name, rules.longest);
        let mut salt = 0;
        while recorded.contains(made.as_str()) || used.contains(&made) {
            let hash = hash(&[name.as_bytes(), &u64::to_le_bytes(salt)]) >> 32;
            made = format!("{}_{hash:08x}", rules.mend(name, rules.longest - 9));
            salt += 1;
        }
        used.insert(made.clone());
        names.insert(name, made);
    }
    names
}

/// Gives out ids, each once.
struct Ids<'a> {
    takes: Option<fn(&str) -> bool>,
    recorded: HashSet<&'a str>,
    used: HashSet<Cow<'a, str>>,
}

impl<'a> Ids<'a> {
    fn new(calls: &[(TurnId, &'a Call)], rules: &Rules) -> Self {
        let some = if rules.id.is_some() { calls } else { &[] };
        Self {
            takes: rules.id,
            recorded: some.iter().map(|(_, call)| &*call.call_id).collect(),
            used: HashSet::with_capacity(some.len()),
        }
    }

    fn take(&mut self, turn: &TurnId, id: &'a str) -> Cow<'a, str> {
        let Some(takes) = self.takes else {
            return Cow::Borrowed("");
        };
        if takes(id) && self.used.insert(Cow::Borrowed(id)) {
            return Cow::Borrowed(id);
        }
        let mut salt = 0;
        loop {
            let hash = hash(&[turn.as_bytes(), id.as_bytes(), &u64::to_le_bytes(salt)]) >> 16;
            let made = format!("call_{hash:012x}");
            if !self.recorded.contains(made.as_str()) && self.used.insert(made.clone().into()) {
                return Cow::Owned(made);
            }
            salt += 1;
        }
    }
}

/// FNV-1a, 64 bits, finished by a mix so that its high bits may be cut off alone; the length closes each piece.
fn hash(pieces: &[&[u8]]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for piece in pieces {
        let length = u64::try_from(piece.len()).unwrap_or(u64::MAX).to_le_bytes();
        for byte in piece.iter().chain(&length) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules {
        id: None,
        first: |b| b.is_ascii_alphabetic() || b == b'_',
        inner: is_word,
        longest: 12,
    };

    #[test]
    fn names_are_mended() {
        let cases = [
            ("", "tool"),
            ("a b/ü", "a_b__"),
            ("9lives", "_9lives"),
            ("\u{1f9f5}", "_"),
            ("abcdefghijklmnop", "abcdefghijkl"),
            ("-é-", "_-_-"),
        ];
        for (name, expected) in cases {
            let made = RULES.mend(name, RULES.longest);
            assert_eq!(made, expected);
            assert!(RULES.takes_name(&made));
        }
    }
}
