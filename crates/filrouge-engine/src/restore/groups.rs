//! Matches calls with their results, and keeps or drops groups of calls (DESIGN §5).

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use filrouge_types::JsonText;

use super::pieces::{Piece, Shaper};
use super::plan::{CallResult, Content, ResultContent};
use super::query::Unanswered;

/// The result given to a call whose result was not recorded (`unanswered=error`).
const NO_RESULT: &str = "No result of this call was recorded.";

/// The call id of a piece, with `true` for a call and `false` for a result; `None` for any other piece.
fn call_id(piece: &Piece) -> Option<(bool, &str)> {
    match piece {
        Piece::Call(call) => Some((true, &call.call_id)),
        Piece::Result(call_id, _) => Some((false, call_id)),
        _ => None,
    }
}

impl Shaper {
    /// Of calls that have the same id in both languages, keeps those in the requested language; likewise for results.
    pub(super) fn choose_variants(&mut self) {
        if self.entries.iter().all(|a| !a.other_variant) {
            return;
        }
        let requested = self.entries.iter().filter(|a| !a.other_variant);
        let requested: HashSet<(bool, String)> = requested
            .filter_map(|a| call_id(&a.piece))
            .map(|(is_call, id)| (is_call, id.to_owned()))
            .collect();
        for at in 0..self.entries.len() {
            let entry = &self.entries[at];
            let id = call_id(&entry.piece).filter(|_| entry.other_variant);
            if id.is_some_and(|(is_call, id)| requested.contains(&(is_call, id.to_owned()))) {
                self.omit(at, Piece::Removed, "other_variant");
            }
        }
    }

    /// Attaches to each call the first result after it. Of several calls or results with the same id, only the first is
    /// kept.
    pub(super) fn attach_results(&mut self) {
        let mut calls: HashMap<String, usize> = HashMap::new();
        for at in 0..self.entries.len() {
            match &mut self.entries[at].piece {
                Piece::Call(call) => {
                    if let Entry::Vacant(vacant) = calls.entry(call.call_id.clone()) {
                        vacant.insert(at);
                    } else {
                        self.omit(at, Piece::DuplicateCall, "duplicate_call");
                    }
                }
                Piece::Result(..) => self.attach_result(at, &calls),
                _ => {}
            }
        }
    }

    fn attach_result(&mut self, at: usize, calls: &HashMap<String, usize>) {
        let piece = std::mem::replace(&mut self.entries[at].piece, Piece::GroupEnd);
        let Piece::Result(call_id, result) = piece else {
            return;
        };
        let Some(call) = calls.get(&call_id) else {
            return self.omit(at, Piece::UnmatchedResult, "orphan_result");
        };
        match &mut self.entries[*call].piece {
            Piece::Call(call) if call.result.is_none() => call.result = Some((Some(at), result)),
            _ => self.omit(at, Piece::UnmatchedResult, "duplicate_result"),
        }
    }

    /// Drops or completes groups. A group is a series of calls with no other step between them. It is kept only if
    /// every call in it is present and has a result.
    pub(super) fn close_groups(&mut self, unanswered: Unanswered) {
        let mut group: Vec<usize> = Vec::new();
        let mut redacted = false;
        for at in 0..self.entries.len() {
            match self.entries[at].piece {
                Piece::Call(_) => group.push(at),
                Piece::RedactedCall => redacted = true,
                Piece::Removed | Piece::DroppedCall | Piece::DuplicateCall => {}
                // After a redacted call, an unmatched result may be that call's result, so it ends the group.
                Piece::UnmatchedResult if !redacted => {}
                _ => {
                    self.close_group(&std::mem::take(&mut group), unanswered, redacted);
                    redacted = false;
                }
            }
        }
        self.close_group(&group, unanswered, redacted);
    }

    fn is_unanswered(&self, at: usize) -> bool {
        matches!(&self.entries[at].piece, Piece::Call(call) if call.result.is_none())
    }

    fn close_group(&mut self, group: &[usize], unanswered: Unanswered, redacted: bool) {
        if redacted {
            for at in group {
                self.drop_call(*at, "call_group_redacted");
            }
            return;
        }
        if !group.iter().any(|at| self.is_unanswered(*at)) {
            return;
        }
        for at in group {
            match (unanswered, self.is_unanswered(*at)) {
                (Unanswered::Error, true) => self.answer_with_error(*at),
                (Unanswered::Error, false) => {}
                (Unanswered::Drop, true) => self.drop_call(*at, "unanswered_call"),
                (Unanswered::Drop, false) => self.drop_call(*at, "call_group_unanswered"),
            }
        }
    }

    /// Drops a call and its result.
    fn drop_call(&mut self, at: usize, reason: &'static str) {
        if let Piece::Call(call) = &self.entries[at].piece
            && let Some((Some(result), _)) = call.result
        {
            self.omit(result, Piece::Removed, reason);
        }
        self.omit(at, Piece::DroppedCall, reason);
    }

    fn answer_with_error(&mut self, at: usize) {
        let entry = &mut self.entries[at];
        if let Piece::Call(call) = &mut entry.piece {
            let text = JsonText::from_plain(NO_RESULT);
            let result = CallResult {
                seq: None,
                ok: false,
                content: ResultContent::Contents(vec![Content::Text(text)]),
            };
            call.result = Some((None, result));
            self.dispositions[entry.item]
                .reason
                .get_or_insert("error_result_added");
        }
    }
}
