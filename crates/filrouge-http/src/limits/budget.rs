//! Bytes of request bodies that are held at one time, over all connections.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a body that may use what is kept back from larger ones.
pub const SMALL_BODY: usize = 1 << 20;

/// A number of bytes, or of places, that requests take from and give back to.
#[derive(Debug)]
pub struct Budget {
    total: usize,
    /// What one caller may hold.
    share: usize,
    /// What only small bodies may use.
    reserve: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    all: usize,
    by_caller: HashMap<Arc<str>, usize>,
}

impl Budget {
    /// One caller may hold a quarter of `total`, or one body of `body` bytes if that is more.
    pub fn new(total: usize, body: usize) -> Arc<Self> {
        Arc::new(Self {
            total,
            share: (total / 4).max(body),
            reserve: total / 16,
            held: Mutex::default(),
        })
    }

    /// As much as there is, of which each caller may hold `share`.
    pub(crate) fn of_each(share: usize) -> Arc<Self> {
        Arc::new(Self {
            total: usize::MAX,
            share,
            reserve: 0,
            held: Mutex::default(),
        })
    }

    /// Whether anybody holds anything.
    #[cfg(test)]
    pub(super) fn knows_callers(&self) -> bool {
        !self.held().by_caller.is_empty()
    }

    /// All of it for anybody.
    #[cfg(test)]
    pub fn without_shares(total: usize) -> Arc<Self> {
        Arc::new(Self {
            total,
            share: total,
            reserve: 0,
            held: Mutex::default(),
        })
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn used(&self) -> usize {
        self.held().all
    }

    /// Room of nobody in particular, for a large body until something else is said.
    pub fn reservation(self: &Arc<Self>) -> Reservation {
        Reservation {
            budget: self.clone(),
            taken: Mutex::default(),
        }
    }
}

/// What one request has taken; given back when dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: Arc<Budget>,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    bytes: usize,
    caller: Arc<str>,
    small: bool,
}

impl Reservation {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says whose share is taken, and whether the body is announced as no larger than [`SMALL_BODY`]. What was
    /// taken before stays with whom it was taken for, so this comes first.
    pub fn is_for(&self, caller: &str, small: bool) {
        let mut taken = self.taken();
        if taken.bytes == 0 {
            taken.caller = caller.into();
            taken.small = small;
        }
    }

    /// Holds `bytes` in all from now on: gives back what is too much, or takes what is missing; `false` when that is
    /// not there, and then what was held is held on.
    #[must_use]
    pub fn hold(&self, bytes: usize) -> bool {
        let held = self.taken().bytes;
        match bytes.checked_sub(held) {
            Some(more) => self.grow(more),
            None => {
                self.give_back(held - bytes);
                true
            }
        }
    }

    fn give_back(&self, bytes: usize) {
        let mut taken = self.taken();
        taken.bytes -= bytes;
        let mut held = self.budget.held();
        held.all -= bytes;
        match held.by_caller.get_mut(&taken.caller) {
            Some(callers) if *callers > bytes => *callers -= bytes,
            _ => {
                held.by_caller.remove(&taken.caller);
            }
        }
    }

    /// Takes `bytes` more, or nothing when they are not there: never waits, because a request that waited
    /// would hold what the others wait for.
    #[must_use]
    pub fn grow(&self, bytes: usize) -> bool {
        let budget = &self.budget;
        let mut taken = self.taken();
        let Some(mine) = taken.bytes.checked_add(bytes) else {
            return false;
        };
        let small = taken.small && mine <= SMALL_BODY;
        let most = budget.total - if small { 0 } else { budget.reserve };
        let mut held = budget.held();
        let callers = held.by_caller.get(&taken.caller).copied().unwrap_or(0);
        let sums = callers.checked_add(bytes).zip(held.all.checked_add(bytes));
        match sums.filter(|(callers, all)| *callers <= budget.share && *all <= most) {
            Some((callers, all)) => {
                held.all = all;
                held.by_caller.insert(taken.caller.clone(), callers);
                taken.bytes = mine;
                true
            }
            None => false,
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let held = self.taken().bytes;
        self.give_back(held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(budget: &Arc<Budget>, caller: &str, small: bool) -> Reservation {
        let room = budget.reservation();
        room.is_for(caller, small);
        room
    }

    #[test]
    fn what_is_held_grows_and_shrinks() {
        let budget = Budget::without_shares(100);
        let one = of(&budget, "a", false);
        assert!(one.hold(60) && one.hold(80));
        let two = of(&budget, "a", false);
        assert!(!two.hold(30));
        assert!(one.hold(10) && two.hold(90));
        assert!(!one.hold(11));
        assert_eq!(budget.used(), 100);
        assert!(two.hold(0));
        assert_eq!(budget.used(), 10);
        drop((one, two));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn what_is_taken_is_given_back_and_never_more_than_all() {
        let budget = Budget::without_shares(100);
        let one = budget.reservation();
        assert!(one.grow(60));
        let two = budget.reservation();
        assert!(!two.grow(41));
        assert!(!two.grow(usize::MAX));
        assert!(two.grow(40));
        assert!(!one.grow(1));
        drop(two);
        assert_eq!(budget.used(), 60);
        assert!(one.grow(40));
        drop(one);
        assert_eq!(budget.used(), 0);
        assert!(budget.held().by_caller.is_empty());
    }

    #[test]
    fn a_caller_has_a_share_and_small_bodies_have_a_reserve() {
        const MIB: usize = 1 << 20;
        let budget = Budget::new(256 * MIB, 32 * MIB);
        let ann = [of(&budget, "ann", false), of(&budget, "ann", true)];
        assert!(ann[0].grow(64 * MIB));
        assert!(!ann[0].grow(1) && !ann[1].grow(1));
        let others: Vec<_> = (0..4).map(|n| of(&budget, &n.to_string(), false)).collect();
        let taken = others.iter().filter(|room| room.grow(44 * MIB)).count();
        assert_eq!((taken, budget.used()), (4, 240 * MIB));
        assert!(!of(&budget, "bob", false).grow(1));
        let bob = of(&budget, "bob", true);
        assert!(bob.grow(MIB), "what is kept back");
        assert!(!bob.grow(1), "it is not small any more");
        drop(ann);
        assert!(bob.grow(1));
    }

    #[test]
    fn one_body_is_never_more_than_a_share() {
        let budget = Budget::new(64, 32);
        assert!(of(&budget, "ann", false).grow(32));
    }

    #[test]
    fn threads_never_exceed_it() {
        let budget = Budget::without_shares(1000);
        std::thread::scope(|scope| {
            for caller in 0..8 {
                let budget = &budget;
                scope.spawn(move || {
                    for n in 0..5000 {
                        let mine = of(budget, &(caller % 3).to_string(), false);
                        let _ = mine.grow(n % 400);
                        let _ = mine.grow(n % 300);
                        assert!(budget.used() <= 1000);
                    }
                });
            }
        });
        assert_eq!(budget.used(), 0);
    }
}
