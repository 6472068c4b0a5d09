//! Bytes of request bodies that are held at one time, over all connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A number of bytes that requests take from and give back to.
#[derive(Debug)]
pub(crate) struct Budget {
    total: usize,
    used: AtomicUsize,
}

impl Budget {
    pub(crate) fn new(total: usize) -> Arc<Self> {
        Arc::new(Self {
            total,
            used: AtomicUsize::new(0),
        })
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn reservation(self: &Arc<Self>) -> Reservation {
        Reservation {
            budget: self.clone(),
            taken: AtomicUsize::new(0),
        }
    }
}

/// What one request has taken; given back when dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Arc<Budget>,
    taken: AtomicUsize,
}

impl Reservation {
    /// Takes `bytes` more, or nothing when they are not there: never waits, because a request that waited
    /// would hold what the others wait for.
    #[must_use]
    pub(crate) fn grow(&self, bytes: usize) -> bool {
        let total = self.budget.total;
        let taken = self
            .budget
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|sum| *sum <= total)
            });
        if taken.is_ok() {
            self.taken.fetch_add(bytes, Ordering::Relaxed);
        }
        taken.is_ok()
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget
            .used
            .fetch_sub(*self.taken.get_mut(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_given_back_and_never_more_than_all() {
        let budget = Budget::new(100);
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
    }

    #[test]
    fn threads_never_exceed_it() {
        let budget = Budget::new(1000);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for n in 0..5000 {
                        let mine = budget.reservation();
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
