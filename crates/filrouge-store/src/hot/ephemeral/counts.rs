//! What is counted of ephemeral sessions.

/// What has happened in this process since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EphemeralCounts {
    /// Sessions that the hot store had in an older state than it had told before: acknowledged writes were lost.
    pub went_back: u64,
    /// Sessions that were forgotten because what the hot store had was not what was put.
    pub damaged: u64,
    /// Commits that came upon another state and were tried again.
    pub conflicts: u64,
    /// Turns that had to go because a session had too many turns or bytes.
    pub trimmed_turns: u64,
    /// Sessions read from the hot store.
    pub loads: u64,
}
