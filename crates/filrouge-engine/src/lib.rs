//! The engine: services over one ledger, one for each subject. A service takes a caller, checks the caller's
//! permission, and turns the request into a write or a verified read. The crate also contains the tiered ledger, the
//! spool, the keys and the anchor (DESIGN §4, §5, §9).
//!
//! The crate depends on no particular backend: it knows stores only as [`filrouge_store::Ledger`] and similar traits.

pub mod anchor;
pub mod api_keys;
pub mod audit;
pub mod backoff;
pub mod bundle;
pub mod caller;
pub mod cleaning;
pub mod diagnosis;
pub mod following;
pub mod history;
pub mod keyfile;
pub mod kpi;
pub mod notes;
pub mod restore;
pub mod scopes;
pub mod shares;
pub mod spool;
pub mod stream;
pub mod utterances;

mod calls;
mod changed_sessions;
mod conversation;
mod core;
mod counters;
mod engine;
mod erasure;
mod events;
mod leftovers;
pub mod lineage;
mod metadata;
mod part_types;
mod record_policy;
mod refused_links;
mod requests;
mod secrets;
mod sessions;
mod settings;
mod shared;
mod stats;
mod tiers;
mod trace;
mod turns;
mod upkeep;
mod validate;
mod written;

pub use caller::Caller;
pub use calls::{
    AcquireLease, CallSettings, CheckpointPolicy, Fallback, Journal, LiveCall, LiveCalls,
    RenewLease, ResumeSession, Resumed, SaveCheckpoint, Webhook, WebhookAdmission,
};
pub use changed_sessions::{
    ChangedSession, ChangedSessions, Extent, SessionAtCommit, SessionPart, is_of_session,
};
pub use cleaning::StoreReceipt;
pub use counters::{Count, Counters, Tally};
pub use engine::{
    Audit, Bundles, Calls, Context, Engine, Erasure, Events, Following, IndexFeed, Keys, Sessions,
    Shares, Stats, Streams, Turns, Upkeep,
};
pub use erasure::{ErasureReceipt, RedactionReceipt};
pub use leftovers::Leftovers;
pub use lineage::{Descendant, Lineage, RELATIVES_MAX, Relative};
pub use metadata::{MetadataPolicy, is_address};
pub use requests::{
    AppendItems, CancelTurn, CloseSession, CreateSession, ErrorBody, FailTurn, FinalizeTurn,
    LinkSession, PatchSession, RecordEvent, RedactItems, RedactTurn, ReplaceTurn, StartTurn,
};
pub use secrets::{CredentialPolicy, Masked, credentials, mask_json, mask_text};
pub use settings::{RecordPolicies, Settings};
pub use stats::{
    DayFigures, DayKey, Origin, SessionDays, SessionStatistics, Statistics, Tokens, TurnsByStatus,
    usage_tokens,
};
pub use turns::{
    Appended, ConversationPart, IdentityTurns, ImportedTurn, ListTurns, OnBusy, Outline,
    OutlineTurn, PartBounds, PartPlace, RecordedTurn,
};
pub use validate::Limits;
pub use written::Written;
