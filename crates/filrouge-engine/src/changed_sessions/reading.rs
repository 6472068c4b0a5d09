//! Reads sessions, or parts of them, at one commit.

use std::collections::BTreeSet;

use filrouge_store::read::{
    LedgerSnapshot, SessionOrTombstone, VerifiedSession, in_session, turn_not_found,
};
use filrouge_store::{MAC_BYTES, Scope};
use filrouge_types::{Failure, Item, Recorded, SessionId, Turn};

use crate::caller::{Caller, Permission};
use crate::conversation::{self, CONTENTS_MAX};
use crate::engine::IndexFeed;

/// The part of a session to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Extent {
    /// The entire session.
    Entire,
    /// The turns of the items in these inclusive ranges of seqs, each complete and in its newest version, and those
    /// items in the ranges that belong to no turn.
    Turns(Vec<(u64, u64)>),
    /// Turns by their ordinals, each complete and in its newest version, and items by their seqs. Ordinals and items
    /// that do not exist are left out, and so are items that belong to a turn.
    Units {
        /// The ordinals.
        turns: BTreeSet<u64>,
        /// The seqs.
        items: BTreeSet<u64>,
    },
}

/// The requested part of a session; `None` if the session was erased or does not exist.
pub type SessionPart = Result<Option<Recorded>, Failure>;

/// A session as it was at a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionAtCommit {
    /// The number of the newest commit of the session's lane when the session was read.
    pub commit_no: u64,
    /// The keyed hash of the session's owner, or of its session token: [`filrouge_store::Keyring::owner`].
    pub owner: [u8; MAC_BYTES],
    /// The requested part of the session.
    pub conversation: Recorded,
}

impl IndexFeed {
    /// A session of the ledger as `caller` sees it, or some of its turns, from one consistent snapshot. `None` if the
    /// session was erased or does not exist.
    ///
    /// # Errors
    /// `limit_exceeded` when the requested part has more than 256 MiB, `integrity_error`, `key_missing`, and the
    /// ledger's errors.
    pub async fn read_session(
        &self,
        caller: &Caller,
        session: &SessionId,
        extent: Extent,
    ) -> Result<Option<SessionAtCommit>, Failure> {
        let scope = caller.scope(Permission::Read)?;
        let (viewer, id) = (scope.clone(), session.clone());
        let session_at_commit = self.ledger.query_listed(&viewer, move |snapshot| {
            let Some(loaded) = find_live(snapshot, &scope, &id)? else {
                return Ok(None);
            };
            let row = &loaded.row;
            let owner = snapshot.keyring.owner(row.identity_id.as_ref(), row.token);
            let lane = snapshot.view.lanes().of_pk(loaded.pk);
            let newest = snapshot.view.newest_log(lane)?;
            Ok(Some(SessionAtCommit {
                commit_no: newest.map_or(0, |row| row.commit_no),
                owner,
                conversation: read_extent(snapshot, &scope, loaded, &extent)?,
            }))
        });
        session_at_commit.await
    }

    /// Parts of several sessions as `caller` sees them, from one consistent snapshot, in the order of `parts`. A session
    /// that cannot be read does not affect the others: its errors are those of [`Self::read_session`].
    ///
    /// # Errors
    /// The ledger's errors.
    pub async fn read_sessions(
        &self,
        caller: &Caller,
        parts: Vec<(SessionId, Extent)>,
    ) -> Result<Vec<SessionPart>, Failure> {
        let scope = caller.scope(Permission::Read)?;
        let viewer = scope.clone();
        let read = self.ledger.query_listed(&viewer, move |snapshot| {
            let read_part = |(id, extent): (SessionId, Extent)| {
                let loaded = find_live(snapshot, &scope, &id)?;
                let read = loaded.map(|loaded| read_extent(snapshot, &scope, loaded, &extent));
                read.transpose()
            };
            Ok(parts.into_iter().map(read_part).collect())
        });
        read.await
    }
}

