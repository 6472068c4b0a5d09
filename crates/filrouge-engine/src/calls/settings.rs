//! How live calls are handled.

use std::time::Duration;

filrouge_types::words!(
    /// Whether live calls are journaled, and gone on with from the journal.
    #[derive(Default)]
    pub enum Journal: "journal of calls" {
        /// Leases, checkpoints and resume are refused.
        Off => "off",
        /// All is written, and resume gives a lease and nothing that was written.
        Shadow => "shadow",
        /// All is written and gone on with.
        #[default]
        On => "on",
    }
);

/// How live calls are handled (DESIGN §6).
#[derive(Debug, Clone)]
pub struct CallSettings {
    /// Whether they are journaled, and gone on with from the journal.
    pub journal: Journal,
    /// How long a lease lasts when its taker does not say.
    pub lease_ttl: Duration,
    /// How long it may last at most.
    pub lease_ttl_max: Duration,
    /// How long is waited for a lease when its taker does not say.
    pub lease_wait: Duration,
    /// How long may be waited at most.
    pub lease_wait_max: Duration,
    /// How many checkpoints a session keeps.
    pub checkpoints_kept: u64,
    /// Bytes of a checkpoint's state at most.
    pub checkpoint_bytes: usize,
    /// Most items behind the checkpoint that a resume gives; the rest is behind its cursor.
    pub tail_items: usize,
    /// States that a session does not go on from, such as `TRANSFERRED`.
    pub terminal: Vec<Box<str>>,
}

impl Default for CallSettings {
    /// Leases of 30 s (at most 10 min), 2 s of waiting (at most 30 s), 8 checkpoints of at most 1 MiB, 200 items, no terminal
    /// state.
    fn default() -> Self {
        Self {
            journal: Journal::default(),
            lease_ttl: Duration::from_secs(30),
            lease_ttl_max: Duration::from_secs(10 * 60),
            lease_wait: Duration::from_secs(2),
            lease_wait_max: Duration::from_secs(30),
            checkpoints_kept: 8,
            checkpoint_bytes: 1 << 20,
            tail_items: 200,
            terminal: Vec::new(),
        }
    }
}
