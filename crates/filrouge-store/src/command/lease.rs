//! Leases and checkpoints: who may continue a session, and what its application knew (DESIGN §6).

use std::time::Duration;

use filrouge_types::{RawJson, SessionId};
use serde::{Deserialize, Deserializer, Serialize};

use super::NewSession;

/// The lease that a writer holds a session by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// The fence that it was given.
    pub fence: u64,
    /// Whether the write, once it is done, gives the session free.
    pub release: bool,
    /// Whether it was accepted while the lease was live, and has waited for the ledger since: then nobody else may have taken
    /// the session, however late it is.
    pub queued: bool,
}

impl Hold {
    /// By this fence.
    #[must_use]
    pub const fn by(fence: u64) -> Self {
        Self {
            fence,
            release: false,
            queued: false,
        }
    }
}

/// Takes, renews or releases the lease of a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TakeLease {
    /// The session.
    pub session_id: SessionId,
    /// Who asks.
    pub holder: Box<str>,
    /// What is asked.
    pub ask: LeaseAsk,
}

/// What is asked of a lease.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum LeaseAsk {
    /// To hold the session. Who holds it already keeps the fence, for longer.
    Acquire(Box<Acquire>),
    /// To hold it for longer.
    Renew {
        /// The fence that it is held by.
        fence: u64,
        /// How long, from now on.
        ttl: Duration,
    },
    /// To give it free. What was taken over or has expired is free of this holder already.
    Release {
        /// The fence that it is held by.
        fence: u64,
    },
}

/// To hold a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Acquire {
    /// How long, from now on.
    pub ttl: Duration,
    /// The session to make when there is none.
    pub create: Option<NewSession>,
    /// States of the application that a session does not go on from.
    pub terminal: Vec<Box<str>>,
    /// Whether the caller goes on from what the store has: an event tells of it, unless there is nothing newer than this
    /// seq, up to which the caller knows the session.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "present"
    )]
    pub resumes: Option<Option<u64>>,
}

/// Puts a checkpoint, once for each seq (DESIGN §6).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PutCheckpoint {
    /// The session.
    pub session_id: SessionId,
    /// It covers all items with this seq or less; `None` covers all that are there when it is written.
    pub seq: Option<u64>,
    /// The application's label, which becomes the session's state when it is the newest one.
    pub label: Option<Box<str>>,
    /// The application's state, a JSON object.
    pub state: RawJson,
    /// How many checkpoints the session keeps.
    pub keep: u64,
}

/// A value that is there, if only as `null`.
fn present<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Option<u64>>, D::Error> {
    Option::deserialize(d).map(Some)
}
