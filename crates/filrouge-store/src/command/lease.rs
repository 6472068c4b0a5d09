//! Commands on leases and checkpoints (DESIGN §6).

use std::time::Duration;

use filrouge_types::{RawJson, SessionId};
use serde::{Deserialize, Deserializer, Serialize};

use super::NewSession;

/// The fencing token of a write: the lease that its writer claims to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FencingToken {
    /// The fence of that lease.
    pub fence: u64,
    /// Whether the write also releases the lease in its commit.
    pub release: bool,
    /// Whether the write was accepted while the lease was live and then waited in the spool. If so, the write is valid
    /// even after the lease has expired, unless another holder has acquired the session since.
    pub queued: bool,
}

impl FencingToken {
    /// The token of a write that neither releases the lease nor has waited in the spool.
    pub const fn new(fence: u64) -> Self {
        Self {
            fence,
            release: false,
            queued: false,
        }
    }
}

/// The command that acquires, renews or releases the lease of a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LeaseCommand {
    /// The session.
    pub session_id: SessionId,
    /// The holder.
    pub holder: Box<str>,
    /// The request.
    #[serde(rename = "ask")]
    pub request: LeaseRequest,
}

/// A request to acquire, renew or release a lease.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum LeaseRequest {
    /// Acquires the lease. If the caller already holds it, its fence stays the same and the lease is extended.
    Acquire(Box<Acquire>),
    /// Extends the lease.
    Renew {
        /// The fence of the lease.
        fence: u64,
        /// The time to live, from now.
        ttl: Duration,
    },
    /// Releases the lease. It counts as released if it has expired or another holder has acquired the session.
    Release {
        /// The fence of the lease.
        fence: u64,
    },
}

/// The parameters of acquiring a session's lease.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Acquire {
    /// The time to live, from now.
    pub ttl: Duration,
    /// A server that is known to have exited: a lease that was last used through it does not keep others from acquiring
    /// the session.
    #[serde(skip)]
    pub exited: Option<Box<str>>,
    /// The session to create if it does not exist.
    pub create: Option<NewSession>,
    /// The values of the application's label ([`filrouge_types::Session::state`]) with which a session cannot be
    /// acquired.
    pub terminal: Vec<Box<str>>,
    /// `Some` if the caller resumes the session from the store. The inner value is the newest seq that the caller
    /// knows, if any. An event records the resumption unless this is the session's newest seq.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "deserialize_present"
    )]
    pub resumes: Option<Option<u64>>,
}

/// Writes a checkpoint, at most once per seq (DESIGN §6).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PutCheckpoint {
    /// The session.
    pub session_id: SessionId,
    /// The last seq that the checkpoint covers. With `None` it covers all items that exist when it is written.
    pub seq: Option<u64>,
    /// The application's label. It becomes the session's state if this checkpoint is the session's newest one.
    pub label: Option<Box<str>>,
    /// The application's state, a JSON object.
    pub state: RawJson,
    /// The number of checkpoints that the session keeps; this write deletes older ones.
    pub keep: u64,
}

/// Deserializes a member that is present: `null` becomes `Some(None)`.
fn deserialize_present<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Option<u64>>, D::Error> {
    Option::deserialize(d).map(Some)
}
