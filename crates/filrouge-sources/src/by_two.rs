//! Work that two threads share.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Does something with each, in their order, by two threads where there are at least `enough` for each of them: each takes
/// the next one.
pub fn by_two<T: Sync, R: Send>(all: &[T], enough: usize, each: impl Fn(&T) -> R + Sync) -> Vec<R> {
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
    // Two runs in order: the stable sort merges them.
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, one)| one).collect()
}
