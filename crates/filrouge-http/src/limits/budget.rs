//! Budgets that all requests share: the total size of request bodies in memory, and the number of open streams.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The maximum size in bytes of a body that may use the reserve.
pub const SMALL_BODY: usize = 1 << 20;

/// A number of bytes, or of slots, that requests reserve and release.
#[derive(Debug)]
pub struct Budget {
    total: usize,
    /// The maximum for one caller.
    share: usize,
    /// The part that only small bodies may use.
    reserve: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    all: usize,
    by_caller: HashMap<Arc<str>, usize>,
}

impl Budget {
    /// A budget of `total` bytes, of which one caller may reserve a quarter, or `body` bytes if that is more. A
    /// sixteenth is reserved for small bodies.
    pub fn new(total: usize, body: usize) -> Arc<Self> {
        Arc::new(Self {
            total,
            share: (total / 4).max(body),
            reserve: total / 16,
            held: Mutex::default(),
        })
    }

    /// A budget without a total, of which each caller may reserve `share`.
    pub(crate) fn per_caller(share: usize) -> Arc<Self> {
        Arc::new(Self {
            total: usize::MAX,
            share,
            reserve: 0,
            held: Mutex::default(),
        })
    }

    /// Whether any caller has a reservation.
    #[cfg(test)]
    pub(super) fn knows_callers(&self) -> bool {
        !self.held().by_caller.is_empty()
    }

    /// A budget without shares: one caller may use all of it.
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

    /// An empty reservation. Without [`Reservation::set_caller`] it counts as a large body of an unnamed caller.
    pub fn reservation(self: &Arc<Self>) -> Reservation {
        Reservation {
            budget: self.clone(),
            reserved: Mutex::default(),
        }
    }
}

/// The reservation of one request; it is released when dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: Arc<Budget>,
    reserved: Mutex<Reserved>,
}

#[derive(Debug, Default)]
struct Reserved {
    bytes: usize,
    caller: Arc<str>,
    small: bool,
}

impl Reservation {
    fn reserved(&self) -> MutexGuard<'_, Reserved> {
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the caller whose share is used, and whether the announced size of the body is at most [`SMALL_BODY`]. Call
    /// it before anything is reserved; later it has no effect.
    pub fn set_caller(&self, caller: &str, small: bool) {
        let mut reserved = self.reserved();
        if reserved.bytes == 0 {
            reserved.caller = caller.into();
            reserved.small = small;
        }
    }

    /// Changes the reservation to `bytes` in total. Returns `false`, and changes nothing, if it would grow by more than
    /// is available.
    #[must_use]
    pub fn hold(&self, bytes: usize) -> bool {
        let held = self.reserved().bytes;
        match bytes.checked_sub(held) {
            Some(more) => self.grow(more),
            None => {
                self.release(held - bytes);
                true
            }
        }
    }

    fn release(&self, bytes: usize) {
        let mut reserved = self.reserved();
        reserved.bytes -= bytes;
        let mut held = self.budget.held();
        held.all -= bytes;
        match held.by_caller.get_mut(&reserved.caller) {
            Some(callers) if *callers > bytes => *callers -= bytes,
            _ => {
                held.by_caller.remove(&reserved.caller);
            }
        }
    }

    /// Reserves `bytes` more. Returns `false`, and reserves nothing, if they are not available. It never waits, because
    /// a request that waits would keep bytes for which others wait.
    #[must_use]
    pub fn grow(&self, bytes: usize) -> bool {
        let budget = &self.budget;
        let mut reserved = self.reserved();
        let Some(mine) = reserved.bytes.checked_add(bytes) else {
            return false;
        };
        let small = reserved.small && mine <= SMALL_BODY;
        let limit = budget.total - if small { 0 } else { budget.reserve };
        let mut held = budget.held();
        let callers = held.by_caller.get(&reserved.caller).copied().unwrap_or(0);
        let sums = callers.checked_add(bytes).zip(held.all.checked_add(bytes));
        match sums.filter(|(callers, all)| *callers <= budget.share && *all <= limit) {
            Some((callers, all)) => {
                held.all = all;
                held.by_caller.insert(reserved.caller.clone(), callers);
                reserved.bytes = mine;
                true
            }
            None => false,
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let held = self.reserved().bytes;
        self.release(held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reservation_of(budget: &Arc<Budget>, caller: &str, small: bool) -> Reservation {
        let room = budget.reservation();
        room.set_caller(caller, small);
        room
    }

    #[test]
    fn a_reservation_grows_and_shrinks() {
        let budget = Budget::without_shares(100);
        let one = reservation_of(&budget, "a", false);
        assert!(one.hold(60) && one.hold(80));
        let two = reservation_of(&budget, "a", false);
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
    fn reservations_are_released_and_never_exceed_the_total() {
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
        let ann = [
            reservation_of(&budget, "ann", false),
            reservation_of(&budget, "ann", true),
        ];
        assert!(ann[0].grow(64 * MIB));
        assert!(!ann[0].grow(1) && !ann[1].grow(1));
        let others: Vec<_> = (0..4)
            .map(|n| reservation_of(&budget, &n.to_string(), false))
            .collect();
        let reserved = others.iter().filter(|room| room.grow(44 * MIB)).count();
        assert_eq!((reserved, budget.used()), (4, 240 * MIB));
        assert!(!reservation_of(&budget, "bob", false).grow(1));
        let bob = reservation_of(&budget, "bob", true);
        assert!(bob.grow(MIB), "from the reserve");
        assert!(!bob.grow(1), "it is no longer small");
        drop(ann);
        assert!(bob.grow(1));
    }

    #[test]
    fn one_body_is_never_more_than_a_share() {
        let budget = Budget::new(64, 32);
        assert!(reservation_of(&budget, "ann", false).grow(32));
    }

    #[test]
    fn threads_never_exceed_the_budget() {
        let budget = Budget::without_shares(1000);
        std::thread::scope(|scope| {
            for caller in 0..8 {
                let budget = &budget;
                scope.spawn(move || {
                    for n in 0..5000 {
                        let mine = reservation_of(budget, &(caller % 3).to_string(), false);
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
