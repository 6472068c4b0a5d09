//! States of files and folders as fingerprints.

use std::hash::{DefaultHasher, Hash, Hasher};

use filrouge_types::{Clock, SystemClock};
use rustix::fs::Stat;

use crate::Fingerprint;

/// Time in a file system goes by in ticks: what is written within one leaves a file's times as they are. Milliseconds;
/// the longest of systems that count less than a second, and of those that count whole or even seconds.
const TICK_MS: i64 = 20;
const COARSE_TICK_MS: i64 = 2_000;

/// The states of files that belong together.
#[derive(Default, Clone)]
pub(super) struct Marks {
    states: DefaultHasher,
    settles: i64,
}

impl Marks {
    /// Adds a file's state, which changes with whatever is written to it. Without its device, which may have another number after
    /// a restart.
    #[allow(clippy::unnecessary_cast, reason = "the fields differ between systems")]
    pub(super) fn add(&mut self, stat: &Stat) {
        let changed = (stat.st_ctime as i64, stat.st_ctime_nsec as u64);
        let modified = (stat.st_mtime as i64, stat.st_mtime_nsec as u64);
        (stat.st_ino as u64, stat.st_size as i64, modified, changed).hash(&mut self.states);
        self.settles = self.settles.max(settles(changed));
    }

    /// The states as one value. As long as a file could be written again without a trace it is another one than afterwards.
    pub(super) fn finish(self) -> Fingerprint {
        let open = self.settles > SystemClock.now().as_millis();
        Fingerprint::of(&(self.states.finish(), open))
    }
}

/// From when on whatever is written to a file leaves another time of change, milliseconds since 1970.
fn settles((seconds, nanos): (i64, u64)) -> i64 {
    let tick = match nanos {
        0 => COARSE_TICK_MS,
        _ => TICK_MS,
    };
    let millis = (nanos / 1_000_000).cast_signed();
    seconds
        .saturating_mul(1000)
        .saturating_add(millis + 1 + tick)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_settles_once_its_tick_is_over() {
        assert_eq!(settles((5, 1)), 5_021);
        assert_eq!(settles((5, 0)), 7_001);
        let ended = |settles| {
            let marks = Marks {
                settles,
                ..Marks::default()
            };
            marks.finish()
        };
        assert_eq!(ended(0), ended(1));
        assert_ne!(ended(0), ended(i64::MAX));
    }
}
