//! The engine: what a caller may ask, checked and turned into writes of a ledger; restored context;
//! the sweep of silent turns; keys and anchor (DESIGN §4, §5, §9).
//!
//! It knows stores only by their port.

pub mod anchor;
pub mod keyfile;

mod close;
mod context;
mod engine;
mod import;
mod requests;
mod sweep;
mod validate;

pub use context::{Context, ContextQuery, ContextReport, Dropped, Pair, Window};
pub use engine::{Appended, Engine, Settings};
pub use import::{ImportedTurn, RecordedTurn};
pub use requests::{
    AppendItems, CancelTurn, CreateSession, ErrorBody, FailTurn, FinalizeTurn, ReplaceTurn,
    StartTurn,
};
pub use validate::Limits;
