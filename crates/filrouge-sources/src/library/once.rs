//! What one question holds still: the sessions there are, and what it has learnt of them.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};

use super::Catalog;
use super::facts::Answer;
use crate::locked::locked;

/// Shared by the clones of a library that one question is answered from.
#[derive(Default)]
pub(super) struct Once {
    pub(super) catalog: OnceLock<Arc<Catalog>>,
    /// Of every session that was looked at, whichever source it is of: it ends with the question.
    facts: Mutex<HashMap<Box<str>, Answer>>,
    /// Set once nobody waits for the answer any more.
    pub(super) stopped: Option<Arc<AtomicBool>>,
}

impl Once {
    pub(super) fn new(stopped: Option<Arc<AtomicBool>>) -> Self {
        Self {
            stopped,
            ..Self::default()
        }
    }

    pub(super) fn facts(&self, id: &str) -> Option<Answer> {
        locked(&self.facts).get(id).cloned()
    }

    pub(super) fn learn(&self, id: &str, answer: &Answer) {
        locked(&self.facts).insert(id.into(), answer.clone());
    }
}
