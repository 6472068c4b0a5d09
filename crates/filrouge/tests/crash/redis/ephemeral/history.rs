//! Which states a session may be shown in, by which server.

use std::collections::BTreeSet;

/// An acknowledged turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) id: String,
    pub(super) question: String,
}

/// A state that was acknowledged.
#[derive(Debug, Clone)]
pub(super) struct State {
    /// How many times the session had begun.
    life: u64,
    /// How many changes it has had since.
    version: u64,
    /// No other change has it.
    word: u64,
    pub(super) turns: Vec<Turn>,
    /// Its items: two of each turn, one of each redaction.
    pub(super) items: u64,
    /// Whether a redaction has made it: no older state of its life is shown any more.
    redaction: bool,
}

/// What becomes of acknowledged turns that Redis has lost.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// The session is gone, as every server says that has seen them. Another one goes on from the older state.
    Told,
    /// A replica that was promoted may lack the newest ones.
    OfTheNewest,
}

/// All states of a session, and the newest one that each server is known to have seen.
pub(super) struct History {
    pub(super) loss: Loss,
    states: Vec<State>,
    /// The state that was told last, unless it was told that there is none.
    now: Option<State>,
    seen: [Option<State>; 2],
    words: u64,
}

impl History {
    pub(super) const fn new(loss: Loss) -> Self {
        Self {
            loss,
            states: Vec::new(),
            now: None,
            seen: [const { None }; 2],
            words: 0,
        }
    }

    /// The turns that were told last.
    pub(super) fn turns(&self) -> &[Turn] {
        self.now.as_ref().map_or(&[], |now| &now.turns)
    }

    /// The states that one of `servers` may have found, the likeliest first.
    pub(super) fn open_to(&self, servers: &BTreeSet<usize>) -> Vec<State> {
        let may = |state: &&State| servers.iter().any(|server| self.shows(*server, state));
        let mut all: Vec<State> = self.states.iter().rev().filter(may).cloned().collect();
        let now = self.now.as_ref().map(|now| now.word);
        all.sort_by_key(|state| Some(state.word) != now);
        all
    }

    /// Whether a server that has seen what it has may answer from a state.
    fn shows(&self, server: usize, of: &State) -> bool {
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

    /// What a change makes of a state, or of none; `None` when `server` cannot answer from that.
    pub(super) fn changed(
        &mut self,
        server: usize,
        from: Option<State>,
        change: impl FnOnce(&mut State),
    ) -> Option<State> {
        self.words += 1;
        let mut next = from.unwrap_or_else(|| State {
            life: 1 + self.states.iter().map(|s| s.life).max().unwrap_or(0),
            version: 0,
            word: 0,
            turns: Vec::new(),
            items: 0,
            redaction: false,
        });
        (next.version, next.word, next.redaction) = (next.version + 1, self.words, false);
        change(&mut next);
        self.shows(server, &next).then_some(next)
    }

    /// A server has answered from a state.
    pub(super) fn saw(&mut self, server: usize, state: &State) {
        self.keep(state);
        self.now = Some(state.clone());
        self.seen[server] = Some(state.clone());
    }

    /// Of these states one was made, and nobody has said which before the session was gone.
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

    /// It was told that the session is gone.
    pub(super) fn lost(&mut self) {
        self.now = None;
    }
}

impl State {
    /// What is shown of it.
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
