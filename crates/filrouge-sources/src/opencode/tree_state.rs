//! States of files and folders as numbers.

use std::hash::{DefaultHasher, Hash, Hasher};

use rustix::fs::Stat;

use crate::Stamp;

/// Time in a file system goes by in ticks: what is written within one leaves a file's times as they are. Milliseconds;
/// the longest of systems that tell less than a second, and of those that tell whole or even seconds.
const TICK_MS: i64 = 20;
const COARSE_TICK_MS: i64 = 2_000;

/// Told apart from every state in which a file could have been written again without a trace.
const UNSETTLED: u64 = 0x5851_f42d_4c95_7f2d;

/// A file's state: it changes with whatever is written to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FileMark {
    inode: u64,
    bytes: i64,
    seconds: i64,
    nanos: u64,
    /// Which nobody can put back.
    changed: (i64, u64),
}

impl FileMark {
    #[allow(clippy::unnecessary_cast, reason = "the fields differ between systems")]
    pub(super) const fn of(stat: &Stat) -> Self {
        Self {
            inode: stat.st_ino as u64,
            bytes: stat.st_size as i64,
            seconds: stat.st_mtime as i64,
            nanos: stat.st_mtime_nsec as u64,
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as u64),
        }
    }

    /// As numbers, to be kept.
    pub(super) const fn numbers(&self) -> [u64; 6] {
        let (seconds, nanos) = self.changed;
        [
            self.inode,
            self.bytes.cast_unsigned(),
            self.seconds.cast_unsigned(),
            self.nanos,
            seconds.cast_unsigned(),
            nanos,
        ]
    }

    /// What [`FileMark::numbers`] gave.
    pub(super) const fn of_numbers(numbers: [u64; 6]) -> Self {
        let [inode, bytes, seconds, nanos, changed, changed_nanos] = numbers;
        Self {
            inode,
            bytes: bytes.cast_signed(),
            seconds: seconds.cast_signed(),
            nanos,
            changed: (changed.cast_signed(), changed_nanos),
        }
    }

    /// From when on whatever is written leaves another state, milliseconds since 1970.
    pub(super) const fn settles(&self) -> i64 {
        let (seconds, nanos) = self.changed;
        let tick = match nanos {
            0 => COARSE_TICK_MS,
            _ => TICK_MS,
        };
        let millis = (nanos / 1_000_000).cast_signed();
        seconds
            .saturating_mul(1000)
            .saturating_add(millis + 1 + tick)
    }
}

/// The states of many files as one mark.
#[derive(Default, Clone)]
pub(super) struct Marks {
    first: DefaultHasher,
    count: u64,
    newest: i64,
    settles: i64,
}

impl Marks {
    pub(super) fn add(&mut self, stat: &Stat) {
        self.add_mark(&FileMark::of(stat));
    }

    pub(super) fn add_mark(&mut self, mark: &FileMark) {
        self.newest = self.newest.max(mark.seconds.saturating_mul(1000));
        self.settles = self.settles.max(mark.settles());
        self.put(mark);
    }

    pub(super) fn put(&mut self, value: &impl Hash) {
        value.hash(&mut self.first);
        self.count += 1;
    }

    /// When the newest of the files was changed.
    pub(super) const fn newest(&self) -> i64 {
        self.newest
    }

    /// The states as they are.
    pub(super) fn state(self) -> State {
        let (newest, settles) = (self.newest, self.settles);
        State {
            stamp: self.finish(),
            newest,
            settles,
        }
    }

    pub(super) fn finish(mut self) -> Stamp {
        let first = self.first.finish();
        self.count.hash(&mut self.first);
        Stamp(first, self.first.finish())
    }
}

/// The state of some files that belong together, and when they were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State {
    /// Two numbers of the same.
    pub(super) stamp: Stamp,
    /// When the newest of them was changed, milliseconds since 1970.
    pub(super) newest: i64,
    /// From when on whatever is written leaves another state.
    pub(super) settles: i64,
}

impl State {
    /// The state as it may be kept, of files that were looked at at `now`: another one as long as they could be written again
    /// without a trace.
    pub(super) const fn lasting(&self, now: i64) -> Stamp {
        let Stamp(one, other) = self.stamp;
        match self.settles > now {
            true => Stamp(one ^ UNSETTLED, other ^ UNSETTLED),
            false => self.stamp,
        }
    }

    /// As [`State::lasting`], one number that is never 0.
    pub(super) const fn number(&self, now: i64) -> u64 {
        let Stamp(number, _) = self.lasting(now);
        if number == 0 { 1 } else { number }
    }

    /// How long it is until it is settled, if a reader can wait for that. Milliseconds.
    pub(super) const fn wait(settles: i64, now: i64) -> Option<u64> {
        let wait = settles.saturating_sub(now);
        match wait > 0 && wait <= TICK_MS + 1 {
            true => Some(wait.cast_unsigned()),
            false => None,
        }
    }
}

/// A number of a set of numbers with ids, in any order.
pub(super) fn of_all<'a>(all: impl Iterator<Item = (&'a str, u64)>) -> u64 {
    all.fold(0, |sum, one| {
        let mut hasher = DefaultHasher::new();
        one.hash(&mut hasher);
        sum.wrapping_add(hasher.finish())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(changed: (i64, u64)) -> State {
        let mark = FileMark {
            inode: 1,
            bytes: 1,
            seconds: 5,
            nanos: 0,
            changed,
        };
        let mut marks = Marks {
            settles: mark.settles(),
            ..Marks::default()
        };
        marks.put(&mark);
        marks.state()
    }

    #[test]
    fn what_may_be_written_again_in_the_same_tick_is_in_another_state() {
        let fine = state((5, 1));
        assert_eq!(fine.settles, 5_021);
        assert_ne!(fine.number(5_020), fine.number(5_021));
        assert_eq!(fine.number(5_021), fine.number(i64::MAX));
        assert_eq!(fine.number(5_000), fine.number(5_020));
        assert_eq!(State::wait(fine.settles, 5_001), Some(20));
        assert_eq!(State::wait(fine.settles, 5_021), None);
        // Of a system that tells seconds alone nobody waits for the next one.
        let coarse = state((5, 0));
        assert_ne!(coarse.number(7_000), coarse.number(7_001));
        assert_eq!(State::wait(coarse.settles, 5_001), None);
    }

    #[test]
    fn numbers_are_of_sets() {
        let one = of_all([("a", 1), ("b", 2)].into_iter());
        assert_eq!(one, of_all([("b", 2), ("a", 1)].into_iter()));
        let others = [vec![("a", 2), ("b", 1)], vec![("a", 1)], vec![]];
        for other in others {
            assert_ne!(one, of_all(other.into_iter()));
        }
    }
}
