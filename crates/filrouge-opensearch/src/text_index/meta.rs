//! The state of an index: one document, which is only replaced by a writer that has read its newest version.

use filrouge_store::text_index::{DocumentNo, IndexVersion, SessionNo};
use filrouge_types::{Clock, Failure, SystemClock};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::errors::malformed;
use super::rows;

/// The version of the format of the rows and of the state. An index of another one is emptied.
pub(super) const FORMAT: u32 = 1;

/// The state of an index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Meta {
    pub(super) format: u32,
    /// The number of the index that has the rows.
    pub(super) generation: u64,
    /// As in [`IndexVersion`]; hexadecimal.
    pub(super) position: Option<String>,
    /// As in [`IndexVersion`].
    pub(super) forgotten: u64,
    /// The number of changes that were begun. It is the external version of the rows that a change writes, so that
    /// OpenSearch refuses rows of a change whose lock was taken over.
    pub(super) changes: u64,
    pub(super) last_session: SessionNo,
    pub(super) last_document: DocumentNo,
    /// Whether rows were deleted for good that a merge has to leave out of the files.
    pub(super) needs_merge: bool,
    pub(super) lock: Option<Lock>,
}

/// Who changes the index, and what of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Lock {
    pub(super) holder: String,
    /// Makes each renewal another state.
    pub(super) renewals: u64,
    pub(super) work: Work,
}

/// What the holder of the lock does. If it does not finish, this is undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Work {
    /// It creates the generation of the state.
    Create,
    /// It writes rows.
    Rows {
        /// The sessions whose rows it writes or deletes.
        sessions: Vec<SessionNo>,
        /// The numbers of new documents: after the first number, up to the second one.
        documents: (DocumentNo, DocumentNo),
        /// The ids of rows of vectors.
        vectors: Vec<String>,
    },
}

/// Identifies a version of the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) seq_no: u64,
    pub(super) term: u64,
}

/// The state as stored.
#[derive(Debug, Clone)]
pub(super) struct StoredMeta {
    pub(super) meta: Meta,
    pub(super) place: Place,
}

impl Meta {
    /// The state of an index that is not created yet. All numbers begin with one that depends on the time: if somebody
    /// deletes the state, no number is used again.
    pub(super) fn new(format: u32) -> Self {
        let millis = u64::try_from(SystemClock.now().as_micros() / 1000).unwrap_or(1);
        // Less than 2^53 for a long time, so that OpenSearch computes with it exactly.
        let number = millis << 10;
        Self {
            format,
            generation: millis,
            position: None,
            forgotten: millis,
            changes: number,
            last_session: number,
            last_document: number,
            needs_merge: false,
            lock: None,
        }
    }

    pub(super) fn version(&self) -> IndexVersion {
        let position = self.position.as_ref().and_then(|hex| hex::decode(hex).ok());
        IndexVersion {
            position: position.map(Into::into),
            forgotten: self.forgotten,
        }
    }

    pub(super) fn set_position(&mut self, position: Option<&[u8]>) {
        self.position = position.map(hex::encode);
    }
}

/// The version of the state that a response names.
pub(super) fn read_place(answer: &Value) -> Result<Place, Failure> {
    let number = |name: &str| answer[name].as_u64().ok_or_else(malformed);
    Ok(Place {
        seq_no: number("_seq_no")?,
        term: number("_primary_term")?,
    })
}

/// The ids of the rows with these numbers of new documents.
pub(super) fn document_ids(
    (after, last): (DocumentNo, DocumentNo),
) -> impl Iterator<Item = String> {
    (after..last).map(|no| rows::document_id(no + 1))
}
