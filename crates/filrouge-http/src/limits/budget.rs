//! Budgets that all requests share: the total size of request bodies in memory, and the number of open streams.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use filrouge_types::lock;

/// The maximum size in bytes of a body that may use the reserve.
pub const SMALL_BODY: usize = 1 << 20;

/// A limited number of bytes, or of slots, that requests reserve and release.
#[derive(Debug)]
pub struct Budget {
    total: usize,
    share: Share,
    /// The part that only small bodies may use.
    reserve: usize,
    usage: Mutex<Usage>,
}

/// The maximum for one caller.
#[derive(Debug, Clone, Copy)]
enum Share {
    Fixed(usize),
    /// A quarter of what the other callers leave, so that a further caller finds room.
    QuarterOfRemainder,
}

#[derive(Debug, Default)]
struct Usage {
    total: usize,
    by_caller: HashMap<Arc<str>, usize>,
    by_key: HashMap<Arc<str>, usize>,
}

fn add(counts: &mut HashMap<Arc<str>, usize>, name: &Arc<str>, bytes: usize) {
    *counts.entry(name.clone()).or_default() += bytes;
}

fn subtract(counts: &mut HashMap<Arc<str>, usize>, name: &Arc<str>, bytes: usize) {
    match counts.get_mut(name) {
        Some(count) if *count > bytes => *count -= bytes,
        _ => {
            counts.remove(name);
        }
    }
}

impl Budget {
    fn with(total: usize, share: Share, reserve: usize) -> Arc<Self> {
        Arc::new(Self {
            total,
            share,
            reserve,
            usage: Mutex::default(),
        })
    }

    /// A budget of `total` bytes, of which one caller may reserve a quarter, or `body` bytes if that is more, and all
    /// callers with one key three quarters. A sixteenth is reserved for small bodies.
    pub fn new(total: usize, body: usize) -> Arc<Self> {
        Self::with(total, Share::Fixed((total / 4).max(body)), total / 16)
    }

    /// A budget of `total` bytes, of which one caller may reserve a quarter of what the others leave, and all callers
    /// with one key three quarters of all. A sixteenth is reserved for small bodies.
    pub(super) fn of_remainder(total: usize) -> Arc<Self> {
        Self::with(total, Share::QuarterOfRemainder, total / 16)
    }

    /// A budget without a total, of which each caller may reserve `share`.
    pub(crate) fn per_caller(share: usize) -> Arc<Self> {
        Self::with(usize::MAX, Share::Fixed(share), 0)
    }

    /// The maximum for all callers with one key, if one caller may have `share`.
    fn key_share(&self, share: usize) -> usize {
        (self.total - self.total / 4).max(share)
    }

    /// Whether any caller has a reservation.
    #[cfg(test)]
    pub(super) fn has_reservations(&self) -> bool {
        let usage = lock(&self.usage);
        !usage.by_caller.is_empty() || !usage.by_key.is_empty()
    }

    /// A budget without shares: one caller may use all of it.
    #[cfg(test)]
    pub fn without_shares(total: usize) -> Arc<Self> {
        Self::with(total, Share::Fixed(total), 0)
    }

    pub(crate) fn used(&self) -> usize {
        lock(&self.usage).total
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
    /// Empty for callers without credentials, which have no common share.
    key: Arc<str>,
    /// The key with the end user.
    caller: Arc<str>,
    is_small: bool,
}

impl Reservation {
    /// Sets the caller whose share is used, as its key and the end user that the key acts for, and whether the announced
    /// size of the body is at most [`SMALL_BODY`]. Call it before anything is reserved; later it has no effect.
    pub fn set_caller(&self, key: &str, end_user: &str, is_small: bool) {
        let mut reserved = lock(&self.reserved);
        if reserved.bytes == 0 {
            reserved.key = key.into();
            // NUL separates the two, since no id contains it.
            reserved.caller = format!("{key}\0{end_user}").into();
            reserved.is_small = is_small;
        }
    }

    /// Changes the reservation to `bytes` in total. Returns `false`, and changes nothing, if it would grow by more than
    /// is available.
    pub fn resize(&self, bytes: usize) -> bool {
        let current = lock(&self.reserved).bytes;
        match bytes.checked_sub(current) {
            Some(additional) => self.grow(additional),
            None => {
                self.release(current - bytes);
                true
            }
        }
    }

    fn release(&self, bytes: usize) {
        let mut reserved = lock(&self.reserved);
        reserved.bytes -= bytes;
        let mut usage = lock(&self.budget.usage);
        usage.total -= bytes;
        subtract(&mut usage.by_caller, &reserved.caller, bytes);
        subtract(&mut usage.by_key, &reserved.key, bytes);
    }

