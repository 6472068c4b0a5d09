//! Recognizes copied records: the file of a fork or a subagent begins with records of the thread from which it was
//! created.
//!
//! A record counts as copied if it names another thread; if it belongs to a turn that began before this session was
//! created (turn ids contain a time); or if its time is before the session's creation. Most copied records have the
//! time of the copying instead of their own. A record that names neither thread nor turn therefore counts as copied if
//! another session's metadata is in the file, and the record was written in the burst that created the file.

use std::collections::HashMap;

/// A record was written in the burst that created the file if its time is less than this many milliseconds after that
/// of the file's first record.
const BURST_MILLIS: i64 = 1000;

/// Distinguishes copies from a session's own records.
#[derive(Default)]
pub(super) struct CopyFilter {
    /// The id of this session.
    session_id: Box<str>,
    /// The time at which this session was created, in milliseconds since 1970.
    created: i64,
    /// The time of the file's first record.
    first_time: Option<i64>,
    /// Whether the file can contain copies: a record of another session was read, or this session's metadata names its
    /// origin.
    pub(super) has_other_session: bool,
    /// Turns by their ids, each with whether it is a copy.
    turns: HashMap<Box<str>, bool>,
    /// Whether the current turn is a copy; `None` if that is unknown.
    current_turn_copied: Option<bool>,
}

impl CopyFilter {
    pub(super) fn new(session_id: &str, created: i64, forked: bool) -> Self {
        Self {
            session_id: session_id.into(),
            created,
            has_other_session: forked,
            ..Self::default()
        }
    }

    /// Determines whether a turn is a copy, from the thread and the turn that a record names. The turn becomes the
    /// current one.
    pub(super) fn classify_turn(&mut self, thread: Option<&str>, turn: Option<&str>) {
        let Some(turn) = turn else { return };
        let is_other_thread = thread.map(|thread| thread != &*self.session_id);
        self.has_other_session |= is_other_thread == Some(true);
        let copied = is_other_thread.or_else(|| self.is_turn_copied(turn));
        if let Some(copied) = copied {
            self.turns.insert(turn.into(), copied);
        }
        self.current_turn_copied = copied.or(self.current_turn_copied);
    }

    /// Whether a record is a copy. `turn` is the turn that it names, `at` its time.
    pub(super) fn is_copy(&mut self, turn: Option<&str>, at: i64) -> bool {
        let first = *self.first_time.get_or_insert(at);
        // If no record of another session is in the file, a time before the session's creation only shows that the
        // clock was set back.
        if !self.has_other_session {
            return false;
        }
        if at < self.created {
            return true;
        }
        let copied = turn
            .and_then(|turn| self.is_turn_copied(turn))
            .or(self.current_turn_copied);
        copied.unwrap_or(at - first < BURST_MILLIS)
    }

    fn is_turn_copied(&self, turn: &str) -> Option<bool> {
        let copied = self.turns.get(turn).copied();
        copied.or_else(|| Some(uuid_time(turn)? < self.created))
    }
}

/// Returns the time with which a UUID of version 7 begins, in milliseconds since 1970; `None` for another id.
fn uuid_time(id: &str) -> Option<i64> {
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
        assert_eq!(uuid_time(OWN), Some(CREATED));
        assert_eq!(uuid_time("0527dd4d-9666-43fc-bb09-8acbf3d0d778"), None);
        let mut filter = CopyFilter::new(OWN, CREATED, true);
        assert!(filter.is_copy(Some(BEFORE), CREATED + 10));
        assert!(!filter.is_copy(Some(AFTER), CREATED + 10));
        filter.classify_turn(Some("another"), Some(AFTER));
        assert!(filter.is_copy(Some(AFTER), CREATED + 10));
        assert!(filter.is_copy(None, CREATED - 1));
    }

    #[test]
    fn records_without_ids_in_the_burst_are_copies() {
        let mut filter = CopyFilter::new(OWN, CREATED, false);
        assert!(!filter.is_copy(None, CREATED));
        filter.has_other_session = true;
        assert!(filter.is_copy(None, CREATED + 5));
        assert!(!filter.is_copy(None, CREATED + 5000));
    }
}
