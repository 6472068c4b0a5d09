//! Readers of foreign conversation histories, in place and without writing (DESIGN §10).
//!
//! A [`Source`] reads one program's history; [`opencode`], [`claude_code`] and [`codex`] open what lies at a path, all
//! generations at once, and [`programs`] is their table. What is read comes back in one neutral form: [`Header`], [`Conversation`]; for
//! `filrouge import` as turns of `ItemBody`. [`library`] puts sources together and answers questions: lists, histories,
//! lineage, statistics, search, documents. A record that cannot be used costs only itself: it is named in a
//! [`Skipped`] and everything else is read.
//!
//! Absent on purpose: nothing here writes into a source, prints, reads the environment or a home folder, follows a
//! symbolic link below the opened folder, or builds a path from an identifier found inside a file.

mod by_two;
pub mod claude_code;
pub mod codex;
mod conversation;
mod files;
mod import;
mod jsonl;
pub mod ledger;
pub mod library;
mod locked;
mod object;
pub mod opencode;
mod program;
pub mod programs;
mod raw;
mod skip;
mod source;
mod turns_of;

pub use by_two::by_two;
pub use conversation::{
    Boundary, Changes, Conversation, Message, MessageError, Part, PartKind, Role, TokenRule, Tool,
    ToolStatus,
};
pub use filrouge_engine::Tokens;
pub use import::{ForeignTurn, LoadedSession};
pub use library::{Library, LibraryError};
pub use program::{Opened, Program, Surroundings};
pub use skip::{SkipReason, Skipped, count_by_reason};
pub use source::{Fingerprint, Header, Listing, ReadError, Source, SourceError};
