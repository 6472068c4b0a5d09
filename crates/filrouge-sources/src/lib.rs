//! Readers of foreign conversation histories, in place and without writing (DESIGN §10).
//!
//! [`opencode::open`] reads the two file storages of OpenCode: the `project` tree
//! of versions up to 0.5, the `storage` tree of 1.0 to 1.1.65. What is read comes
//! back as neutral records: [`ForeignSession`], [`ForeignTurn`] and the
//! `NewItem` of `filrouge-types`. A file that cannot be used costs only itself:
//! it is named in a [`Skipped`] and everything else is read.
//!
//! Absent on purpose: nothing here writes, prints, reads the environment or a
//! clock, follows a symbolic link below the opened folder, or builds a path
//! from an identifier found inside a file.

pub mod opencode;
mod skip;
mod source;

pub use skip::{SkipReason, Skipped, count_by_reason};
pub use source::{
    ForeignSession, ForeignTurn, LoadedSession, Outcome, SessionRef, Sessions, Source, SourceError,
};
