//! Tracks the states in which each server may show a session.

use std::collections::BTreeSet;

/// An acknowledged turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) id: String,
    pub(super) question: String,
}

/// A state of a session after an acknowledged change.
#[derive(Debug, Clone)]
pub(super) struct State {
    /// The number of the session's incarnation, which grows when a lost session is created again.
    incarnation: u64,
    /// The number of changes within this incarnation.
    version: u64,
    /// The unique id of the change that led to this state.
    change_id: u64,
    pub(super) turns: Vec<Turn>,
    /// The number of items: two for each turn, one for each redaction.
    pub(super) items: u64,
    /// Whether a redaction led to this state: no older state of this incarnation may be shown afterwards.
    redaction: bool,
}

/// What may happen after Redis has lost acknowledged turns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// A server that has seen the lost state reports the session as gone. The other server continues from an older
    /// state.
    Reported,
    /// Servers show an older state, because a promoted replica may lack the newest turns.
    NewestTurns,
}

/// All states of a session, and the newest one that each server has seen.
pub(super) struct History {
    pub(super) loss: Loss,
    states: Vec<State>,
    /// The last state that was shown; `None` after a response that the session is gone.
    shown: Option<State>,
    seen: [Option<State>; 2],
    last_change_id: u64,
}

impl History {
    pub(super) const fn new(loss: Loss) -> Self {
        Self {
            loss,
            states: Vec::new(),
            shown: None,
            seen: [const { None }; 2],
            last_change_id: 0,
        }
    }

    /// Returns the turns of the last state that was shown.
    pub(super) fn turns(&self) -> &[Turn] {
        self.shown.as_ref().map_or(&[], |shown| &shown.turns)
    }

    /// Returns the states from which one of `servers` may have answered, the last shown one first.
    pub(super) fn possible_states(&self, servers: &BTreeSet<usize>) -> Vec<State> {
        let possible =
            |state: &&State| servers.iter().any(|server| self.may_answer(*server, state));
        let mut states: Vec<State> = self.states.iter().rev().filter(possible).cloned().collect();
        let shown = self.shown.as_ref().map(|shown| shown.change_id);
        states.sort_by_key(|state| Some(state.change_id) != shown);
        states
    }

    /// Returns whether a server may answer from a state, given the states that it has seen.
    fn may_answer(&self, server: usize, state: &State) -> bool {
        if self.loss == Loss::NewestTurns {
            return true;
        }
        let seen = self.seen[server].as_ref();
        let newer = seen.is_none_or(|seen| {
            seen.change_id == state.change_id
                || (seen.incarnation, seen.version) < (state.incarnation, state.version)
        });
        let mut redactions = self.states.iter().filter(|other| other.redaction);
        newer
            && !redactions.any(|other| {
                other.incarnation == state.incarnation && other.version > state.version
            })
    }

    /// Applies a change to a state, or creates the session. Returns the new state; `None` if `server` may not answer
    /// from it.
    pub(super) fn apply(
        &mut self,
        server: usize,
        from: Option<State>,
        change: impl FnOnce(&mut State),
    ) -> Option<State> {
        self.last_change_id += 1;
        let mut next = from.unwrap_or_else(|| State {
            incarnation: 1 + self.states.iter().map(|s| s.incarnation).max().unwrap_or(0),
            version: 0,
            change_id: 0,
            turns: Vec::new(),
            items: 0,
            redaction: false,
        });
        (next.version, next.change_id, next.redaction) =
            (next.version + 1, self.last_change_id, false);
        change(&mut next);
        self.may_answer(server, &next).then_some(next)
    }

    /// Records that a server responded from a state.
    pub(super) fn record_state(&mut self, server: usize, state: &State) {
        self.add_state(state);
        self.shown = Some(state.clone());
        self.seen[server] = Some(state.clone());
    }

    /// Records that the session reached one of these states. Which one is unknown, because the session is gone.
    pub(super) fn record_one_of(&mut self, states: &[State]) {
        for state in states {
            self.add_state(&State {
                redaction: false,
                ..state.clone()
            });
        }
    }

    /// Adds a state unless the history already contains it.
    fn add_state(&mut self, state: &State) {
        if self
            .states
            .iter()
            .all(|known| known.change_id != state.change_id)
        {
            self.states.push(state.clone());
        }
    }

    /// Records that the session is reported as gone.
    pub(super) fn record_loss(&mut self) {
        self.shown = None;
    }
}

impl State {
    /// Returns the questions that a list of turns shows in this state.
    pub(super) fn questions(&self, redacted: &BTreeSet<String>) -> Vec<String> {
        let shown = self.turns.iter().map(|turn| turn.question.clone());
        shown.filter(|q| !redacted.contains(q)).collect()
    }

    pub(super) fn contains(&self, turn: &Turn) -> bool {
        self.turns.contains(turn)
    }

    pub(super) fn add_turn(&mut self, turn: Turn) {
        self.turns.push(turn);
        self.items += 2;
    }

    pub(super) const fn redact(&mut self) {
        self.items += 1;
        self.redaction = true;
    }
}
