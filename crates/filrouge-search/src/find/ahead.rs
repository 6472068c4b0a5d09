//! What a process that answers one question does while it lists the histories: it opens their indexes, and asks them what it
//! will ask them again. They remember the answers, and give them again where they still hold.

use filrouge_store::text_index::TextIndex;

use super::indexed::Look;
use super::{Asked, Searcher};
use crate::feed::reach;

impl Searcher {
    /// Opens the indexes on another thread while a question lists the histories. For who asks once: in a process that
    /// goes on everything is open, and remembered, from the second question on.
    #[must_use]
    pub const fn looking_ahead(mut self) -> Self {
        self.looks_ahead = true;
        self
    }

    /// Does `listing`, and looks ahead meanwhile.
    pub(super) fn meanwhile<R>(&self, asked: &Asked<'_>, listing: impl FnOnce() -> R) -> R {
        if !self.looks_ahead || self.indexes.is_none() {
            return listing();
        }
        std::thread::scope(|threads| {
            // Where no thread is to be had, nothing was done ahead.
            let ahead = std::thread::Builder::new();
            let _ = ahead.spawn_scoped(threads, || self.look_ahead(asked));
            listing()
        })
    }

    /// What fails fails again when it is asked for, and is told then.
    fn look_ahead(&self, asked: &Asked<'_>) {
        for source in 0..self.library.sources().len() {
            if (asked.stopped)() {
                return;
            }
            let Some(index) = self.index(source) else {
                continue;
            };
            let index: &dyn TextIndex = &**index.index();
            let _ = index.sessions(&reach());
            if asked.is_by_words() && asked.filter.lets_all_sessions() {
                let look = Look {
                    index,
                    reach: &reach(),
                    sessions: None,
                    asked,
                    agent: &|_| None,
                    most: self.most,
                };
                let _ = look.candidates();
            }
        }
    }
}
