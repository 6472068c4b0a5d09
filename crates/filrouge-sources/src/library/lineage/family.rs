//! Who has started whom.

use std::collections::{HashMap, HashSet};

use crate::library::{Catalog, Entry};

/// Parents and children among all sessions. A child belongs to the parent that it names itself: the copied call in a
/// fork names the original's child, which is not the fork's.
pub(in crate::library) struct Family<'a> {
    catalog: &'a Catalog,
    children: HashMap<&'a str, Vec<&'a Entry>>,
}

/// Sessions that lead up from one, the nearest first.
pub(super) struct Ancestry<'a, T> {
    pub(super) entries: Vec<T>,
    /// The id that the last one names, if no session has it.
    pub(super) gap: Option<&'a str>,
    /// Whether they lead round in a circle.
    pub(super) cycle: bool,
}

impl<'a, T> Ancestry<'a, T> {
    /// Goes up from a session; `next` is what the present one leads to, or the id that no session has.
    pub(super) fn of(
        mut at: &'a Entry,
        mut next: impl FnMut(&'a Entry) -> Result<Option<(&'a Entry, T)>, &'a str>,
    ) -> Self {
        let mut seen = HashSet::from([&*at.header.id]);
        let mut found = Self {
            entries: Vec::new(),
            gap: None,
            cycle: false,
        };
        loop {
            match next(at) {
                Ok(None) => return found,
                Ok(Some((entry, shown))) if seen.insert(&*entry.header.id) => {
                    at = entry;
                    found.entries.push(shown);
                }
                Ok(Some(_)) => found.cycle = true,
                Err(gap) => found.gap = Some(gap),
            }
            if found.cycle || found.gap.is_some() {
                return found;
            }
        }
    }
}

impl<'a> Family<'a> {
    pub(in crate::library) fn of(catalog: &'a Catalog) -> Self {
        let mut children: HashMap<&str, Vec<&Entry>> = HashMap::new();
        for entry in &catalog.entries {
            if let Some(parent) = entry.header.parent_id.as_deref() {
                children.entry(parent).or_default().push(entry);
            }
        }
        Self { catalog, children }
    }

    /// The sessions a session has started, ordered by (created, id).
    pub(super) fn children(&self, id: &str) -> &[&'a Entry] {
        self.children.get(id).map_or(&[], Vec::as_slice)
    }

    /// All a session has started, and what those have: how many generations away, each behind its parent, each once.
    pub(in crate::library) fn descendants(&self, entry: &'a Entry) -> Vec<(usize, &'a Entry)> {
        let mut seen = HashSet::from([&*entry.header.id]);
        let mut found = Vec::new();
        let mut next: Vec<(usize, &Entry)> = Vec::new();
        let mut at = (0, entry);
        loop {
            let (depth, parent) = at;
            let children = self.children(&parent.header.id).iter().rev();
            next.extend(children.map(|child| (depth + 1, *child)));
            at = loop {
                match next.pop() {
                    Some(one) if seen.insert(&*one.1.header.id) => break one,
                    Some(_) => {}
                    None => return found,
                }
            };
            found.push(at);
        }
    }

    pub(super) fn parents(&self, entry: &'a Entry) -> Ancestry<'a, &'a Entry> {
        Ancestry::of(entry, |one| {
            let Some(id) = one.header.parent_id.as_deref() else {
                return Ok(None);
            };
            let parent = self.catalog.get(id).map_err(|_| id)?;
            Ok(Some((parent, parent)))
        })
    }
}
