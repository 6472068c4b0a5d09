//! The policy that decides when an application saves a checkpoint.

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
    pub const fn every(writes: u64) -> Self {
        Self {
            every: if writes == 0 { 1 } else { writes },
            writes: 0,
        }
    }

    /// Counts a write of items.
    pub const fn count_write(&mut self) {
        self.writes += 1;
    }

    /// Whether a checkpoint is due: the label has changed from `before` to `after`, a `critical` value was updated, or
    /// enough writes were counted. If it is due, the count restarts at zero, so the caller must save the checkpoint.
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
                policy.count_write();
                assert_eq!(policy.is_due(Some("A"), Some("A"), false), due);
            }
        }
        policy.count_write();
        policy.count_write();
        assert!(policy.is_due(Some("A"), Some("B"), false));
        policy.count_write();
        assert!(!policy.is_due(Some("B"), Some("B"), false));
    }

    #[test]
    fn zero_means_every_write() {
        let mut policy = CheckpointPolicy::every(0);
        policy.count_write();
        assert!(policy.is_due(None, None, false));
    }
}
