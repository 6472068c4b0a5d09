//! Ids, records and error codes of filrouge (DESIGN §2, §3, §12).
//!
//! This crate reads no clock, file or environment: callers pass in time and randomness.

mod application;
mod error;
mod host;
mod id;
mod item;
mod json;
mod lease;
mod lock;
mod members;
mod merge;
mod moment;
mod object;
mod part;
pub mod schema;
mod session;
mod terminal;
mod time;
mod turn;
pub mod unassigned;
mod words;

pub use application::{
    ANSWER_IS_COPY, Application, ApplicationReader, QUESTION_IS_COPY, TurnLabel, Variant,
    flag_metadata,
};
pub use error::{DataLocation, ErrorCode, Failure, Result};
pub use host::Host;
pub use id::{
    EventKey, INTERNAL_EVENT_PREFIX, IdError, IdentityId, ItemId, ProjectId, RequestId, SessionId,
    TenantId, TurnId,
};
pub use item::{Annotations, Channel, Item, ItemBody, Role};
pub use json::{
    JsonError, JsonText, MAX_NESTING, RawJson, check_nesting, check_nesting_within,
    replace_lone_surrogates,
};
pub use lease::{Checkpoint, Lease};
pub use lock::lock;
pub use members::Members;
pub use merge::{merge_objects, merge_patch, select_members, take_members};
pub use moment::{Moment, MomentError, duration};
pub use object::{Object, object, objects};
pub use part::Part;
pub use session::{Recorded, Session, SessionEvent, SessionStatus};
pub use terminal::controls_terminal;
pub use time::{Clock, FixedClock, LONGEST_LEASE, SystemClock, Timestamp, TimestampError};
pub use turn::{Turn, TurnStatus};
pub use unassigned::UNASSIGNED;
pub use words::UnknownName;