/// The session; `None` if it was erased or does not exist.
fn find_live(
    snapshot: &LedgerSnapshot<'_>,
    scope: &Scope,
    id: &SessionId,
) -> Result<Option<VerifiedSession>, Failure> {
    Ok(match snapshot.find_or_tombstone(scope, id)? {
        Some(SessionOrTombstone::Live(loaded)) => Some(*loaded),
        Some(SessionOrTombstone::Erased(_)) | None => None,
    })
}

fn read_extent(
    snapshot: &LedgerSnapshot<'_>,
    scope: &Scope,
    loaded: VerifiedSession,
    extent: &Extent,
) -> Result<Recorded, Failure> {
    let id = loaded.row.session_id.clone();
    let read = match extent {
        Extent::Entire => conversation::read_conversation(snapshot, loaded),
        Extent::Turns(seq_ranges) => read_turns(snapshot, scope, loaded, seq_ranges),
        Extent::Units { turns, items } => read_units(snapshot, loaded, turns, items),
    };
    in_session(&id, read)
}

/// Reads the turns that have items in `seq_ranges`, and the items in these ranges that belong to no turn.
fn read_turns(
    snapshot: &LedgerSnapshot<'_>,
    scope: &Scope,
    loaded: VerifiedSession,
    seq_ranges: &[(u64, u64)],
) -> Result<Recorded, Failure> {
    let (mut bytes_left, mut ids, mut loose) = (CONTENTS_MAX, BTreeSet::new(), Vec::new());
    for &(first, last) in seq_ranges {
        let last = last.min(loaded.head.last_seq);
        // The items are not deducted from `bytes_left`, because they are read again with their turns.
        let mut scan_bytes_left = bytes_left;
        for item in snapshot.items_between(&loaded, first, last, &mut scan_bytes_left)? {
            match item.turn_id {
                Some(turn) => drop(ids.insert(turn)),
                None => loose.push(item),
            }
        }
    }
    let mut ordinals = BTreeSet::new();
    for id in ids {
        let row = snapshot.find_turn(&loaded, scope, &id)?;
        ordinals.insert(row.ok_or_else(|| turn_not_found(&id))?.ordinal);
    }
    Ok(Recorded {
        turns: newest_versions(snapshot, &loaded, &ordinals, &mut bytes_left)?,
        session: loaded.row.with_head(&loaded.head),
        loose,
    })
}

/// Reads the newest versions of the turns with these ordinals, and those of the items at these seqs that belong to no
/// turn.
fn read_units(
    snapshot: &LedgerSnapshot<'_>,
    loaded: VerifiedSession,
    ordinals: &BTreeSet<u64>,
    seqs: &BTreeSet<u64>,
) -> Result<Recorded, Failure> {
    let (mut bytes_left, mut loose) = (CONTENTS_MAX, Vec::new());
    let exists = |seq: &&u64| **seq <= loaded.head.last_seq;
    for seq in seqs.range(1..).take_while(exists) {
        let items = snapshot.items_between(&loaded, *seq, *seq, &mut bytes_left)?;
        loose.extend(items.into_iter().filter(|item| item.turn_id.is_none()));
    }
    Ok(Recorded {
        turns: newest_versions(snapshot, &loaded, ordinals, &mut bytes_left)?,
        session: loaded.row.with_head(&loaded.head),
        loose,
    })
}

/// The newest versions of those turns with these ordinals that exist, with their items.
fn newest_versions(
    snapshot: &LedgerSnapshot<'_>,
    loaded: &VerifiedSession,
    ordinals: &BTreeSet<u64>,
    bytes_left: &mut usize,
) -> Result<Vec<(Turn, Vec<Item>)>, Failure> {
    let mut turns = Vec::with_capacity(ordinals.len());
    let exists = |ordinal: &&u64| **ordinal <= loaded.head.turn_count;
    for ordinal in ordinals.range(1..).take_while(exists) {
        for row in snapshot.turn_rows_descending(loaded, Some((ordinal + 1) << 8), 1)? {
            turns.push(snapshot.project_with_items(loaded, &row, bytes_left)?);
        }
    }
    Ok(turns)
}
