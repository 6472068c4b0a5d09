//! A policy that says when to save a checkpoint.

/// Decides when an application saves a checkpoint (DESIGN §6): when its state machine has changed state, after a
/// critical update, and after a number of writes of items since the previous checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointPolicy {
    every: u64,
    writes: u64,
}

impl Default for CheckpointPolicy {
    /// Saves a checkpoint after three writes of items.
    fn default() -> Self {
        Self::every(3)
    }
}

impl CheckpointPolicy {
    /// Saves a checkpoint after `writes` writes of items, at least one.
    #[must_use]
    pub const fn every(writes: u64) -> Self {
        Self {
            every: if writes == 0 { 1 } else { writes },
            writes: 0,
        }
    }

    /// Counts a write of items.
    pub const fn wrote(&mut self) {
        self.writes += 1;
    }

    /// Whether a checkpoint is due: the label has changed from `before` to `after`, something `critical` was updated,
    /// or there were enough writes. If so, the caller must save it: the count of writes starts again at zero.
    pub fn is_due(&mut self, before: Option<&str>, after: Option<&str>, critical: bool) -> bool {
        let due = before != after || critical || self.writes >= self.every;
        if due {
            self.writes = 0;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_suffices() {
        let mut policy = CheckpointPolicy::default();
        assert!(!policy.is_due(Some("START"), Some("START"), false));
        assert!(policy.is_due(Some("START"), Some("QUALIF"), false));
        assert!(policy.is_due(None, Some("START"), false));
        assert!(policy.is_due(Some("QUALIF"), Some("QUALIF"), true));
    }

    #[test]
    fn the_third_write_is_due_and_resets_the_count() {
        let mut policy = CheckpointPolicy::default();
        for _ in 0..2 {
            for due in [false, false, true] {
                policy.wrote();
                assert_eq!(policy.is_due(Some("A"), Some("A"), false), due);
            }
        }
        policy.wrote();
        policy.wrote();
        assert!(policy.is_due(Some("A"), Some("B"), false));
        policy.wrote();
        assert!(!policy.is_due(Some("B"), Some("B"), false));
    }

    #[test]
    fn zero_means_every_write() {
        let mut policy = CheckpointPolicy::every(0);
        policy.wrote();
        assert!(policy.is_due(None, None, false));
    }
}
