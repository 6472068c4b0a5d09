//! In-place, read-only readers of other programs' conversation histories (DESIGN §10).
//!
//! A [`Source`] reads one program's history; [`opencode`], [`claude_code`] and [`codex`] open the history of one
//! program at a path, in every storage format that the program has used, and [`programs`] lists these programs. Every
//! source returns the same neutral form: a [`Header`] and a [`Conversation`] for each session and, for `filrouge
//! import`, turns of `ItemBody`. [`library`] combines sources and answers queries: lists, histories, lineage,
//! statistics, search, documents. A record that cannot be used is left out and reported as a [`Skipped`]; everything
//! else is read.
//!
//! By design, this crate never writes into a source, prints, reads the environment or a home folder, follows a symbolic
//! link below the opened folder, or builds a path from an identifier found inside a file.

pub mod claude_code;
pub mod codex;
mod conversation;
mod files;
mod import;
mod jsonl;
pub mod ledger;
pub mod library;
mod object;
mod on_two_threads;
pub mod opencode;
mod program;
pub mod programs;
mod raw;
mod skip;
mod source;
mod turns_of;

pub use conversation::{
    Boundary, Changes, Conversation, Message, MessageError, Part, PartKind, Role, TokenRule, Tool,
    ToolStatus,
};
pub use filrouge_engine::Tokens;
pub use import::{ForeignTurn, LoadedSession, Unfinished};
pub use library::{Library, LibraryError};
pub use on_two_threads::on_two_threads;
pub use program::{Opened, Program, Surroundings};
pub use skip::{SkipReason, Skipped, count_by_reason};
pub use source::{Fingerprint, Header, Listing, ReadError, Source, SourceError};
