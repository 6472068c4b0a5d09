//! The database server's clock: all servers of one store tell the same time, whatever their own clocks say.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use filrouge_types::{Clock, SystemClock, Timestamp};

/// What was asked longer ago than this is not known well enough.
const SLOWEST: Duration = Duration::from_secs(1);

/// The database server's time: what it said last, and how long ago that was.
#[derive(Debug, Default)]
pub struct DatabaseClock(Mutex<Option<(Timestamp, Instant)>>);

impl DatabaseClock {
    /// Takes note that the database said `told` at some moment between `asked` and now; not when that is too long, as
    /// after a process was stopped, unless nothing better is known.
    pub(crate) fn hear(&self, asked: Instant, told: Timestamp) {
        let heard = Instant::now();
        let took = heard - asked;
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if took <= SLOWEST || known.is_none() {
            *known = Some((told, asked + took / 2));
        }
    }
}

impl Clock for DatabaseClock {
    fn now(&self) -> Timestamp {
        let known = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((told, at)) = known else {
            return SystemClock.now();
        };
        let since = i64::try_from(at.elapsed().as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(told.as_micros().saturating_add(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_tells_the_databases_time() {
        let clock = DatabaseClock::default();
        clock.hear(Instant::now(), Timestamp::from_micros(5_000_000));
        let now = clock.now().as_micros();
        assert!((5_000_000..60_000_000).contains(&now), "{now}");
    }

    #[test]
    fn what_took_long_to_hear_is_left_out() {
        let clock = DatabaseClock::default();
        let asked = Instant::now();
        clock.hear(asked, Timestamp::from_micros(5_000_000));
        let long_ago = asked.checked_sub(SLOWEST * 9).unwrap_or(asked);
        clock.hear(long_ago, Timestamp::from_micros(900_000_000));
        let now = clock.now().as_micros();
        assert!(now < 900_000_000, "{now}");
    }
}
