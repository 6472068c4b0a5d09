//! How a write is answered.

use filrouge_types::{Checkpoint, Lease, Role, Session, SessionEvent, Turn};

use super::{Erased, Redacted};
use crate::chain::Link;
use crate::read::Loaded;

/// The items that a write has put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put {
    /// The first one's seq.
    pub first_seq: u64,
    /// The last one's seq.
    pub last_seq: u64,
    /// The link of the item before the first one.
    pub before: Link,
    /// The link of the last one.
    pub link: Link,
    /// The role of each of them, for a write to a turn; empty for other writes.
    pub roles: Vec<Role>,
}

impl Put {
    /// So many items of these roles from `first_seq` on, behind which the session stands now; `None` for no item.
    pub(crate) fn new(
        session: &Loaded,
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
            before: session.before,
            link: session.head.link,
            roles: roles.into_iter().collect(),
        })
    }
}

/// What a write answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The session, and whether this write made it.
    Session {
        /// The session.
        session: Box<Session>,
        /// Whether it is new.
        created: bool,
        /// What the write has put; nothing when it changed nothing that is an item.
        put: Option<Put>,
    },
    /// The turn as it stands now, and what the write has put: nothing when it repeats an earlier one.
    Turn(Box<Turn>, Option<Put>),
    /// Where the items stand, and whether an earlier write put them there.
    Appended {
        /// The first one's seq.
        first_seq: u64,
        /// The last one's seq.
        last_seq: u64,
        /// Whether this repeats an earlier answer.
        replayed: bool,
        /// What the write has put; nothing when it repeats an earlier one.
        put: Option<Put>,
    },
    /// What the write has put when it has interrupted the turn.
    Interrupted(Option<Put>),
    /// What was redacted.
    Redacted(Redacted),
    /// What was erased.
    Erased(Erased),
    /// The event as it stands, and whether this write put it there.
    Event {
        /// The event.
        event: Box<SessionEvent>,
        /// Whether it is new.
        created: bool,
    },
    /// The draft was added to.
    Drafted,
    /// The lease as it stands now.
    Lease {
        /// The lease.
        lease: Lease,
        /// Whether it is a new one, under a fence that nobody had before.
        taken: bool,
        /// Whether the write made the session.
        created: bool,
        /// Whether an event tells that the caller goes on from what the store has.
        resumed: bool,
    },
    /// The checkpoint as it stands, and whether this write put it there.
    Checkpoint {
        /// The checkpoint.
        checkpoint: Box<Checkpoint>,
        /// Whether it is new.
        created: bool,
        /// The newest seq.
        last_seq: u64,
    },
    /// Whether the note was put: `false` when it is not at the version that was expected.
    Note(bool),
}
