//! When the sessions of an index were last looked at closely.
//!
//! A quick look may overlook what was written in place ([`filrouge_sources::Source::overlooks`]). So every session is
//! looked at closely again and again, and what was found to be as the index has it is noted, in the position of the index
//! (`position.rs`): every process goes by it. Sessions are noted in groups, by their ids; a session that was read later than its group was
//! noted is known the better for it.

use std::time::Duration;

use filrouge_types::Timestamp;

use super::digest;

/// An answer goes by close looks that are no older than this: what was written in place is found from then on.
pub(super) const CLOSE: Duration = Duration::from_secs(5 * 60);
/// A process that keeps an index in step looks again before an answer would have to.
pub(super) const AGAIN: Duration = Duration::from_secs(5 * 60 / 2);
/// What was found out is noted for other processes when they know of so much less.
const NOTED: u32 = 60;

pub(super) const GROUPS: usize = 256;
/// When each group was last found to be as the index has it: seconds since 1970, 0 for never.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rounds([u32; GROUPS]);

/// The group of a session.
pub(super) fn group(id: &str) -> usize {
    let low = digest::of_bytes(id.as_bytes()).to_le_bytes();
    usize::from(low.first().copied().unwrap_or_default())
}

fn seconds(at: Timestamp) -> u32 {
    u32::try_from(at.as_millis().div_euclid(1000)).unwrap_or(0)
}

impl Rounds {
    pub(super) const NONE: Self = Self([0; GROUPS]);

    /// What [`Rounds::write`] wrote; `None` for anything of another length.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let (groups, rest) = bytes.as_chunks();
        let is_whole = groups.len() == GROUPS && rest.is_empty();
        let mut rounds = Self::NONE;
        for (to, bytes) in rounds.0.iter_mut().zip(groups) {
            *to = u32::from_le_bytes(*bytes);
        }
        is_whole.then_some(rounds)
    }

    pub(super) fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.0.iter().flat_map(|at| at.to_le_bytes()));
    }

    /// The later of both for each group. A time to come is that of a clock that went wrong, and is worth nothing.
    pub(super) fn merge(&mut self, other: &Self, now: Timestamp) {
        let now = seconds(now);
        let past = |at: u32| if at > now { 0 } else { at };
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            *own = past(*own).max(past(*other));
        }
    }

    /// The groups that were not looked at for `age`, those longest ago first.
    pub(super) fn due(&self, now: Timestamp, age: Duration) -> Vec<usize> {
        let now = seconds(now);
        let age = u32::try_from(age.as_secs()).unwrap_or(u32::MAX);
        let all = self.0.iter().copied().enumerate();
        let known = |at: u32| at > 0 && now.checked_sub(at).is_some_and(|past| past < age);
        let mut due: Vec<_> = all.filter(|(_, at)| !known(*at)).collect();
        due.sort_by_key(|(_, at)| *at);
        due.into_iter().map(|(group, _)| group).collect()
    }

    /// All groups were found to be as the index has them.
    pub(super) fn found_all(&mut self, at: Timestamp) {
        self.0 = [seconds(at); GROUPS];
    }

    /// A group was found to be as the index has it.
    pub(super) fn found(&mut self, group: usize, at: Timestamp) {
        if let Some(own) = self.0.get_mut(group) {
            *own = seconds(at);
        }
    }

    /// Whether others should know: they go by `noted`.
    pub(super) fn is_news(&self, noted: &Self) -> bool {
        let mut both = self.0.iter().zip(&noted.0);
        both.any(|(own, noted)| own < noted || own - noted >= NOTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000).unwrap()
    }

    #[test]
    fn the_later_of_both_counts() {
        let mut rounds = Rounds::NONE;
        rounds.found(0, at(1_700_000_000));
        rounds.found(255, at(1_800_000_000));
        rounds.found(256, at(1));
        let mut all = Rounds::NONE;
        all.found(0, at(1_900_000_000));
        let later = at(2_000_000_000);
        all.merge(&rounds, later);
        assert_eq!([all.0[0], all.0[255]], [1_900_000_000, 1_800_000_000]);
        all.merge(&rounds, at(1_850_000_000));
        assert_eq!([all.0[0], all.0[255]], [1_700_000_000, 1_800_000_000]);
        all.merge(&rounds, at(1_750_000_000));
        assert_eq!([all.0[0], all.0[255]], [1_700_000_000, 0]);
        assert!(all.is_news(&rounds));
    }

    #[test]
    fn what_is_longest_ago_is_due_first() {
        let mut rounds = Rounds::NONE;
        (0..GROUPS).for_each(|group| rounds.found(group, at(1_000)));
        rounds.found(7, at(900));
        rounds.found(9, at(950));
        let due = |now| rounds.due(at(now), Duration::from_secs(60));
        assert_eq!(due(1_009), [7]);
        assert_eq!(due(1_010), [7, 9]);
        assert_eq!(due(1_060).len(), GROUPS);
        // A clock that was put back.
        assert_eq!(due(999).len(), GROUPS - 1);
        assert_eq!(rounds.due(at(1_000), Duration::ZERO).len(), GROUPS);
    }

    #[test]
    fn others_are_told_once_a_minute() {
        let mut rounds = Rounds::NONE;
        rounds.found(3, at(1_000));
        let noted = rounds.clone();
        assert!(rounds.is_news(&Rounds::NONE) && !rounds.is_news(&noted));
        rounds.found(3, at(1_059));
        assert!(!rounds.is_news(&noted));
        rounds.found(4, at(1_060));
        assert!(rounds.is_news(&noted));
    }
}
