//! Splits work between two threads.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Applies `each` to every element and returns the results in the order of the elements. If there are at least `enough`
/// elements for each of two threads, two threads share the work, element by element; otherwise the calling thread does
/// all of it.
pub fn on_two_threads<T: Sync, R: Send>(
    all: &[T],
    enough: usize,
    each: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    if all.len() < 2 * enough {
        return all.iter().map(each).collect();
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::with_capacity(all.len() / 2);
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(one) = all.get(at) else {
                return done;
            };
            done.push((at, each(one)));
        }
    };
    let mut done = std::thread::scope(|threads| {
        let other = threads.spawn(work);
        let mut done = work();
        match other.join() {
            Ok(mut rest) => done.append(&mut rest),
            Err(panic) => std::panic::resume_unwind(panic),
        }
        done
    });
    // `done` consists of two sorted runs, which the stable sort merges.
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, one)| one).collect()
}
