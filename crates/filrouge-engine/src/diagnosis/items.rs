//! Examines the items of the examined turns, and the newest items.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use filrouge_store::read::{LedgerSnapshot, VerifiedSession};
use filrouge_types::{Channel, Failure, Item, Part, TurnId, TurnStatus};

use super::report::{
    Diagnosis, LastItem, TEXT_MAX, TurnError, UnansweredCall, age_ms, concerns_data,
};
use super::session::{ExaminedTurns, report_unreadable_item};

/// The number of items that one query reads.
const ITEMS_PER_READ: usize = 256;
/// The maximum number of unanswered calls, and of errors, that a diagnosis shows: the newest.
const SHOWN_MAX: usize = 100;

/// A scan of a session's items, from the first item of the examined turns to the session's newest item.
pub(super) struct ItemScan {
    first_seq: u64,
    last_seq: u64,
    /// The first seq of the newest items.
    newest_from: u64,
    /// The states of the turns whose items are examined.
    turn_statuses: HashMap<TurnId, TurnStatus>,
    /// The calls by turn and call id; `None` once a call has a result. Of several calls with the same id, the first
    /// counts.
    calls: HashMap<(TurnId, String), Option<UnansweredCall>>,
    errors: VecDeque<TurnError>,
    /// Whether a turn's newest human-in-the-loop item is a question.
    waits_for_human: HashMap<TurnId, bool>,
}

impl ItemScan {
    /// A scan of the items of `turns` and the newest `items` items of a session. `last_seq` is the session's newest
    /// seq.
    pub(super) fn new(turns: &ExaminedTurns, last_seq: u64, items: usize) -> Self {
        let newest_from = last_seq.saturating_sub(items as u64) + 1;
        let first = turns.iter().map(|row| row.first_seq).min();
        Self {
            first_seq: first
                .map_or(newest_from, |first| first.min(newest_from))
                .max(1),
            last_seq,
            newest_from,
            turn_statuses: turns.iter().map(|row| (row.turn_id, row.status)).collect(),
            calls: HashMap::new(),
            errors: VecDeque::new(),
            waits_for_human: HashMap::new(),
        }
    }

    /// Examines all items. Reports and skips unreadable ones.
    pub(super) fn run(
        mut self,
        snapshot: &LedgerSnapshot<'_>,
        session: &VerifiedSession,
        diagnosis: &mut Diagnosis,
    ) -> Result<(), Failure> {
        let mut after = self.first_seq - 1;
        // Up to this seq, items are read one at a time, to find the unreadable items of a page that could not be read.
        let mut single_until = after;
        while after < self.last_seq {
            let limit = if after < single_until {
                1
            } else {
                ITEMS_PER_READ
            };
            match snapshot.items_of(session, after, limit) {
                Ok((page, _)) => {
                    let Some(last) = page.last() else { break };
                    after = last.seq;
                    page.into_iter()
                        .for_each(|item| self.examine_item(item, diagnosis));
                }
                Err(failure) if concerns_data(&failure) && limit > 1 => {
                    single_until = after + ITEMS_PER_READ as u64;
                }
                Err(failure) if concerns_data(&failure) => {
                    after += 1;
                    report_unreadable_item(diagnosis, after, &failure);
                }
                Err(failure) => return Err(failure),
            }
        }
        self.finish(diagnosis);
        Ok(())
    }

    fn examine_item(&mut self, item: Item, diagnosis: &mut Diagnosis) {
        let turn = item.turn_id;
        let examined = turn.and_then(|id| Some((id, *self.turn_statuses.get(&id)?)));
        if let Some((turn, status)) = examined.filter(|_| !item.redacted) {
            match item.body.channel {
                Channel::HitlRequest => _ = self.waits_for_human.insert(turn, true),
                Channel::HitlResponse => _ = self.waits_for_human.insert(turn, false),
                _ => {}
            }
            for part in Part::all(&item.body.parts) {
                self.examine_part(&item, (turn, status), &part, diagnosis);
            }
        }
        if item.seq >= self.newest_from {
            diagnosis.items.push(shorten(item));
        }
    }

    fn examine_part(
        &mut self,
        item: &Item,
        (turn, status): (TurnId, TurnStatus),
        part: &Part<'_>,
        diagnosis: &Diagnosis,
    ) {
        if part.is("error") {
            if self.errors.len() == SHOWN_MAX {
                self.errors.pop_front();
            }
            self.errors.push_back(TurnError {
                turn_id: turn,
                seq: item.seq,
                at: item.created_at,
                code: part.text("code"),
                message: part.text("message"),
                source: part.text("source"),
                retryable: part.flag("retryable"),
                detail: part.value("detail"),
                part: filrouge_types::RawJson::from_checked(part.raw),
            });
        }
        let Some(call_id) = part.text("call_id") else {
            return;
        };
        if part.is("tool_call") {
            if let Entry::Vacant(entry) = self.calls.entry((turn, call_id.clone())) {
                entry.insert(Some(UnansweredCall {
                    call_id,
                    tool: part.text("name"),
                    args: part.value("args"),
                    seq: item.seq,
                    turn_id: turn,
                    turn_status: status,
                    at: item.created_at,
                    age_ms: age_ms(diagnosis.at, item.created_at),
                }));
            }
        } else if part.is("tool_result")
            && let Some(call) = self.calls.get_mut(&(turn, call_id))
        {
            *call = None;
        }
    }

    fn finish(self, diagnosis: &mut Diagnosis) {
        for turn in &mut diagnosis.pending {
            turn.waits_for_human = self.waits_for_human.get(&turn.turn_id) == Some(&true);
        }
        let mut calls: Vec<UnansweredCall> = self.calls.into_values().flatten().collect();
        calls.sort_by(|a, b| (a.seq, &a.call_id).cmp(&(b.seq, &b.call_id)));
        calls.drain(..calls.len().saturating_sub(SHOWN_MAX));
        diagnosis.unanswered = calls;
        diagnosis.errors = self.errors.into();
    }
}

fn shorten(item: Item) -> LastItem {
    let mut text = item.body.display_text();
    let end = text.char_indices().nth(TEXT_MAX).map(|(at, _)| at);
    let cut = end.is_some();
    text.truncate(end.unwrap_or(text.len()));
    LastItem {
        seq: item.seq,
        item_id: item.body.item_id,
        turn_id: item.turn_id,
        role: item.body.role,
        channel: item.body.channel,
        variant: item.body.variant,
        agent: item.body.agent,
        model: item.body.model,
        created_at: item.created_at,
        redacted: item.redacted,
        text,
        cut,
    }
}
