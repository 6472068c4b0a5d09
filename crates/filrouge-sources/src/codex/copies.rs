//! Recognizes records that a fork or a subagent copied from the thread it was created from.
//!
//! A copied record is written with the time of the copying. It is recognized by the id of another thread; by a turn
//! that began before this session was created (turn ids contain a time); by a time before this session; and, where
//! records name neither thread nor turn, by its position after another session's first record, within the burst of writing
//! that created the file.

use std::collections::HashMap;

/// Records without ids that are written within this many milliseconds of the file's first record belong to one burst.
const BURST_MILLIS: i64 = 1000;

/// Distinguishes copies from a session's own records.
#[derive(Default)]
pub(super) struct CopyFilter {
    own: Box<str>,
    /// The time at which the session was created.
    created: i64,
    /// The time at which the first line was written.
    first: Option<i64>,
    /// Whether the file can contain copies: another session's first record was read, or this session names its origin.
    has_other_session: bool,
    turns: HashMap<Box<str>, bool>,
    /// Whether the current turn is a copy.
    turn: Option<bool>,
}

impl CopyFilter {
    pub(super) fn new(own: &str, created: i64, forked: bool) -> Self {
        Self {
            own: own.into(),
            created,
            has_other_session: forked,
            ..Self::default()
        }
    }

    /// Remembers that another session's first record was read.
    pub(super) const fn note_other_session(&mut self) {
        self.has_other_session = true;
    }

    /// Determines whether a turn is a copy, from the thread and turn that a record names.
    pub(super) fn classify_turn(&mut self, thread: Option<&str>, turn: Option<&str>) {
        let Some(turn) = turn else { return };
        let by_thread = thread.map(|thread| thread != &*self.own);
        self.has_other_session |= by_thread == Some(true);
        let copied = by_thread.or_else(|| self.is_turn_copied(turn));
        if let Some(copied) = copied {
            self.turns.insert(turn.into(), copied);
        }
        self.turn = copied.or(self.turn);
    }

    /// Whether a record is a copy.
    pub(super) fn is_copy(&mut self, turn: Option<&str>, at: i64) -> bool {
        let first = *self.first.get_or_insert(at);
        // Without another session in the file, an early time means that the clock was set back, not that this is a copy.
        if !self.has_other_session {
            return false;
        }
        if at < self.created {
            return true;
        }
        let copied = turn
            .and_then(|turn| self.is_turn_copied(turn))
            .or(self.turn);
        copied.unwrap_or(at - first < BURST_MILLIS)
    }

    fn is_turn_copied(&self, turn: &str) -> Option<bool> {
        let copied = self.turns.get(turn).copied();
        copied.or_else(|| Some(time_of(turn)? < self.created))
    }
}

/// The time in an id, in milliseconds since 1970: a UUID of version 7 begins with it.
fn time_of(id: &str) -> Option<i64> {
    let (high, rest) = id.split_once('-')?;
    let (low, rest) = rest.split_once('-')?;
    let is_uuid = high.len() == 8 && low.len() == 4 && rest.starts_with('7');
    let digits = is_uuid.then(|| format!("{high}{low}"))?;
    i64::from_str_radix(&digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "01a1ffd5-4095-77c1-8cfe-49d0d2a644dc";
    const BEFORE: &str = "01a1ffd5-3000-75e1-8131-76d83c84d629";
    const AFTER: &str = "01a1ffd5-40ac-75e1-8131-76d83c84d629";
    const CREATED: i64 = 1_795_293_528_213;

    #[test]
    fn the_time_in_a_turn_id_shows_whether_it_is_a_copy() {
        assert_eq!(time_of(OWN), Some(CREATED));
        assert_eq!(time_of("0527dd4d-9666-43fc-bb09-8acbf3d0d778"), None);
        let mut copies = CopyFilter::new(OWN, CREATED, true);
        assert!(copies.is_copy(Some(BEFORE), CREATED + 10));
        assert!(!copies.is_copy(Some(AFTER), CREATED + 10));
        copies.classify_turn(Some("another"), Some(AFTER));
        assert!(copies.is_copy(Some(AFTER), CREATED + 10));
        assert!(copies.is_copy(None, CREATED - 1));
    }

    #[test]
    fn records_without_ids_in_the_burst_are_copies() {
        let mut own = CopyFilter::new(OWN, CREATED, false);
        assert!(!own.is_copy(None, CREATED));
        own.note_other_session();
        assert!(own.is_copy(None, CREATED + 5));
        assert!(!own.is_copy(None, CREATED + 5000));
    }
}
