//! The lanes of a store. Each lane has a commit log, a chain and a digest of its own, and each session belongs to one
//! lane, so that writes to different lanes need no common lock (docs/adr/0038-lanes.md).

use std::fmt;

use filrouge_types::{SessionId, TenantId};

use crate::chain::fingerprint;

/// A session's number in one store, for internal use only.
pub type SessionPk = u64;

/// The number of a lane in its store, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lane(u16);

impl Lane {
    /// The first lane. Every store has it, and the store's notes belong to it.
    pub const FIRST: Self = Self(0);

    /// The lane with this number.
    pub const fn new(number: u16) -> Self {
        Self(number)
    }

    /// The lane's number.
    pub const fn number(self) -> u16 {
        self.0
    }

    /// The lane's index in a list of all lanes.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of lanes of a store, chosen when the store is created and never changed. [`Default`] is one lane; a new
/// PostgreSQL store has another default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lanes(u16);

impl Default for Lanes {
    fn default() -> Self {
        Self::ONE
    }
}

impl fmt::Display for Lanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Lanes {
    /// One lane.
    pub const ONE: Self = Self(1);
    /// The maximum number of lanes.
    pub const MAX: u16 = 64;

    /// This number of lanes; `None` unless it is in `1..=`[`Self::MAX`].
    pub fn new(count: u16) -> Option<Self> {
        (1..=Self::MAX).contains(&count).then_some(Self(count))
    }

    /// The number.
    pub const fn count(self) -> u16 {
        self.0
    }

    /// All lanes, in ascending order.
    pub fn iter(self) -> impl Iterator<Item = Lane> {
        (0..self.0).map(Lane)
    }

    /// The lane of the session with this name. It depends on nothing else, so every server finds the same lane without
    /// a read.
    pub fn of_session(self, tenant: &TenantId, session: &SessionId) -> Lane {
        if self == Self::ONE {
            return Lane::FIRST;
        }
        let name = [tenant.as_str().as_bytes(), session.as_str().as_bytes()];
        let hash = u128::from_be_bytes(fingerprint(&[b"session lane", name[0], name[1]])) >> 64;
        // The remainder is below the number of lanes.
        Lane((hash % u128::from(self.0)) as u16)
    }

    /// The lane of the session with this number.
    pub const fn of_pk(self, pk: SessionPk) -> Lane {
        // The remainder is below the number of lanes.
        Lane((pk % self.0 as u64) as u16)
    }

    /// The number of the session that follows `newest`, the newest session of this lane. The numbers of a lane are those
    /// that leave its own number as the remainder.
    #[must_use]
    pub fn next_pk(self, lane: Lane, newest: Option<SessionPk>) -> SessionPk {
        let count = u64::from(self.0);
        newest.map_or(count + u64::from(lane.0), |newest| newest + count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_sessions_name_their_lane_and_never_collide() {
        let lanes = Lanes::new(3).unwrap();
        let mut all = std::collections::BTreeSet::new();
        for lane in lanes.iter() {
            let mut newest = None;
            for _ in 0..100 {
                let pk = lanes.next_pk(lane, newest);
                assert_eq!(lanes.of_pk(pk), lane);
                assert!(pk > 0 && all.insert(pk));
                newest = Some(pk);
            }
        }
        assert_eq!(Lanes::ONE.next_pk(Lane::FIRST, None), 1);
    }

    #[test]
    fn sessions_spread_over_all_lanes_and_stay_in_theirs() {
        let (lanes, tenant) = (Lanes::new(8).unwrap(), TenantId::new("t").unwrap());
        let mut counts = [0; 8];
        for number in 0..800 {
            let id = SessionId::new(format!("s{number}")).unwrap();
            let lane = lanes.of_session(&tenant, &id);
            assert_eq!(lane, lanes.of_session(&tenant, &id));
            assert_eq!(Lanes::ONE.of_session(&tenant, &id), Lane::FIRST);
            counts[lane.index()] += 1;
        }
        assert!(
            counts.iter().all(|count| (60..140).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn a_store_has_between_1_and_64_lanes() {
        assert_eq!(Lanes::new(0), None);
        assert_eq!(Lanes::new(65), None);
        assert_eq!(Lanes::new(64).map(Lanes::count), Some(64));
    }
}
