//! The parents and children of sessions.

use std::collections::HashMap;
use std::convert::Infallible;

use filrouge_engine::lineage::walk::{self, Ancestors, Step};

use crate::library::{Catalog, Entry};

/// Parents and children among the sessions of a catalog. A child belongs to the parent that its header names, not to
/// every session with a call that names the child: a fork contains copies of its origin's calls.
pub(in crate::library) struct Family<'a> {
    catalog: &'a Catalog,
    children: HashMap<&'a str, Vec<&'a Entry>>,
}

/// The ancestors of a session, the nearest first.
pub(super) type Ancestry<'a, T> = Ancestors<&'a str, T>;

/// Follows the ancestors of a session. `next` returns the next ancestor of a session with the value to collect for it;
/// `None` if there is none; as an error, the ancestor's id if no session has that id.
pub(super) fn ancestry<'a, T>(
    mut session: &'a Entry,
    mut next: impl FnMut(&'a Entry) -> Result<Option<(&'a Entry, T)>, &'a str>,
) -> Ancestry<'a, T> {
    let ancestors = walk::ancestors(&*session.header.id, usize::MAX, || {
        Ok::<_, Infallible>(match next(session) {
            Ok(None) => Step::End,
            Err(gap) => Step::Gap(gap),
            Ok(Some((entry, shown))) => {
                session = entry;
                Step::To(&*entry.header.id, shown)
            }
        })
    });
    let Ok(ancestors) = ancestors;
    ancestors
}

impl<'a> Family<'a> {
    pub(in crate::library) fn new(catalog: &'a Catalog) -> Self {
        let mut children: HashMap<&str, Vec<&Entry>> = HashMap::new();
        for entry in &catalog.entries {
            if let Some(parent) = entry.header.parent_id.as_deref() {
                children.entry(parent).or_default().push(entry);
            }
        }
        Self { catalog, children }
    }

    /// The sessions that a session started, ordered by (created, id).
    pub(super) fn children(&self, id: &str) -> &[&'a Entry] {
        self.children.get(id).map_or(&[], Vec::as_slice)
    }

    /// All sessions that a session started, and those that they started, with their distance in generations: each after
    /// its parent, each once.
    pub(in crate::library) fn descendants(&self, entry: &'a Entry) -> Vec<(usize, &'a Entry)> {
        let root = &*entry.header.id;
        let id = |entry: &&'a Entry| &*entry.header.id;
        let descendants = walk::descendants(&root, usize::MAX, id, |parent, _| {
            Ok::<_, Infallible>((self.children(parent).to_vec(), false))
        });
        let Ok(descendants) = descendants;
        walk::tree(root, descendants.sessions.into_iter(), |(_, entry)| {
            (id(entry), entry.header.parent_id.as_deref())
        })
    }

    /// The parent of a session, the parent's parent, and so on.
    pub(super) fn parents(&self, entry: &'a Entry) -> Ancestry<'a, &'a Entry> {
        ancestry(entry, |session| {
            let Some(id) = session.header.parent_id.as_deref() else {
                return Ok(None);
            };
            let parent = self.catalog.get(id).map_err(|_| id)?;
            Ok(Some((parent, parent)))
        })
    }
}
