//! What the model no longer sees: messages before the last compaction, outputs that were pruned, messages taken back:
//! `get_compacted_context`.

use serde::Serialize;

use super::history::{Ask, ShownMessage};
use super::list::Row;
use super::{Library, LibraryError};

/// One compaction.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Compaction {
    /// When, milliseconds since 1970.
    pub created: i64,
    /// By the program itself, not asked for.
    pub automatic: Option<bool>,
    /// How many messages it took away from the model, those of earlier ones not counted again.
    pub messages: usize,
    /// The summary that stands for them.
    pub summary: Option<String>,
}

/// What was dropped, oldest first.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CompactedContext {
    /// The session.
    pub session: Row,
    /// Its compactions in order.
    pub compactions: Vec<Compaction>,
    /// Outputs of tools that were pruned after the last compaction.
    pub pruned_outputs: usize,
    /// Messages of this page: those before the last compaction, then those with pruned outputs behind it, each with
    /// what was dropped alone.
    pub messages: Vec<ShownMessage>,
    /// How many such messages there are in all.
    pub total_messages: usize,
    /// Goes on behind this page; `null` at the end.
    pub next_cursor: Option<String>,
    /// What was left out or cut, in words.
    pub notices: Vec<String>,
}

/// What compactions and pruning dropped, a page at a time within the budget of `ask`.
///
/// # Errors
/// As [`super::history::history`].
pub fn compacted(library: &Library, ask: &Ask) -> Result<CompactedContext, LibraryError> {
    let _ = (library, ask);
    Err(LibraryError::Invalid("not built yet".to_owned()))
}
