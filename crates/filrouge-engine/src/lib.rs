//! The engine: what a caller may ask, checked and turned into writes of a ledger; restored context;
//! the sweep of silent turns; keys and anchor (DESIGN §4, §5, §9).
//!
//! It knows stores only by their port.

pub mod anchor;
pub mod bundle;
pub mod keyfile;
pub mod restore;

mod close;
mod conversation;
mod engine;
mod hex;
mod import;
mod redact;
mod requests;
mod sweep;
mod validate;

pub use conversation::Conversation;
pub use engine::{Appended, Engine, Settings};
pub use import::{ImportedTurn, RecordedTurn};
pub use requests::{
    AppendItems, CancelTurn, CreateSession, ErrorBody, FailTurn, FinalizeTurn, RedactTurn,
    ReplaceTurn, StartTurn,
};
pub use validate::Limits;
