//! The state of one query: its catalog, and the facts it has read.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};

use filrouge_types::lock;

use super::Catalog;
use super::facts::FactsResult;

/// The state of one query, which all clones of its library share.
#[derive(Default)]
pub(super) struct QueryState {
    pub(super) catalog: OnceLock<Arc<Catalog>>,
    /// The facts of the sessions that the query has read, by session id; also of sources that are never cached, because
    /// the facts are dropped with the query.
    facts: Mutex<HashMap<Box<str>, FactsResult>>,
    /// Set once the caller has disconnected or cancelled.
    pub(super) stopped: Option<Arc<AtomicBool>>,
}

impl QueryState {
    pub(super) fn new(stopped: Option<Arc<AtomicBool>>) -> Self {
        Self {
            stopped,
            ..Self::default()
        }
    }

    pub(super) fn facts(&self, id: &str) -> Option<FactsResult> {
        lock(&self.facts).get(id).cloned()
    }

    pub(super) fn add_facts(&self, id: &str, facts: &FactsResult) {
        lock(&self.facts).insert(id.into(), facts.clone());
    }
}
