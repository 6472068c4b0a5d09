//! Leases and checkpoints (DESIGN §6).

use serde::Serialize;

use crate::{RawJson, Timestamp};

/// The lease of a session: its holder, its expiry and its fence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Lease {
    /// The newest fence that was issued; 0 before the first. It only grows.
    pub fence: u64,
    /// The lease's holder; absent while the session is not held.
    pub holder: Option<Box<str>>,
    /// When it expires, by the store's clock.
    pub expires_at: Option<Timestamp>,
}

/// The application's state after all items up to a seq.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Checkpoint {
    /// The checkpoint covers all items up to this seq. Absent while the checkpoint waits for the ledger and no seq was given.
    #[serde(serialize_with = "crate::unassigned::serialize")]
    #[schema(value_type = Option<u64>)]
    pub seq: u64,
    /// The application's label, for example the state of its state machine.
    pub label: Option<Box<str>>,
    /// The application's state: a JSON object, kept byte for byte.
    #[schema(value_type = Object)]
    pub state: RawJson,
    /// When it was written.
    pub created_at: Timestamp,
}
