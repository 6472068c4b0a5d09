//! The database server's clock: all filrouge servers of one store use its time, whatever their own clocks show.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use filrouge_types::{Clock, SystemClock, Timestamp, lock};

/// An answer of the database that took longer than this is too imprecise to use.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);

/// A clock that continues from the newest time that the database reported. Until then it returns the system's time.
///
/// Contains the reported time, and the local instant at which that time was correct.
#[derive(Debug, Default)]
pub struct DatabaseClock(Mutex<Option<(Timestamp, Instant)>>);

impl DatabaseClock {
    /// Records `database_time`, the database's answer to a query sent at `sent_at`. The time was correct at some moment
    /// between `sent_at` and now; the middle is assumed. An answer that took longer than [`ANSWER_TIME_MAX`], for
    /// example because the process was suspended, is recorded only if it is the first.
    pub(crate) fn update(&self, sent_at: Instant, database_time: Timestamp) {
        let answer_time = Instant::now() - sent_at;
        let mut newest = lock(&self.0);
        if answer_time <= ANSWER_TIME_MAX || newest.is_none() {
            *newest = Some((database_time, sent_at + answer_time / 2));
        }
    }
}

impl Clock for DatabaseClock {
    fn now(&self) -> Timestamp {
        let newest = *lock(&self.0);
        let Some((database_time, at)) = newest else {
            return SystemClock.now();
        };
        let elapsed_micros = i64::try_from(at.elapsed().as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(database_time.as_micros().saturating_add(elapsed_micros))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_returns_the_databases_time() {
        let clock = DatabaseClock::default();
        clock.update(Instant::now(), Timestamp::from_micros(5_000_000));
        let now = clock.now().as_micros();
        assert!((5_000_000..60_000_000).contains(&now), "{now}");
    }

    #[test]
    fn a_slow_answer_is_ignored() {
        let clock = DatabaseClock::default();
        let sent_at = Instant::now();
        clock.update(sent_at, Timestamp::from_micros(5_000_000));
        let long_ago = sent_at.checked_sub(ANSWER_TIME_MAX * 9).unwrap_or(sent_at);
        clock.update(long_ago, Timestamp::from_micros(900_000_000));
        let now = clock.now().as_micros();
        assert!(now < 900_000_000, "{now}");
    }
}
