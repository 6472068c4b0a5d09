//! The keys of one session's rows, and the names of the fields under which a hot store keeps these rows.

use filrouge_types::{ItemId, RequestId};

use super::{item_key, request_key};
use crate::chain::fingerprint;

/// The key of a row among the rows of one session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum RowKey {
    /// The row of the session.
    Session,
    /// The head of the session.
    Head,
    /// The turn with this [`super::TurnRow::place`].
    Turn(u64),
    /// The record that begins at a seq.
    Record(u64),
    /// The row that stores the seq of the item with this id.
    Item(ItemId),
    /// The row that stores the first seq of a request's turn.
    Request(RequestId),
    /// An agent that has spoken in the session.
    Agent(Box<str>),
    /// The event with a number.
    Event(u64),
    /// The draft of the turn at a place.
    Draft(u64),
    /// A draft's chunk, by the turn's place and the chunk's number.
    Chunk(u64, u64),
    /// The checkpoint at a seq.
    Checkpoint(u64),
}

impl RowKey {
    /// The name of the row's field in a hot store: a letter for the kind, then the key. A key of variable length is
    /// hashed.
    pub(crate) fn field_name(&self) -> Vec<u8> {
        let mut name = vec![self.kind_letter()];
        match self {
            Self::Session | Self::Head => {}
            Self::Turn(n)
            | Self::Record(n)
            | Self::Event(n)
            | Self::Draft(n)
            | Self::Checkpoint(n) => {
                name.extend_from_slice(&n.to_be_bytes());
            }
            Self::Item(id) => name.extend_from_slice(&item_key(id)),
            Self::Request(id) => name.extend_from_slice(&request_key(id)),
            Self::Agent(agent) => {
                name.extend_from_slice(&fingerprint(&[b"agent", agent.as_bytes()]));
            }
            Self::Chunk(place, number) => {
                name.extend_from_slice(&place.to_be_bytes());
                name.extend_from_slice(&number.to_be_bytes());
            }
        }
        name
    }

    /// The letter for the kind of the row.
    const fn kind_letter(&self) -> u8 {
        match self {
            Self::Session => b's',
            Self::Head => b'h',
            Self::Turn(_) => b't',
            Self::Record(_) => b'r',
            Self::Item(_) => b'i',
            Self::Request(_) => b'q',
            Self::Agent(_) => b'a',
            Self::Event(_) => b'e',
            Self::Draft(_) => b'd',
            Self::Chunk(..) => b'c',
            Self::Checkpoint(_) => b'k',
        }
    }
}
