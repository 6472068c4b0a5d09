//! The outcome of a write.

use filrouge_types::{Checkpoint, Lease, Role, Session, SessionEvent, Turn};

use super::{Erased, Redacted};
use crate::chain::Link;
use crate::read::VerifiedSession;

/// The range of items that a write added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenRange {
    /// The seq of the first item.
    pub first_seq: u64,
    /// The seq of the last item.
    pub last_seq: u64,
    /// The link of the item before the first one.
    pub previous_link: Link,
    /// The link of the last item.
    pub link: Link,
    /// The role of each item, for a write to a turn; empty for other writes.
    pub roles: Vec<Role>,
}

impl WrittenRange {
    /// The range of `count` items with these roles, which ends with the session's newest item; `None` if `count` is 0.
    pub(crate) fn new(
        session: &VerifiedSession,
        first_seq: u64,
        count: u64,
        roles: impl IntoIterator<Item = Role>,
    ) -> Option<Self> {
        if count == 0 {
            return None;
        }
        Some(Self {
            first_seq,
            last_seq: first_seq + count - 1,
            previous_link: session.link_when_read,
            link: session.head.link,
            roles: roles.into_iter().collect(),
        })
    }
}

/// The outcome of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The session, and whether this write created it.
    Session {
        /// The session.
        session: Box<Session>,
        /// Whether it is new.
        created: bool,
        /// The items that the write added; `None` if it added none.
        written: Option<WrittenRange>,
    },
    /// The current turn, and the range of the items that the write added, which is `None` for a replay.
    Turn(Box<Turn>, Option<WrittenRange>),
    /// The items were appended, by this write or by an earlier one with the same keys.
    Appended {
        /// The seq of the first item.
        first_seq: u64,
        /// The seq of the last item.
        last_seq: u64,
        /// Whether this is a replay.
        replayed: bool,
        /// The items that the write added; `None` for a replay.
        written: Option<WrittenRange>,
    },
    /// The range of the items that the write added; `None` if it did not interrupt the turn.
    Interrupted(Option<WrittenRange>),
    /// The receipt of the redaction.
    Redacted(Redacted),
    /// The receipt of the erasure.
    Erased(Erased),
    /// The event, and whether this write created it.
    Event {
        /// The event.
        event: Box<SessionEvent>,
        /// Whether it is new.
        created: bool,
    },
    /// The draft was extended.
    Drafted,
    /// The current lease.
    Lease {
        /// The lease.
        lease: Lease,
        /// Whether this write granted it, with a new fence.
        acquired: bool,
        /// Whether the write created the session.
        created: bool,
        /// Whether an event records that the caller resumed from the store.
        resumed: bool,
    },
    /// The checkpoint, and whether this write created it.
    Checkpoint {
        /// The checkpoint.
        checkpoint: Box<Checkpoint>,
        /// Whether it is new.
        created: bool,
        /// The session's newest seq.
        last_seq: u64,
    },
    /// Whether the note was written; `false` when its version is not the expected one.
    Note(bool),
}
