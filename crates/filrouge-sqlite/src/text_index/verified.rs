//! What an open index remembers of the checks of its seals.

use std::collections::HashSet;

/// What was found to agree with its seals since another connection last changed the file.
#[derive(Default)]
pub(super) struct Verified {
    /// [`super::files::IndexFile::changes_by_others`].
    pub(super) changes_by_others: u64,
    /// Whether the index agrees with its seal.
    pub(super) index: bool,
    /// The numbers of the shards that agree with their seals.
    pub(super) shards: HashSet<i64>,
}
