//! The agents that a session started.

use std::collections::BTreeMap;

/// All agents of one session, including agents that its agents started.
#[derive(Default, Hash)]
pub(crate) struct Group {
    /// Agent sessions, by the tool call that started each.
    pub(super) by_call: BTreeMap<Box<str>, Box<str>>,
    /// Ids of the agent sessions whose id differs from their file's name, by that name.
    pub(super) renamed: BTreeMap<Box<str>, Box<str>>,
}

impl Group {
    /// The id of the session whose file has this name.
    pub(super) fn id_of(&self, stem: Box<str>) -> Box<str> {
        self.renamed.get(&stem).cloned().unwrap_or(stem)
    }
}
