//! The calls that results answer.

use std::collections::BTreeMap;

use filrouge_types::{Item, JsonText, TurnId};

use super::parts::{Told, Used, parts};

/// How many items a result's call may lie before it; of one that lies further back the tool is not told.
pub(super) const LOOK_BACK: u64 = 1024;
/// Most calls that are remembered.
const REMEMBERED: usize = 16_384;

/// The newest call of each id that a page has come across. What it does not know is looked up in the journal, so
/// that a row does not depend on where its page began.
#[derive(Default)]
pub(super) struct Calls(BTreeMap<(TurnId, String), (u64, JsonText)>);

impl Calls {
    /// Remembers a call of the item at `seq`.
    pub(super) fn note(&mut self, turn: TurnId, seq: u64, call: &Used) {
        if let (Some(id), Some(tool)) = (&call.call_id, &call.tool) {
            self.0.insert((turn, id.to_plain()), (seq, tool.clone()));
        }
    }

    /// Forgets what is too much to remember; between items, for those of one item are not looked up.
    pub(super) fn shrink(&mut self) {
        if self.0.len() > REMEMBERED {
            self.forget();
        }
    }

    /// Forgets all, as when items were passed over.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// The call with this id: the seq of its item, and its tool.
    pub(super) fn get(&self, turn: TurnId, id: &str) -> Option<&(u64, JsonText)> {
        self.0.get(&(turn, id.to_owned()))
    }
}

/// The tool of an item's last call with this id.
pub(super) fn last_call(item: &Item, id: &str) -> Option<JsonText> {
    let of = |used: &Used| used.call_id.as_ref().is_some_and(|c| c.to_plain() == id);
    let calls = parts(&item.body.parts).filter_map(|part| match part.told {
        Told::Used(call) if !call.is_result && of(&call) => call.tool,
        _ => None,
    });
    calls.last()
}
