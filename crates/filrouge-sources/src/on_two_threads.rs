//! Splits work between two threads.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Applies `apply` to every element and returns the results in the order of the elements. If there are at least
/// `min_per_thread` elements for each of two threads, two threads share the work, element by element; otherwise the
/// calling thread does all of it.
pub fn on_two_threads<T: Sync, R: Send>(
    elements: &[T],
    min_per_thread: usize,
    apply: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    if elements.len() < 2 * min_per_thread {
        return elements.iter().map(apply).collect();
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut results = Vec::with_capacity(elements.len() / 2);
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(element) = elements.get(index) else {
                return results;
            };
            results.push((index, apply(element)));
        }
    };
    let mut results = std::thread::scope(|threads| {
        let other = threads.spawn(work);
        let mut results = work();
        match other.join() {
            Ok(mut other_results) => results.append(&mut other_results),
            Err(panic) => std::panic::resume_unwind(panic),
        }
        results
    });
    // `results` consists of two sorted runs, which the stable sort merges.
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}
