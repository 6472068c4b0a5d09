//! Who has started whom.

use std::collections::{HashMap, HashSet};

use crate::library::{Catalog, Entry};

/// Parents and children among all sessions. A child belongs to the parent that it names itself: the copied call in a
/// fork names the original's child, which is not the fork's.
pub(in crate::library) struct Family<'a> {
    catalog: &'a Catalog,
    children: HashMap<&'a str, Vec<&'a Entry>>,
}

/// The parents of a session.
pub(super) struct Parents<'a> {
    /// Up to the root, the nearest first.
    pub(super) entries: Vec<&'a Entry>,
    /// The last one's parent, if no session has its id.
    pub(super) gap: Option<&'a str>,
    /// Whether they lead round in a circle.
    pub(super) cycle: bool,
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

    pub(super) fn parents(&self, entry: &'a Entry) -> Parents<'a> {
        let mut seen = HashSet::from([&*entry.header.id]);
        let mut parents = Parents {
            entries: Vec::new(),
            gap: None,
            cycle: false,
        };
        let mut named = entry.header.parent_id.as_deref();
        while let Some(id) = named {
            if !seen.insert(id) {
                parents.cycle = true;
                break;
            }
            let Ok(parent) = self.catalog.get(id) else {
                parents.gap = Some(id);
                break;
            };
            parents.entries.push(parent);
            named = parent.header.parent_id.as_deref();
        }
        parents
    }
}
