//! Leases and checkpoints (DESIGN §6).

use serde::Serialize;

use crate::{RawJson, Timestamp};

/// Who may continue a session, and until when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Lease {
    /// The newest fence that was given out; 0 before the first. It only grows.
    pub fence: u64,
    /// Who holds the session; absent when nobody does.
    pub holder: Option<Box<str>>,
    /// Until when, by the store's clock.
    pub expires_at: Option<Timestamp>,
}

/// What an application knew when all items up to a seq had happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Checkpoint {
    /// It covers all items with this seq or less. Absent while it waits for the ledger and no seq was named.
    #[serde(serialize_with = "crate::placed::serialize")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>))]
    pub seq: u64,
    /// The application's label, as the state of its state machine.
    pub label: Option<Box<str>>,
    /// The application's state: a JSON object, kept byte for byte.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub state: RawJson,
    /// When it was put.
    pub created_at: Timestamp,
}
