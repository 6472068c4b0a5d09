//! Which sessions of a history a generation has, in a note of limited size: sums over groups of sessions.

use filrouge_sources::Fingerprint;
use filrouge_types::SessionId;
use serde::{Deserialize, Serialize};

/// The number of groups. A process that starts reads again all sessions of each group in which one has changed.
pub(crate) const GROUPS: usize = 512;

/// For each group the sum of hashes of its sessions and their stamps; `None` while that is unknown. Without elements,
/// all are unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct GroupSums(Vec<Option<u64>>);

/// The group of a session.
pub(crate) fn group_of(session: &SessionId) -> usize {
    let hash = Fingerprint::compute(&session.as_str()).0;
    usize::try_from(hash % GROUPS as u64).unwrap_or(0)
}

impl GroupSums {
    /// The sums of a history without sessions.
    pub(crate) fn of_nothing() -> Self {
        Self(vec![Some(0); GROUPS])
    }

    /// Whether all sums are unknown because none was stored.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a session to its group.
    pub(crate) fn add(&mut self, group: usize, session: &SessionId, stamp: Option<u64>) {
        let hash = Fingerprint::compute(&(session.as_str(), stamp)).0;
        if let Some(Some(sum)) = self.0.get_mut(group) {
            *sum = sum.wrapping_add(hash);
        }
    }

    /// Whether the group has the same sessions with the same stamps in both.
    pub(crate) fn agrees(&self, other: &Self, group: usize) -> bool {
        let sum_of = |sums: &Self| sums.0.get(group).copied().flatten();
        sum_of(self).is_some_and(|sum| Some(sum) == sum_of(other))
    }

    /// Makes the sum of a group unknown.
    pub(crate) fn forget(&mut self, group: usize) {
        self.0.resize(GROUPS, None);
        if let Some(sum) = self.0.get_mut(group) {
            *sum = None;
        }
    }

    /// Takes over the sums of all groups before `end`.
    pub(crate) fn take_over(&mut self, other: &Self, end: usize) {
        self.0.resize(GROUPS, None);
        for (sum, other) in self.0.iter_mut().zip(&other.0).take(end) {
            *sum = *other;
        }
    }
}
