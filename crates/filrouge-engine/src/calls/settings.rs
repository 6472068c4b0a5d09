//! Settings of live calls.

use std::time::Duration;

filrouge_types::words!(
    /// Whether live calls are recorded, and resumed from the ledger.
    #[derive(Default)]
    pub enum Journal: "journal of calls" {
        /// Leases, checkpoints and resume are refused.
        Off => "off",
        /// Everything is written; resume returns a lease, but no recorded contents.
        Shadow => "shadow",
        /// Everything is written and resumed.
        #[default]
        On => "on",
    }
);

/// Settings of live calls (DESIGN §6).
#[derive(Debug, Clone)]
pub struct CallSettings {
    /// Whether live calls are recorded, and resumed from the ledger.
    pub journal: Journal,
    /// The duration of a lease for which the request names none. Every write under the lease's fence extends it.
    pub lease_ttl: Duration,
    /// The longest duration of a lease.
    pub lease_ttl_max: Duration,
    /// The wait for a lease for which the request names none.
    pub lease_wait: Duration,
    /// The longest wait for a lease.
    pub lease_wait_max: Duration,
    /// The number of a session's newest checkpoints that are kept.
    pub checkpoints_kept: u64,
    /// The maximum number of bytes of a checkpoint's state.
    pub checkpoint_bytes: usize,
    /// The maximum number of items after the checkpoint that a resume returns; a cursor reads the rest.
    pub tail_items: usize,
    /// States (labels of the application) in which a session has ended: it cannot be resumed, and gets no new turn.
    pub terminal: Vec<Box<str>>,
}

impl CallSettings {
    /// The states in which a session has ended; none where calls are not resumed from the ledger.
    pub(crate) fn terminal_states(&self) -> &[Box<str>] {
        match self.journal {
            Journal::On => &self.terminal,
            Journal::Shadow | Journal::Off => &[],
        }
    }
}

impl Default for CallSettings {
    /// The defaults: leases of 5 s (at most 10 min), waits of 2 s (at most 30 s), 8 checkpoints of at most 1 MiB, 200
    /// items, the terminal states `TRANSFERRED` and `CONFIRMED`.
    fn default() -> Self {
        Self {
            journal: Journal::default(),
            lease_ttl: Duration::from_secs(5),
            lease_ttl_max: Duration::from_secs(10 * 60),
            lease_wait: Duration::from_secs(2),
            lease_wait_max: Duration::from_secs(30),
            checkpoints_kept: 8,
            checkpoint_bytes: 1 << 20,
            tail_items: 200,
            terminal: ["TRANSFERRED", "CONFIRMED"].map(Into::into).to_vec(),
        }
    }
}
