//! Tracks in which states each server may show a session.

use std::collections::BTreeSet;

/// An acknowledged turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) id: String,
    pub(super) question: String,
}

/// An acknowledged state.
#[derive(Debug, Clone)]
pub(super) struct State {
    /// The session's incarnation: it grows when the session is created anew.
    life: u64,
    /// The number of changes within this incarnation.
    version: u64,
    /// The unique id of the change.
    word: u64,
    pub(super) turns: Vec<Turn>,
    /// The number of items: two for each turn, one for each redaction.
    pub(super) items: u64,
    /// Whether a redaction produced it: no older state of this incarnation may be shown afterwards.
    redaction: bool,
}

/// The consequence when Redis has lost acknowledged turns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// Servers that have seen the lost state report the session as gone. Other servers continue from the older state.
    Reported,
    /// A promoted replica may lack the newest turns.
    OfTheNewest,
}

/// All states of a session, and the newest one that each server has seen.
pub(super) struct History {
    pub(super) loss: Loss,
    states: Vec<State>,
    /// The state that was shown last; `None` after an answer that the session is gone.
    now: Option<State>,
    seen: [Option<State>; 2],
    last_word: u64,
}

impl History {
    pub(super) const fn new(loss: Loss) -> Self {
        Self {
            loss,
            states: Vec::new(),
            now: None,
            seen: [const { None }; 2],
            last_word: 0,
        }
    }

    /// The turns that were shown last.
    pub(super) fn turns(&self) -> &[Turn] {
        self.now.as_ref().map_or(&[], |now| &now.turns)
    }

    /// The states from which one of `servers` may have answered, the likeliest first.
    pub(super) fn open_to(&self, servers: &BTreeSet<usize>) -> Vec<State> {
        let may = |state: &&State| servers.iter().any(|server| self.may_answer(*server, state));
        let mut all: Vec<State> = self.states.iter().rev().filter(may).cloned().collect();
        let now = self.now.as_ref().map(|now| now.word);
        all.sort_by_key(|state| Some(state.word) != now);
        all
    }

    /// Whether a server may answer from a state, after all that it has seen.
    fn may_answer(&self, server: usize, of: &State) -> bool {
        if self.loss == Loss::OfTheNewest {
            return true;
        }
        let seen = self.seen[server].as_ref();
        let newer = seen.is_none_or(|seen| {
            seen.word == of.word || (seen.life, seen.version) < (of.life, of.version)
        });
        let mut redactions = self.states.iter().filter(|other| other.redaction);
        newer && !redactions.any(|other| other.life == of.life && other.version > of.version)
    }

    /// Applies a change to a state, or to none; `None` when `server` cannot answer from the result.
    pub(super) fn changed(
        &mut self,
        server: usize,
        from: Option<State>,
        change: impl FnOnce(&mut State),
    ) -> Option<State> {
        self.last_word += 1;
        let mut next = from.unwrap_or_else(|| State {
            life: 1 + self.states.iter().map(|s| s.life).max().unwrap_or(0),
            version: 0,
            word: 0,
            turns: Vec::new(),
            items: 0,
            redaction: false,
        });
        (next.version, next.word, next.redaction) = (next.version + 1, self.last_word, false);
        change(&mut next);
        self.may_answer(server, &next).then_some(next)
    }

    /// Notes that a server answered from a state.
    pub(super) fn saw(&mut self, server: usize, state: &State) {
        self.keep(state);
        self.now = Some(state.clone());
        self.seen[server] = Some(state.clone());
    }

    /// Notes that one of these states was reached; which one is unknown, as the session is gone.
    pub(super) fn one_of(&mut self, states: &[State]) {
        for state in states {
            self.keep(&State {
                redaction: false,
                ..state.clone()
            });
        }
    }

    fn keep(&mut self, state: &State) {
        if self.states.iter().all(|known| known.word != state.word) {
            self.states.push(state.clone());
        }
    }

    /// Notes that the session is reported as gone.
    pub(super) fn lost(&mut self) {
        self.now = None;
    }
}

impl State {
    /// The questions that a list of this state shows.
    pub(super) fn questions(&self, redacted: &BTreeSet<String>) -> Vec<String> {
        let shown = self.turns.iter().map(|turn| turn.question.clone());
        shown.filter(|q| !redacted.contains(q)).collect()
    }

    pub(super) fn has(&self, turn: &Turn) -> bool {
        self.turns.contains(turn)
    }

    pub(super) fn say(&mut self, turn: Turn) {
        self.turns.push(turn);
        self.items += 2;
    }

    pub(super) const fn redact(&mut self) {
        self.items += 1;
        self.redaction = true;
    }
}
