//! The sessions that a feed could not read, so that each search knows which sessions the index lacks.

use std::collections::BTreeMap;

use filrouge_store::text_index::{IndexScope, IndexUpdate, IndexedSession, Key, Shard};

use super::documents::UNREADABLE;

/// The maximum number of sessions that a search names.
const NAMED_MAX: usize = 1000;

/// The sessions of all tenants that the index lacks because they could not be read, with their shards. Uses about 150
/// bytes for each. A limit for all owners together would let the sessions of one owner change the results of another.
#[derive(Default)]
pub(super) struct UnreadableSessions(BTreeMap<Key, Shard>);

/// The unreadable sessions that a caller may see.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Unreadable {
    /// The ids of at most [`NAMED_MAX`] of them, in order.
    pub(crate) ids: Vec<Box<str>>,
    /// The number of all others.
    pub(crate) others: usize,
}

impl UnreadableSessions {
    /// Replaces the list by `sessions`.
    pub(super) fn replace(&mut self, sessions: &[IndexedSession]) {
        let entries = sessions.iter().map(|session| {
            let key = (session.shard.realm.clone(), session.entry.key.clone());
            (key, session.shard.clone())
        });
        self.0 = entries.collect();
    }

    /// Applies changes that were made in the index.
    pub(super) fn apply(&mut self, updates: &[IndexUpdate]) {
        for update in updates {
            match update {
                IndexUpdate::Session(update) => {
                    let key = (update.shard.realm.clone(), update.entry.key.clone());
                    match update.entry.stamp[1] {
                        UNREADABLE => self.0.insert(key, update.shard.clone()),
                        _ => self.0.remove(&key),
                    };
                }
                IndexUpdate::Removed(key) => drop(self.0.remove(key)),
                IndexUpdate::Vectors(..) => {}
            }
        }
    }

    /// The sessions within `reach`. Reads the complete list.
    pub(super) fn within(&self, reach: &IndexScope) -> Unreadable {
        let mut unreadable = Unreadable::default();
        for ((_, id), _) in self.0.iter().filter(|(_, shard)| reach.contains(shard)) {
            match unreadable.ids.len() < NAMED_MAX {
                true => unreadable.ids.push(id.clone()),
                false => unreadable.others += 1,
            }
        }
        unreadable
    }
}

#[cfg(test)]
mod tests {
    use filrouge_store::text_index::{Coverage, SessionEntry, SessionUpdate};

    use super::*;

    fn shard(owner: &str) -> Shard {
        Shard {
            realm: b"t"[..].into(),
            owner: owner.as_bytes().into(),
        }
    }

    fn update(owner: &str, key: &str, stamp: [u64; 2]) -> IndexUpdate {
        IndexUpdate::Session(SessionUpdate {
            shard: shard(owner),
            entry: SessionEntry {
                key: key.into(),
                stamp,
                ..SessionEntry::default()
            },
            coverage: Coverage::All,
            documents: Vec::new(),
        })
    }

    #[test]
    fn only_the_sessions_of_the_scope_are_named_and_counted() {
        let mut sessions = UnreadableSessions::default();
        let hers: Vec<_> = (0..NAMED_MAX + 2)
            .map(|n| update("ann", &format!("a{n:04}"), [7, UNREADABLE]))
            .collect();
        sessions.apply(&hers);
        sessions.apply(&[
            update("bob", "b", [7, UNREADABLE]),
            update("bob", "readable", [7, 0]),
        ]);
        let of_bob = IndexScope::Shard(shard("bob"));
        let expected = Unreadable {
            ids: vec!["b".into()],
            others: 0,
        };
        assert_eq!(sessions.within(&of_bob), expected);
        let of_all = sessions.within(&IndexScope::Realm(b"t"[..].into()));
        assert_eq!((of_all.ids.len(), of_all.others), (NAMED_MAX, 3));
        let other_realm = IndexScope::Realm(b"u"[..].into());
        assert_eq!(sessions.within(&other_realm), Unreadable::default());
        sessions.apply(&[
            update("bob", "b", [8, 0]),
            IndexUpdate::Removed((b"t"[..].into(), "a0000".into())),
        ]);
        assert_eq!(sessions.within(&of_bob), Unreadable::default());
        let of_ann = sessions.within(&IndexScope::Shard(shard("ann")));
        assert_eq!((&*of_ann.ids[0], of_ann.others), ("a0001", 1));
    }
}
