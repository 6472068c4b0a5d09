//! The agents a session has started.

use std::collections::BTreeMap;

/// The agents of one session, those they have started themselves among them.
#[derive(Default, Hash)]
pub(crate) struct Group {
    /// Their sessions by the calls that started them.
    pub(super) by_call: BTreeMap<Box<str>, Box<str>>,
    /// Sessions whose id is not the name of their file.
    pub(super) renamed: BTreeMap<Box<str>, Box<str>>,
}

impl Group {
    /// The id of the session in the file of this name.
    pub(super) fn id_of(&self, stem: Box<str>) -> Box<str> {
        self.renamed.get(&stem).cloned().unwrap_or(stem)
    }
}
