//! Marks of sessions in a file storage.
//!
//! Files are written in place, which changes no folder, so that each has to be looked at: 2 µs a file. A mark stands for
//! the state of all files of a session. Of one of which nothing has changed for a while it holds for [`CLOSE_MS`] as
//! long as its own record and its folder of messages stay as they are; of one at work for [`REUSED_MS`]. The first one
//! is learnt from what the reading of the session sees, so that nothing is looked at twice.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use filrouge_types::Clock;

use super::tree::lock;
use super::tree_state::{Marks, State, of_all};
use crate::Stamp;

/// A session of whose files none has changed for so long is hardly written to in place any more: an answer makes new
/// messages.
const QUIET_MS: i64 = 15 * 60 * 1000;

/// For so long a mark of all files is not looked at again; new data is to be seen within a second.
const REUSED_MS: i64 = 400;

/// For so long it is believed of a quiet session that no file of it was written in place.
const CLOSE_MS: i64 = 5 * 60 * 1000;

/// The state of all files of a session's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full {
    pub(super) mark: u64,
    /// When the newest of them was changed, milliseconds since 1970.
    pub(super) newest: i64,
}

impl Full {
    pub(super) fn of(states: &[(String, State)]) -> Self {
        let newest = states.iter().map(|(_, state)| state.newest).max();
        let numbers = states.iter().map(|(id, state)| (&**id, state.stamp.0));
        Self {
            mark: of_all(numbers),
            newest: newest.unwrap_or(0),
        }
    }
}

/// The last mark of a session at work.
struct Kept {
    /// The state of its record and its folder of messages.
    outer: Stamp,
    /// Tells marks apart whose outer state is the same.
    number: u64,
    /// What the mark stands for, once that is known.
    full: Option<Full>,
    /// When it was looked at, milliseconds since 1970.
    at: i64,
}

/// The marks of the sessions at work.
pub(super) struct Stamps {
    clock: Arc<dyn Clock>,
    kept: Mutex<HashMap<Box<str>, Kept>>,
}

impl Stamps {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let kept = Mutex::default();
        Self { clock, kept }
    }

    /// Milliseconds since 1970.
    pub(super) fn now(&self) -> i64 {
        self.clock.now().as_millis()
    }

    /// The mark of a session; `outer` has seen its record and its folder of messages, `full` looks at all files.
    pub(super) fn stamp(&self, id: &str, outer: Marks, full: impl Fn() -> Full) -> Stamp {
        let now = self.now();
        let is_old = |newest| is_quiet(newest, now);
        let outer_is_old = is_old(outer.newest());
        let outer = outer.finish();
        let mut looked = None;
        if outer_is_old {
            let kept = lock(&self.kept).get(id).and_then(|kept| {
                let holds = (0..CLOSE_MS).contains(&(now - kept.at));
                kept.full.filter(|_| holds && kept.outer == outer)
            });
            let seen = kept.unwrap_or_else(|| *looked.insert(full()));
            if is_old(seen.newest) {
                if looked.is_some() {
                    self.keep(id, outer, seen, now);
                }
                return of_quiet(outer, seen);
            }
        }
        let (number, known) = match lock(&self.kept).get(id) {
            Some(kept) if kept.outer == outer => {
                if (0..REUSED_MS).contains(&(now - kept.at)) {
                    return numbered(outer, kept.number);
                }
                (kept.number, true)
            }
            // Who reads it now tells what its new mark stands for.
            Some(kept) => (kept.number, false),
            None => (0, false),
        };
        let seen = known.then(|| looked.unwrap_or_else(&full));
        let mut all = lock(&self.kept);
        let kept = all.entry(id.into()).or_insert(Kept {
            outer,
            number,
            full: None,
            at: now,
        });
        // Where nobody has read under the last mark, or another thread was faster, a new one costs one more read.
        if kept.outer != outer || kept.number != number || seen.is_none() || kept.full != seen {
            kept.outer = outer;
            kept.number += 1;
            kept.full = seen;
        }
        kept.at = now;
        numbered(outer, kept.number)
    }

    /// Keeps the state of a quiet session.
    fn keep(&self, id: &str, outer: Stamp, full: Full, at: i64) {
        let mut all = lock(&self.kept);
        let number = all.get(id).map_or(0, |kept| kept.number + 1);
        let full = Some(full);
        let kept = Kept {
            outer,
            number,
            full,
            at,
        };
        all.insert(id.into(), kept);
    }

    /// Takes the state that a reader has seen. Marks are given before reading: one that two readers have seen different
    /// states under is not given again.
    pub(super) fn learn(&self, id: &str, full: Full) {
        if let Some(kept) = lock(&self.kept).get_mut(id) {
            if kept.full.is_some_and(|known| known != full) {
                kept.number += 1;
            }
            kept.full = Some(full);
        }
    }

    /// Forgets the sessions that are not `there`.
    pub(super) fn retain(&self, there: impl Fn(&str) -> bool) {
        lock(&self.kept).retain(|id, _| there(id));
    }
}

/// Whether what was changed last at `newest` was left alone since.
pub(super) const fn is_quiet(newest: i64, now: i64) -> bool {
    newest < now - QUIET_MS
}

/// The mark of a quiet session.
const fn of_quiet(outer: Stamp, full: Full) -> Stamp {
    let salt = full.mark.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Stamp(outer.0 ^ salt, outer.1 ^ full.mark)
}

/// The mark of a session at work.
fn numbered(outer: Stamp, number: u64) -> Stamp {
    let salt = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Stamp(outer.0 ^ salt, outer.1.wrapping_add(salt))
}
