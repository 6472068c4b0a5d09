//! Ids, records and error codes of filrouge (DESIGN §2, §3, §12).
//!
//! Nothing here reads a clock, a file or the environment: time and randomness
//! are handed in by the caller.

mod error;
mod id;
mod item;
mod json;
mod lease;
mod members;
mod merge;
mod moment;
mod object;
mod part;
pub mod placed;
#[cfg(feature = "openapi")]
pub mod schema;
mod session;
mod time;
mod turn;

pub use error::{ErrorCode, Failure, Place};
pub use id::{
    EventKey, IdError, IdentityId, ItemId, OWN_EVENTS, ProjectId, RequestId, SessionId, TenantId,
    TurnId,
};
pub use item::{Channel, Item, ItemBody, Role, UnknownName, Variant};
pub use json::{JsonError, JsonText, MAX_NESTING, RawJson, check_nesting};
pub use lease::{Checkpoint, Lease};
pub use members::Members;
pub use merge::{merge_objects, merge_patch, select_members, take_members};
pub use moment::{Moment, MomentError, duration};
pub use object::{Object, object, objects};
pub use part::{Part, text_of};
pub use placed::UNPLACED;
pub use session::{Recorded, Session, SessionEvent, SessionStatus};
pub use time::{Clock, FixedClock, SystemClock, Timestamp, TimestampError};
pub use turn::{Turn, TurnStatus};
