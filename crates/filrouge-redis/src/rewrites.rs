//! When to ask Redis to rewrite its append-only file, in which erased contents remain until then.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use filrouge_types::lock;

/// The minimum time between two requests: a rewrite writes everything that Redis stores.
const REWRITE_GAP: Duration = Duration::from_secs(60);

/// Where erased contents remain while a rewrite is due.
pub(crate) const REMAINS: &str =
    "in the append-only file of Redis, until its next rewrite: docs/two-scopes.md";

/// Whether a rewrite is due, and when Redis was last asked for one.
#[derive(Debug, Default)]
pub(crate) struct Rewrites(Mutex<(bool, Option<Instant>)>);

impl Rewrites {
    /// Records that the file holds erased contents.
    pub(crate) fn set_due(&self) {
        lock(&self.0).0 = true;
    }

    pub(crate) fn is_due(&self) -> bool {
        lock(&self.0).0
    }

    /// Whether to ask Redis now; then the rewrite is no longer due. Contents that are erased meanwhile make another one
    /// due, because the rewrite may have begun before.
    pub(crate) fn begin(&self, now: Instant) -> bool {
        let mut state = lock(&self.0);
        let (is_due, asked_at) = *state;
        let may_ask = asked_at.is_none_or(|at| now.saturating_duration_since(at) >= REWRITE_GAP);
        if is_due && may_ask {
            *state = (false, Some(now));
        }
        is_due && may_ask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redis_is_asked_at_most_once_a_minute() {
        let (rewrites, begin) = (Rewrites::default(), Instant::now());
        let at = |seconds: u64| begin + Duration::from_secs(seconds);
        assert!(!rewrites.begin(at(0)) && !rewrites.is_due());
        rewrites.set_due();
        assert!(rewrites.begin(at(1)) && !rewrites.is_due());
        rewrites.set_due();
        assert!(!rewrites.begin(at(60)) && rewrites.is_due());
        assert!(rewrites.begin(at(61)) && !rewrites.is_due());
        assert!(!rewrites.begin(at(200)));
    }
}
