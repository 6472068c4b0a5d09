//! A page that shows a part of a conversation.

use std::collections::{BTreeMap, HashMap};

use filrouge_types::TurnId;

use crate::language::Language;

/// How a page shows a part of a conversation. In contrast to a document, it may lack the items that others refer to,
/// and shows only the beginning of long contents.
#[derive(Debug, Clone, Default)]
pub struct PartView {
    /// The path of the conversation's page, percent-encoded. An item's address is `PATH?at=SEQ#seq-SEQ`, that of a
    /// complete item `PATH/items/SEQ`. Empty: links lead to items on the same page only.
    pub path: String,
    /// What the ids of items' elements begin with; it distinguishes the items of several conversations on one page.
    pub ids: String,
    /// The language of the words around contents.
    pub language: Language,
    /// The maximum number of bytes of one text or picture.
    pub max_bytes: usize,
    /// HTML to insert after the items with these seqs.
    pub inserts: BTreeMap<u64, String>,
    /// The changes from replaced turns to their replacements, as unified diffs.
    pub changes: HashMap<TurnId, String>,
    /// The seqs of the first items of turns that replace others.
    pub first_seqs: HashMap<TurnId, u64>,
}
