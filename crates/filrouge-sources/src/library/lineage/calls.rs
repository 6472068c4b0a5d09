//! Finds the tool call that started a session.

use std::collections::HashSet;
use std::sync::Arc;

use super::Relative;
use crate::library::facts::Facts;
use crate::library::{Catalog, Entry, Library, clean};

/// Finds the calls that started sessions.
pub(super) struct Calls<'a> {
    library: &'a Library,
    catalog: &'a Catalog,
    mask: bool,
    /// Sessions that cannot be read.
    pub(super) unread: HashSet<Box<str>>,
}

impl<'a> Calls<'a> {
    pub(super) fn of(library: &'a Library, catalog: &'a Catalog, mask: bool) -> Self {
        Self {
            library,
            catalog,
            mask,
            unread: HashSet::new(),
        }
    }

    pub(super) fn relative(&mut self, entry: &Entry, depth: usize) -> Relative {
        let (message_id, call_id) = self.start(entry).unzip();
        Relative {
            session: super::row(entry, self.mask),
            depth,
            message_id,
            call_id,
        }
    }

    /// The message and the call in the parent session that started a session.
    pub(super) fn start(&mut self, entry: &Entry) -> Option<(String, String)> {
        let parent = entry.header.parent_id.as_deref()?;
        let parent = self.catalog.get(parent).ok()?;
        let facts = self.facts(parent)?;
        let mut calls = facts.children.iter();
        let call = calls.find(|call| call.id == entry.header.id)?;
        let name = clean::display_text(&call.call, self.mask);
        Some((call.message.to_string(), name))
    }

    /// The number of missing sessions that a session's own calls name.
    pub(super) fn missing_children(&mut self, entry: &Entry) -> usize {
        let Some(facts) = self.facts(entry) else {
            return 0;
        };
        let own = facts.children.iter().filter(|call| !call.copied);
        own.filter(|call| self.catalog.get(&call.id).is_err())
            .count()
    }

    fn facts(&mut self, entry: &Entry) -> Option<Arc<Facts>> {
        let facts = self.library.facts(entry).ok();
        if facts.is_none() {
            self.unread.insert(entry.header.id.clone());
        }
        facts
    }
}
