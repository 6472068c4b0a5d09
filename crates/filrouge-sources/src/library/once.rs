//! What one question holds still: the sessions there are, and what it has learnt of them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use super::facts::Answer;
use super::{Catalog, Library, LibraryError};
use crate::locked::locked;

/// Shared by the clones of a library that one question is answered from.
#[derive(Default)]
pub(super) struct Once {
    pub(super) catalog: OnceLock<Arc<Catalog>>,
    /// Of every session that was looked at, whichever source it is of: it ends with the question.
    facts: Mutex<HashMap<Box<str>, Answer>>,
    stopped: Option<Arc<AtomicBool>>,
}

impl Once {
    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Answer>> {
        locked(&self.facts)
    }

    pub(super) fn facts(&self, id: &str) -> Option<Answer> {
        self.lock().get(id).cloned()
    }

    pub(super) fn learn(&self, id: &str, answer: &Answer) {
        self.lock().insert(id.into(), answer.clone());
    }
}

impl Library {
    /// This library for one question: it lists its sources at most once, and looks at no session twice for statistics
    /// and lineage. What changes meanwhile is not seen: drop it with the answer. Once `stopped` is set, what takes long
    /// is given up with [`LibraryError::GivenUp`].
    #[must_use]
    pub fn once(&self, stopped: Option<Arc<AtomicBool>>) -> Self {
        let once = Once {
            stopped,
            ..Once::default()
        };
        Self {
            once: Some(Arc::new(once)),
            ..self.clone()
        }
    }

    /// The question that this library is for, or a new one.
    pub(super) fn of_question(&self) -> Self {
        match &self.once {
            Some(_) => self.clone(),
            None => self.once(None),
        }
    }

    /// Ends an answer that nobody waits for any more.
    ///
    /// # Errors
    /// [`LibraryError::GivenUp`].
    pub(super) fn go_on(&self) -> Result<(), LibraryError> {
        let stopped = self.once.as_ref().and_then(|once| once.stopped.as_ref());
        match stopped {
            Some(stopped) if stopped.load(Ordering::Relaxed) => Err(LibraryError::GivenUp),
            _ => Ok(()),
        }
    }
}
