//! Finds the point of a client's requests at which a proxy holds everything.

/// The end of a statement in PostgreSQL's extended protocol: the message `Sync`.
const SYNC: &[u8] = b"S\0\0\0\x04";

/// A requested hold.
#[derive(Debug)]
pub(super) struct PendingHold {
    pub(super) needle: Vec<u8>,
    /// The number of statements after the needle that are still forwarded.
    pub(super) statements: usize,
}

/// What a client has sent since a hold was requested.
#[derive(Debug, Default)]
pub(super) struct SentRequests {
    /// The end of its data.
    recent: Vec<u8>,
    /// The number of statements that have ended since the needle; `None` before the needle.
    statements: Option<usize>,
}

impl SentRequests {
    /// Adds a piece of the client's data. Returns the number of its bytes before the hold; `None` if the hold is not in
    /// this piece.
    pub(super) fn add(&mut self, piece: &[u8], hold: &PendingHold) -> Option<usize> {
        for (preceding, byte) in piece.iter().enumerate() {
            self.recent.push(*byte);
            match self.statements {
                None if self.recent.ends_with(&hold.needle) => self.statements = Some(0),
                Some(ended) if self.recent.ends_with(SYNC) => self.statements = Some(ended + 1),
                _ => continue,
            }
            if self.statements == Some(hold.statements) {
                return Some(preceding + 1);
            }
        }
        let kept_bytes = hold.needle.len().max(SYNC.len()) - 1;
        self.recent
            .drain(..self.recent.len().saturating_sub(kept_bytes));
        None
    }
}
