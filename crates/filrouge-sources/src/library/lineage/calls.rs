//! Finds the tool calls that started sessions.

use std::collections::HashSet;
use std::sync::Arc;

use super::Relative;
use crate::library::facts::Facts;
use crate::library::{Catalog, Entry, Library, clean};

/// Finds the tool calls that started sessions, and collects the sessions that cannot be read.
pub(super) struct Calls<'a> {
    library: &'a Library,
    catalog: &'a Catalog,
    mask: bool,
    /// The ids of sessions that could not be read so far.
    pub(super) unreadable: HashSet<Box<str>>,
}

impl<'a> Calls<'a> {
    pub(super) fn new(library: &'a Library, catalog: &'a Catalog, mask: bool) -> Self {
        Self {
            library,
            catalog,
            mask,
            unreadable: HashSet::new(),
        }
    }

    /// A session as a relative, with the call that started it; `depth` is [`Relative::depth`].
    pub(super) fn relative(&mut self, entry: &Entry, depth: usize) -> Relative {
        let (message_id, call_id) = self.starting_call(entry).unzip();
        Relative {
            session: super::masked_row(entry, self.mask),
            depth,
            message_id,
            call_id,
        }
    }

    /// The ids of the message and the tool call in the parent session that started a session; `None` if the call is
    /// unknown.
    pub(super) fn starting_call(&mut self, entry: &Entry) -> Option<(String, String)> {
        let parent = entry.header.parent_id.as_deref()?;
        let parent = self.catalog.get(parent).ok()?;
        let facts = self.facts(parent)?;
        let mut calls = facts.children.iter();
        let call = calls.find(|call| call.id == entry.header.id)?;
        let name = clean::display_text(&call.call, self.mask);
        Some((call.message.to_string(), name))
    }

    /// The number of tool calls in a session that started a session that no source has. Copied calls are not counted.
    pub(super) fn missing_children(&mut self, entry: &Entry) -> usize {
        let Some(facts) = self.facts(entry) else {
            return 0;
        };
        let own_calls = facts.children.iter().filter(|call| !call.copied);
        own_calls
            .filter(|call| self.catalog.get(&call.id).is_err())
            .count()
    }

    /// The facts of a session; adds its id to `unreadable` if it cannot be read.
    fn facts(&mut self, entry: &Entry) -> Option<Arc<Facts>> {
        let facts = self.library.facts(entry).ok();
        if facts.is_none() {
            self.unreadable.insert(entry.header.id.clone());
        }
        facts
    }
}
