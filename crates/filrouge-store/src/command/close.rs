//! The command that ends a turn (DESIGN §4.3, §4.4).

use std::sync::OnceLock;

use filrouge_types::{JsonText, RawJson, RequestId, SessionId, TurnId};
use serde::{Deserialize, Serialize};

use crate::draft::StreamId;
use crate::record::{Batch, Entry};

/// The way a turn ends.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Ending {
    /// Finalizes the turn with an answer. If no answer is given, the turn's existing final item becomes the answer.
    Finalize {
        /// The neutral answer.
        neutral: Option<JsonText>,
        /// The translated answer.
        translated: Option<JsonText>,
        /// Whether the translated answer is only a copy of the neutral one, according to the caller.
        fallback: Option<bool>,
    },
    /// Fails the turn. The entries are the text shown so far, then the error.
    Fail(Vec<Entry>),
    /// Cancels the turn at the user's request. The entries are the text shown so far, then the cancellation.
    Cancel(Vec<Entry>),
    /// Interrupts the turn, because the client that sent its stream is gone: its caller may start it again. The entries
    /// are the text shown so far, then the error.
    Interrupt(Vec<Entry>),
    /// Finalizes the turn with the answer of a recorded stream. The entries are the recording's last items, including
    /// the answer.
    Recorded(Vec<Entry>),
}

impl Ending {
    /// The items that the caller supplies.
    pub fn entries(&self) -> &[Entry] {
        match self {
            Self::Finalize { .. } => &[],
            Self::Fail(entries)
            | Self::Cancel(entries)
            | Self::Interrupt(entries)
            | Self::Recorded(entries) => entries,
        }
    }
}

/// Ends a turn.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Close {
    /// The session.
    pub session_id: SessionId,
    /// The turn.
    pub turn_id: TurnId,
    /// The id of the request that started the turn. If given, it is compared with the stored one.
    pub request_id: Option<RequestId>,
    /// The ending.
    pub ending: Ending,
    /// Metadata to merge into the turn's metadata. A member replaces the member of the same name.
    pub metadata: Option<RawJson>,
    /// The fingerprint of the request's body.
    #[serde(with = "crate::hex")]
    pub fingerprint: [u8; 16],
    /// The recording that ends the turn; its entries replace the draft. `None` if another caller ends the turn: then
    /// the text of the draft becomes items.
    #[serde(skip)]
    pub stream: Option<StreamId>,
    /// The items that the turn probably ends with, packed before the transaction.
    #[serde(skip)]
    pub packed: OnceLock<Batch>,
}
