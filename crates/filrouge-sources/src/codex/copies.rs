//! Which records a fork or a subagent has copied from the thread it was made of.
//!
//! A copy is written again, with the time of its copying. What tells it apart: a thread that is another one's; a turn
//! that began before this session was made (turns have ids with a time in them); a time before this session; and, where
//! records name neither thread nor turn, that it stands behind another session's first record, in the burst of writing
//! that made the file.

use std::collections::HashMap;

/// Records without ids that are written within so many milliseconds of the file's first one are of the same burst.
const BURST_MILLIS: i64 = 1000;

/// Tells copies from a session's own records.
#[derive(Default)]
pub(super) struct Copies {
    own: Box<str>,
    /// When the session was made.
    made: i64,
    /// When the first line was written.
    first: Option<i64>,
    /// Whether another session's first record was met, or the session says what it was forked from.
    of_other: bool,
    turns: HashMap<Box<str>, bool>,
    /// Whether the present turn is a copy.
    turn: Option<bool>,
}

impl Copies {
    pub(super) fn new(own: &str, made: i64, forked: bool) -> Self {
        Self {
            own: own.into(),
            made,
            of_other: forked,
            ..Self::default()
        }
    }

    /// Another session's first record stands here.
    pub(super) const fn meet_other(&mut self) {
        self.of_other = true;
    }

    /// Takes what a record says of its thread and turn.
    pub(super) fn learn(&mut self, thread: Option<&str>, turn: Option<&str>) {
        let Some(turn) = turn else { return };
        let by_thread = thread.map(|thread| thread != &*self.own);
        self.of_other |= by_thread == Some(true);
        let copied = by_thread.or_else(|| self.of_turn(turn));
        if let Some(copied) = copied {
            self.turns.insert(turn.into(), copied);
        }
        self.turn = copied.or(self.turn);
    }

    /// Whether a record is a copy.
    pub(super) fn is_copy(&mut self, turn: Option<&str>, at: i64) -> bool {
        let first = *self.first.get_or_insert(at);
        // A clock that was set back is no copy.
        if !self.of_other {
            return false;
        }
        if at < self.made {
            return true;
        }
        let known = turn.and_then(|turn| self.of_turn(turn)).or(self.turn);
        known.unwrap_or(at - first < BURST_MILLIS)
    }

    fn of_turn(&self, turn: &str) -> Option<bool> {
        let known = self.turns.get(turn).copied();
        known.or_else(|| Some(time_of(turn)? < self.made))
    }
}

/// The time in an id, milliseconds since 1970: a UUID of version 7 begins with it.
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
    const MADE: i64 = 1_795_293_528_213;

    #[test]
    fn turns_tell_by_their_time() {
        assert_eq!(time_of(OWN), Some(MADE));
        assert_eq!(time_of("0527dd4d-9666-43fc-bb09-8acbf3d0d778"), None);
        let mut copies = Copies::new(OWN, MADE, true);
        assert!(copies.is_copy(Some(BEFORE), MADE + 10));
        assert!(!copies.is_copy(Some(AFTER), MADE + 10));
        copies.learn(Some("another"), Some(AFTER));
        assert!(copies.is_copy(Some(AFTER), MADE + 10));
        assert!(copies.is_copy(None, MADE - 1));
    }

    #[test]
    fn without_ids_the_burst_tells() {
        let mut own = Copies::new(OWN, MADE, false);
        assert!(!own.is_copy(None, MADE));
        own.meet_other();
        assert!(own.is_copy(None, MADE + 5));
        assert!(!own.is_copy(None, MADE + 5000));
    }
}