    /// Reserves `bytes` more. Returns `false`, and reserves nothing, if they are not available. It never waits: two
    /// requests could otherwise wait for each other's bytes forever.
    pub fn grow(&self, bytes: usize) -> bool {
        let budget = &self.budget;
        let mut reserved = lock(&self.reserved);
        let Some(own_bytes) = reserved.bytes.checked_add(bytes) else {
            return false;
        };
        let is_small = reserved.is_small && own_bytes <= SMALL_BODY;
        let limit = budget.total - if is_small { 0 } else { budget.reserve };
        let mut usage = lock(&budget.usage);
        let caller_bytes = usage.by_caller.get(&reserved.caller).copied().unwrap_or(0);
        let key_bytes = usage.by_key.get(&reserved.key).copied().unwrap_or(0);
        let share = match budget.share {
            Share::Fixed(share) => share,
            Share::QuarterOfRemainder => (budget.total - (usage.total - caller_bytes)) / 4,
        };
        let Some(total) = usage.total.checked_add(bytes) else {
            return false;
        };
        // The other sums are at most the total.
        let has_room = total <= limit
            && caller_bytes + bytes <= share
            && (reserved.key.is_empty() || key_bytes + bytes <= budget.key_share(share));
        if has_room {
            usage.total = total;
            add(&mut usage.by_caller, &reserved.caller, bytes);
            add(&mut usage.by_key, &reserved.key, bytes);
            reserved.bytes = own_bytes;
        }
        has_room
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let current = lock(&self.reserved).bytes;
        self.release(current);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reserve_for(budget: &Arc<Budget>, caller: &str, is_small: bool) -> Reservation {
        let reservation = budget.reservation();
        reservation.set_caller("", caller, is_small);
        reservation
    }

    #[test]
    fn a_reservation_grows_and_shrinks() {
        let budget = Budget::without_shares(100);
        let first = reserve_for(&budget, "a", false);
        assert!(first.resize(60) && first.resize(80));
        let second = reserve_for(&budget, "a", false);
        assert!(!second.resize(30));
        assert!(first.resize(10) && second.resize(90));
        assert!(!first.resize(11));
        assert_eq!(budget.used(), 100);
        assert!(second.resize(0));
        assert_eq!(budget.used(), 10);
        drop((first, second));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn reservations_are_released_and_never_exceed_the_total() {
        let budget = Budget::without_shares(100);
        let first = budget.reservation();
        assert!(first.grow(60));
        let second = budget.reservation();
        assert!(!second.grow(41));
        assert!(!second.grow(usize::MAX));
        assert!(second.grow(40));
        assert!(!first.grow(1));
        drop(second);
        assert_eq!(budget.used(), 60);
        assert!(first.grow(40));
        drop(first);
        assert_eq!(budget.used(), 0);
        assert!(!budget.has_reservations());
    }

    #[test]
    fn a_caller_has_a_share_and_small_bodies_have_a_reserve() {
        const MIB: usize = 1 << 20;
        let budget = Budget::new(256 * MIB, 32 * MIB);
        let ann = [
            reserve_for(&budget, "ann", false),
            reserve_for(&budget, "ann", true),
        ];
        assert!(ann[0].grow(64 * MIB));
        assert!(!ann[0].grow(1) && !ann[1].grow(1));
        let others: Vec<_> = (0..4)
            .map(|n| reserve_for(&budget, &n.to_string(), false))
            .collect();
        let reserved = others.iter().filter(|other| other.grow(44 * MIB)).count();
        assert_eq!((reserved, budget.used()), (4, 240 * MIB));
        assert!(!reserve_for(&budget, "bob", false).grow(1));
        let bob = reserve_for(&budget, "bob", true);
        assert!(bob.grow(MIB), "from the reserve");
        assert!(!bob.grow(1), "it is no longer small");
        drop(ann);
        assert!(bob.grow(1));
    }

    #[test]
    fn many_callers_with_their_shares_leave_room_for_another() {
        let budget = Budget::of_remainder(1024);
        let mut held = Vec::new();
        for (caller, share) in [("ann", 256), ("bob", 192), ("cyd", 144), ("dan", 108)] {
            let reservation = reserve_for(&budget, caller, false);
            assert!(!reservation.grow(share + 1) && reservation.grow(share));
            held.push(reservation);
        }
        assert!(reserve_for(&budget, "eve", false).grow(81));
        drop(held.remove(0));
        assert!(
            held[0].grow(1) && !held[0].grow(1),
            "without ann his share grows"
        );
    }

    #[test]
    fn a_key_that_names_many_end_users_leaves_a_quarter_to_others() {
        let budget = Budget::new(1024, 0);
        let reserve_with = |key: &str, end_user: &str, bytes| {
            let reservation = budget.reservation();
            reservation.set_caller(key, end_user, false);
            reservation.grow(bytes).then_some(reservation)
        };
        let of_desk = ["a", "b", "c"].map(|end_user| reserve_with("desk", end_user, 256));
        assert!(of_desk.iter().all(Option::is_some));
        assert!(reserve_with("desk", "d", 1).is_none());
        assert!(reserve_with("app", "d", 192).is_some());
        drop(of_desk);
        assert!(!budget.has_reservations());
    }

    #[test]
    fn one_body_is_never_more_than_a_share() {
        let budget = Budget::new(64, 32);
        assert!(reserve_for(&budget, "ann", false).grow(32));
    }

    #[test]
    fn threads_never_exceed_the_budget() {
        let budget = Budget::without_shares(1000);
        std::thread::scope(|scope| {
            for caller in 0..8 {
                let budget = &budget;
                scope.spawn(move || {
                    for n in 0..5000 {
                        let reservation = reserve_for(budget, &(caller % 3).to_string(), false);
                        let _ = reservation.grow(n % 400);
                        let _ = reservation.grow(n % 300);
                        assert!(budget.used() <= 1000);
                    }
                });
            }
        });
        assert_eq!(budget.used(), 0);
    }
}
