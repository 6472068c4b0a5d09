//! The engine: what a caller may ask, checked and turned into writes of a ledger; restored context;
//! the sweep of silent turns; keys and anchor (DESIGN §4, §5, §9).
//!
//! It knows stores only by their port.

pub mod anchor;
pub mod api_keys;
pub mod audit;
pub mod bundle;
pub mod caller;
pub mod diagnosis;
pub mod history;
pub mod keyfile;
pub mod kpi;
pub mod live;
pub mod restore;
pub mod scopes;
pub mod spoken;
pub mod spool;
pub mod stream;
pub mod tail;

mod append;
mod calls;
mod claim;
mod close;
mod conversation;
mod engine;
mod hex;
mod identity_turns;
mod import;
mod indexing;
mod lineage;
mod metadata;
mod record_policy;
mod redact;
mod requests;
mod secrets;
mod sessions;
mod start;
mod stats;
mod sweep;
mod tiers;
mod touched;
mod trace;
mod validate;
mod written;

pub use append::Appended;
pub use calls::{
    AcquireLease, CallCounts, CallSettings, CheckpointPolicy, Entered, Fallback, Journal, OnBusy,
    RenewLease, ResumeSession, Resumed, SaveCheckpoint, Webhook,
};
pub use conversation::Conversation;
pub use engine::{Engine, Settings};
pub use identity_turns::IdentityTurns;
pub use import::{ImportedTurn, RecordedTurn};
pub use lineage::{Descendant, Lineage, RELATIVES_MAX, Relative};
pub use metadata::{MetadataPolicy, is_address};
pub use record_policy::RecordPolicies;
pub use requests::{
    AppendItems, CancelTurn, CloseSession, CreateSession, ErrorBody, FailTurn, FinalizeTurn,
    LinkSession, PatchSession, RecordEvent, RedactTurn, ReplaceTurn, StartTurn,
};
pub use secrets::{
    CredentialPolicy, MaskStream, Masked, SecretStream, TurnSecrets, UnknownPolicy, credentials,
    mask_json, mask_text,
};
pub use sessions::{ErasureReceipt, StoreReceipt};
pub use stats::{SessionStatistics, Statistics, Tokens, TurnsByStatus, usage_tokens};
pub use touched::{Extent, Standing, Touched, Touches};
pub use validate::Limits;
pub use written::Written;
