//! Derives call ids and tool names that a provider accepts from the recorded ones.
//!
//! As far as possible, a derived label depends only on the record, so that the messages of a longer history still begin
//! with the same bytes: providers cache requests by their prefix.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use filrouge_engine::restore::{Block, Call, PlanTurn};
use filrouge_types::TurnId;

/// A provider's rules for ids and names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LabelRules {
    /// Whether an id is accepted; `None` where ids are not written.
    pub(crate) accepts_id: Option<fn(&str) -> bool>,
    /// Whether a name may begin with this byte.
    pub(crate) can_begin: fn(u8) -> bool,
    /// Whether a name may contain this byte.
    pub(crate) can_contain: fn(u8) -> bool,
    /// The maximum length of a name, in bytes.
    pub(crate) max_name_bytes: usize,
}

pub(crate) const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

impl LabelRules {
    fn accepts_name(&self, name: &str) -> bool {
        let mut bytes = name.bytes();
        bytes.next().is_some_and(self.can_begin)
            && bytes.all(self.can_contain)
            && name.len() <= self.max_name_bytes
    }

    /// Replaces each character of `name` that the provider refuses with `_`, and cuts the result to `max_name_bytes`
    /// bytes. A name whose first byte the provider refuses gets a leading `_`; an empty name becomes `tool`.
    fn accepted_name(&self, name: &str, max_name_bytes: usize) -> String {
        let mut cut_name = String::with_capacity(max_name_bytes);
        for c in name.chars() {
            let accepted = u8::try_from(c).ok().filter(|b| (self.can_contain)(*b));
            let c = accepted.map_or('_', char::from);
            if cut_name.is_empty() && !u8::try_from(c).is_ok_and(self.can_begin) {
                cut_name.push('_');
            }
            cut_name.push(c);
            if cut_name.len() >= max_name_bytes {
                break;
            }
        }
        cut_name.truncate(max_name_bytes);
        if cut_name.is_empty() {
            "tool".to_owned()
        } else {
            cut_name
        }
    }
}

/// The id and the name under which a call is written.
#[derive(Debug, Clone)]
pub(crate) struct Label<'a> {
    pub(crate) id: Cow<'a, str>,
    pub(crate) name: Cow<'a, str>,
}

/// The labels of a conversation's calls.
pub(crate) struct Labels<'a> {
    /// The labels of all calls, in order.
    pub(crate) labels: Vec<Label<'a>>,
    /// The seqs of items whose id or name was replaced, each with the change to report.
    pub(crate) changes: Vec<(u64, &'static str)>,
}

/// Determines a label that the provider accepts for each call.
pub(crate) fn assign_labels<'a>(turns: &'a [PlanTurn], rules: &LabelRules) -> Labels<'a> {
    let calls: Vec<(TurnId, &Call)> = turns.iter().flat_map(turn_calls).collect();
    let names = replacement_names(&calls, rules);
    let mut ids = IdAssigner::new(&calls, rules);
    let mut labels = Vec::with_capacity(calls.len());
    let mut changes = Vec::new();
    for (turn, call) in &calls {
        let id = ids.assign(turn, &call.call_id);
        let name = match names.get(&*call.name) {
            Some(name) => {
                changes.push((call.seq, "tool_name_replaced"));
                Cow::Owned(name.clone())
            }
            None => Cow::Borrowed(&*call.name),
        };
        if matches!(id, Cow::Owned(_)) {
            let seqs = [Some(call.seq), call.result.seq].into_iter().flatten();
            changes.extend(seqs.map(|seq| (seq, "call_id_replaced")));
        }
        labels.push(Label { id, name });
    }
    Labels { labels, changes }
}

fn turn_calls(turn: &PlanTurn) -> impl Iterator<Item = (TurnId, &Call)> {
    let groups = turn.blocks.iter().filter_map(|block| match block {
        Block::Calls(calls) => Some(&calls.calls),
        Block::Message(_) => None,
    });
    groups.flatten().map(|call| (turn.turn_id, call))
}

/// The distinct replacements of the names that the provider refuses, by name.
fn replacement_names<'a>(
    calls: &[(TurnId, &'a Call)],
    rules: &LabelRules,
) -> HashMap<&'a str, String> {
    let recorded: HashSet<&str> = calls.iter().map(|(_, call)| &*call.name).collect();
    let mut refused: Vec<&str> = recorded
        .iter()
        .copied()
        .filter(|name| !rules.accepts_name(name))
        .collect();
    refused.sort_unstable();
    let mut used: HashSet<String> = HashSet::with_capacity(refused.len());
    let mut names = HashMap::with_capacity(refused.len());
    for name in refused {
        let mut derived = rules.accepted_name(name, rules.max_name_bytes);
        let mut salt = 0;
        while recorded.contains(derived.as_str()) || used.contains(&derived) {
            let hash = hash(&[name.as_bytes(), &u64::to_le_bytes(salt)]) >> 32;
            derived = format!(
                "{}_{hash:08x}",
                rules.accepted_name(name, rules.max_name_bytes - 9)
            );
            salt += 1;
        }
        used.insert(derived.clone());
        names.insert(name, derived);
    }
    names
}

/// Determines distinct ids.
struct IdAssigner<'a> {
    accepts: Option<fn(&str) -> bool>,
    /// All recorded ids, none of which a derived id may equal.
    recorded: HashSet<&'a str>,
    /// The ids that were returned.
    used: HashSet<Cow<'a, str>>,
}

impl<'a> IdAssigner<'a> {
    fn new(calls: &[(TurnId, &'a Call)], rules: &LabelRules) -> Self {
        let id_calls = match rules.accepts_id {
            Some(_) => calls,
            None => &[],
        };
        Self {
            accepts: rules.accepts_id,
            recorded: id_calls.iter().map(|(_, call)| &*call.call_id).collect(),
            used: HashSet::with_capacity(id_calls.len()),
        }
    }

    /// The id under which a call is written: the recorded one if the provider accepts it and no earlier call has it,
    /// else a derived one.
    fn assign(&mut self, turn: &TurnId, id: &'a str) -> Cow<'a, str> {
        let Some(accepts) = self.accepts else {
            return Cow::Borrowed("");
        };
        if accepts(id) && self.used.insert(Cow::Borrowed(id)) {
            return Cow::Borrowed(id);
        }
        let mut salt = 0;
        loop {
            let hash = hash(&[turn.as_bytes(), id.as_bytes(), &u64::to_le_bytes(salt)]) >> 16;
            let derived = format!("call_{hash:012x}");
            if !self.recorded.contains(derived.as_str()) && self.used.insert(derived.clone().into())
            {
                return Cow::Owned(derived);
            }
            salt += 1;
        }
    }
}

/// FNV-1a, 64 bits, with a final mix so that the high bits can be used alone. Hashing the length delimits each piece.
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

    const RULES: LabelRules = LabelRules {
        accepts_id: None,
        can_begin: |b| b.is_ascii_alphabetic() || b == b'_',
        can_contain: is_word,
        max_name_bytes: 12,
    };

    #[test]
    fn refused_characters_of_names_are_replaced() {
        let cases = [
            ("", "tool"),
            ("a b/ü", "a_b__"),
            ("9lives", "_9lives"),
            ("\u{1f9f5}", "_"),
            ("abcdefghijklmnop", "abcdefghijkl"),
            ("-é-", "_-_-"),
        ];
        for (name, expected) in cases {
            let derived = RULES.accepted_name(name, RULES.max_name_bytes);
            assert_eq!(derived, expected);
            assert!(RULES.accepts_name(&derived));
        }
    }
}
