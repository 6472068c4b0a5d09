//! Finds the tool call that a result answers.

use std::collections::BTreeMap;

use filrouge_types::{Item, JsonText, TurnId};

use super::parts::{CallOrResult, PartContent, parts};

/// The number of items before a result that are searched for its call; the tool of an older call stays unknown.
pub(super) const LOOK_BACK: u64 = 1024;
/// The maximum number of calls in the index.
const CALLS_MAX: usize = 16_384;

/// For each turn and call id, the newest call that this page has read: its item's seq and its tool. Other calls are
/// looked up in the ledger, so that a row does not depend on where its page began.
#[derive(Default)]
pub(super) struct CallIndex(BTreeMap<(TurnId, String), (u64, JsonText)>);

impl CallIndex {
    /// Adds a call of the item at `seq`.
    pub(super) fn insert(&mut self, turn: TurnId, seq: u64, call: &CallOrResult) {
        if let (Some(id), Some(tool)) = (&call.call_id, &call.tool) {
            self.0.insert((turn, id.to_plain()), (seq, tool.clone()));
        }
    }

    /// Removes all calls when there are too many. Called only between items: a lookup in the ledger does not find a
    /// call of the current item.
    pub(super) fn clear_if_full(&mut self) {
        if self.0.len() > CALLS_MAX {
            self.clear();
        }
    }

    /// Removes all calls. Must be called after items were skipped, because these may contain newer calls with the same
    /// ids.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The newest call with this id: its item's seq and its tool.
    pub(super) fn get(&self, turn: TurnId, id: &str) -> Option<&(u64, JsonText)> {
        self.0.get(&(turn, id.to_owned()))
    }
}

/// The tool of an item's last call with this id.
pub(super) fn last_call(item: &Item, id: &str) -> Option<JsonText> {
    let has_id = |call_or_result: &CallOrResult| {
        call_or_result
            .call_id
            .as_ref()
            .is_some_and(|c| c.to_plain() == id)
    };
    let calls = parts(&item.body.parts).filter_map(|part| match part.content {
        PartContent::CallOrResult(call) if !call.is_result && has_id(&call) => call.tool,
        _ => None,
    });
    calls.last()
}
