//! Computes the wait before a failed delivery is repeated.

use std::sync::Arc;
use std::time::Duration;

use filrouge_store::Entropy;

/// The longest possible wait after the first failure; it doubles with each failure, up to `LONGEST_WAIT`.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(600);
/// The longest wait that a receiver can request with `Retry-After`.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

/// Computes waits that double from a second to ten minutes. Up to half of each wait is random, so that senders do not
/// all retry at once when a receiver has recovered.
#[derive(Clone)]
pub struct Backoff(Arc<dyn Entropy>);

impl Backoff {
    /// Waits with randomness from `entropy`.
    pub fn new(entropy: Arc<dyn Entropy>) -> Self {
        Self(entropy)
    }

    /// Returns the wait after `attempts` failures, at least 1. If the receiver requested the longer wait `retry_after`,
    /// returns that, but at most an hour.
    #[must_use]
    pub fn wait_after(&self, attempts: u32, retry_after: Option<Duration>) -> Duration {
        let doubled = 2_u32.saturating_pow(attempts.saturating_sub(1));
        let longest = FIRST_WAIT.saturating_mul(doubled).min(LONGEST_WAIT);
        let mut random = [0; 4];
        // Without random numbers, the wait has its full length.
        let random_fraction = match self.0.fill(&mut random) {
            Ok(()) => f64::from(u32::from_le_bytes(random)) / f64::from(u32::MAX),
            Err(_) => 1.0,
        };
        let wait = longest.mul_f64(0.5 + 0.5 * random_fraction);
        wait.max(retry_after.unwrap_or_default().min(RETRY_AFTER_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(u8);

    impl Entropy for Fixed {
        fn fill(&self, bytes: &mut [u8]) -> Result<(), filrouge_types::Failure> {
            bytes.fill(self.0);
            Ok(())
        }
    }

    #[test]
    fn the_wait_doubles_up_to_ten_minutes_and_half_of_it_is_random() {
        let seconds = |chance, attempts| {
            Backoff::new(Arc::new(Fixed(chance)))
                .wait_after(attempts, None)
                .as_secs_f64()
        };
        let waits: Vec<f64> = (1..=12).map(|n| seconds(0xff, n)).collect();
        let expected = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600].map(f64::from);
        assert_eq!(waits, expected);
        assert_eq!(seconds(0, 3), 2.0);
        assert_eq!(seconds(0xff, u32::MAX), 600.0);
    }

    #[test]
    fn a_receivers_retry_after_is_honored_up_to_an_hour() {
        let backoff = Backoff::new(Arc::new(Fixed(0xff)));
        let wait_for = |seconds| {
            backoff
                .wait_after(1, Some(Duration::from_secs(seconds)))
                .as_secs()
        };
        assert_eq!(
            [wait_for(0), wait_for(30), wait_for(100_000)],
            [1, 30, 3600]
        );
    }
}
