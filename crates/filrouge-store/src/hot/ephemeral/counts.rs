//! The counters of ephemeral sessions.

/// Events in this process since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EphemeralCounts {
    /// Sessions that the hot store returned in an older version than before: acknowledged writes were lost.
    pub went_back: u64,
    /// Sessions that were removed because the hot store's data failed verification.
    pub damaged: u64,
    /// Commits that met another version and were retried.
    pub conflicts: u64,
    /// Turns that were dropped because a session had too many turns or bytes.
    pub trimmed_turns: u64,
    /// Sessions read from the hot store.
    pub loads: u64,
}
