//! The agents of a session.

use std::collections::BTreeMap;

/// All agents of one session, including those that its agents started.
#[derive(Default, Hash)]
pub(crate) struct SessionAgents {
    /// The ids of the agents' sessions, by the id of the tool call that started each.
    pub(super) by_call: BTreeMap<Box<str>, Box<str>>,
    /// The ids of those agents' sessions whose id is not the name of their file, by the file's name.
    pub(super) renamed: BTreeMap<Box<str>, Box<str>>,
}

impl SessionAgents {
    /// Returns the id of the agent's session whose file has the name `stem`.
    pub(super) fn id_of(&self, stem: Box<str>) -> Box<str> {
        self.renamed.get(&stem).cloned().unwrap_or(stem)
    }
}
