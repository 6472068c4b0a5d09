//! Matches calls with their results, and keeps or drops groups of calls (DESIGN §5).

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use filrouge_types::JsonText;

use super::pieces::{Piece, Shaper};
use super::plan::{CallResult, Content, ResultContent};
use super::query::Unanswered;

/// The result given to a call whose result was not recorded (`unanswered=error`).
const NO_RESULT: &str = "No result of this call was recorded.";

/// The id of a call (`true`) or a result (`false`).
fn call_id(piece: &Piece) -> Option<(bool, &str)> {
    match piece {
        Piece::Call(call) => Some((true, &call.call_id)),
        Piece::Result(call_id, _) => Some((false, call_id)),
        _ => None,
    }
}

impl Shaper {
    /// If calls with the same id are in both languages, keeps those in the requested one; likewise for results.
    pub(super) fn choose_variants(&mut self) {
        if self.atoms.iter().all(|a| !a.other_variant) {
            return;
        }
        let wanted = self.atoms.iter().filter(|a| !a.other_variant);
        let wanted: HashSet<(bool, String)> = wanted
            .filter_map(|a| call_id(&a.piece))
            .map(|(call, id)| (call, id.to_owned()))
            .collect();
        for at in 0..self.atoms.len() {
            let atom = &self.atoms[at];
            let id = call_id(&atom.piece).filter(|_| atom.other_variant);
            if id.is_some_and(|(call, id)| wanted.contains(&(call, id.to_owned()))) {
                self.omit(at, Piece::Gone, "other_variant");
            }
        }
    }

    /// Attaches to each call the first result after it. If several calls or results have the same id, the first counts.
    pub(super) fn answer_calls(&mut self) {
        let mut calls: HashMap<String, usize> = HashMap::new();
        for at in 0..self.atoms.len() {
            match &mut self.atoms[at].piece {
                Piece::Call(call) => {
                    if let Entry::Vacant(slot) = calls.entry(call.call_id.clone()) {
                        slot.insert(at);
                    } else {
                        self.omit(at, Piece::Repeated, "duplicate_call");
                    }
                }
                Piece::Result(..) => self.attach(at, &calls),
                _ => {}
            }
        }
    }

    fn attach(&mut self, at: usize, calls: &HashMap<String, usize>) {
        let piece = std::mem::replace(&mut self.atoms[at].piece, Piece::Answered);
        let Piece::Result(call_id, result) = piece else {
            return;
        };
        let Some(call) = calls.get(&call_id) else {
            return self.omit(at, Piece::Stray, "orphan_result");
        };
        match &mut self.atoms[*call].piece {
            Piece::Call(call) if call.result.is_none() => call.result = Some((Some(at), result)),
            _ => self.omit(at, Piece::Stray, "duplicate_result"),
        }
    }

    /// Drops or completes groups. A group is a series of calls without another step in between; it is kept only if
    /// every call in it is present and answered.
    pub(super) fn close_groups(&mut self, unanswered: Unanswered) {
        let mut group: Vec<usize> = Vec::new();
        let mut redacted = false;
        for at in 0..self.atoms.len() {
            match self.atoms[at].piece {
                Piece::Call(_) => group.push(at),
                Piece::RedactedCall => redacted = true,
                Piece::Gone | Piece::GroupGone | Piece::Repeated => {}
                // After a redacted call, a stray result may be the redacted call's, and then ends the group.
                Piece::Stray if !redacted => {}
                _ => {
                    self.close_group(&std::mem::take(&mut group), unanswered, redacted);
                    redacted = false;
                }
            }
        }
        self.close_group(&group, unanswered, redacted);
    }

    fn is_open(&self, at: usize) -> bool {
        matches!(&self.atoms[at].piece, Piece::Call(call) if call.result.is_none())
    }

    fn close_group(&mut self, group: &[usize], unanswered: Unanswered, redacted: bool) {
        if redacted {
            for at in group {
                self.drop_call(*at, "call_group_redacted");
            }
            return;
        }
        if !group.iter().any(|at| self.is_open(*at)) {
            return;
        }
        for at in group {
            match (unanswered, self.is_open(*at)) {
                (Unanswered::Error, true) => self.answer_by_error(*at),
                (Unanswered::Error, false) => {}
                (Unanswered::Drop, true) => self.drop_call(*at, "unanswered_call"),
                (Unanswered::Drop, false) => self.drop_call(*at, "call_group_unanswered"),
            }
        }
    }

    /// Drops a call and its result.
    fn drop_call(&mut self, at: usize, reason: &'static str) {
        if let Piece::Call(call) = &self.atoms[at].piece
            && let Some((Some(result), _)) = call.result
        {
            self.omit(result, Piece::Gone, reason);
        }
        self.omit(at, Piece::GroupGone, reason);
    }

    fn answer_by_error(&mut self, at: usize) {
        let atom = &mut self.atoms[at];
        if let Piece::Call(call) = &mut atom.piece {
            let text = JsonText::from_plain(NO_RESULT);
            let result = CallResult {
                seq: None,
                ok: false,
                content: ResultContent::Contents(vec![Content::Text(text)]),
            };
            call.result = Some((None, result));
            self.dispositions[atom.item]
                .reason
                .get_or_insert("error_result_added");
        }
    }
}
