//! Which sessions are meant.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;

use super::list::{Ask, last_folder};
use super::{Catalog, Entry, clean};
use crate::Header;

/// The filters of a question, made ready once.
pub(super) struct Filter<'a> {
    ask: &'a Ask,
    project: Option<Project<'a>>,
}

impl<'a> Filter<'a> {
    pub(super) fn of(ask: &'a Ask) -> Self {
        Self {
            ask,
            project: ask.project_id.as_deref().map(Project::of),
        }
    }

    /// Whether a session passes, whatever it is called.
    pub(super) fn lets(&self, header: &Header) -> bool {
        let ask = self.ask;
        let is = |asked: &Option<String>, told: Option<&str>| {
            asked.as_deref().is_none_or(|asked| told == Some(asked))
        };
        is(&ask.parent_id, header.parent_id.as_deref())
            && is(&ask.source, Some(header.source))
            && is(&ask.agent, header.agent.as_deref())
            && !(ask.roots && header.parent_id.is_some())
            && ask.archived.is_none_or(|a| a == header.archived.is_some())
            && ask.since.is_none_or(|since| header.updated >= since)
            && ask.until.is_none_or(|until| header.updated < until)
            && self.project.as_ref().is_none_or(|p| p.has(header))
    }

    /// Those whose title holds `name`; if there is none, those of the project that `name` names.
    pub(super) fn named<'c>(&self, catalog: &'c Catalog, name: &str) -> Vec<&'c Entry> {
        let wanted = folded(name.trim());
        let wanted = memchr::memmem::Finder::new(wanted.as_bytes());
        // As it is shown: what is masked must not be guessed piece by piece.
        let holds = |title: &str| {
            let shown = clean::word(title, self.ask.mask);
            wanted.find(folded(&shown).as_bytes()).is_some()
        };
        let entries = catalog.entries.iter().filter(|e| self.lets(&e.header));
        let by_title = |e: &&Entry| e.header.title.as_deref().is_some_and(holds);
        let found: Vec<&Entry> = entries.clone().filter(by_title).collect();
        if !found.is_empty() {
            return found;
        }
        let project = Project::of(name.trim());
        entries.filter(|e| project.has(&e.header)).collect()
    }
}

/// A project as somebody names it: by id, name, path, or the last folder of its path.
#[derive(Debug)]
pub struct Project<'a> {
    exact: &'a str,
    folded: Cow<'a, str>,
}

impl<'a> Project<'a> {
    /// Made ready once, for many sessions.
    #[must_use]
    pub fn of(asked: &'a str) -> Self {
        // A path is the same with and without a separator behind it; the root has nothing else.
        let path = asked.trim_end_matches('/');
        Self {
            exact: if path.is_empty() { asked } else { path },
            folded: folded(asked),
        }
    }

    /// Whether a session is of it.
    #[must_use]
    pub fn has(&self, header: &Header) -> bool {
        let name = header.project_name.as_deref();
        let paths = [&header.worktree, &header.directory];
        header.project_id.as_deref() == Some(self.exact)
            || name.is_some_and(|name| folded(name) == self.folded)
            || paths.into_iter().flatten().any(|path| self.is_path(path))
    }

    fn is_path(&self, path: &str) -> bool {
        let path = if path.len() > 1 {
            path.trim_end_matches('/')
        } else {
            path
        };
        path == self.exact || last_folder(path).is_some_and(|last| folded(last) == self.folded)
    }
}

/// A text in which case and the form of accents (NFC, NFD) no longer tell apart.
pub(super) fn folded(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        let is_lower = !text.bytes().any(|b| b.is_ascii_uppercase());
        return if is_lower {
            Cow::Borrowed(text)
        } else {
            Cow::Owned(text.to_ascii_lowercase())
        };
    }
    // The sigma at the end of a word is one in capitals.
    let lower = text
        .chars()
        .flat_map(char::to_lowercase)
        .map(|c| if c == 'ς' { 'σ' } else { c });
    Cow::Owned(lower.nfc().collect())
}
