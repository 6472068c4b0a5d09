//! Selects sessions by the filters of a query.

use std::borrow::Cow;

use filrouge_store::command::matches_pattern;
use unicode_normalization::UnicodeNormalization;

use super::list::{ListRequest, last_folder};
use super::{Catalog, Entry, clean};
use crate::Header;

/// The filters of a query, prepared once.
pub(super) struct Filter<'a> {
    request: &'a ListRequest,
    project: Option<ProjectFilter<'a>>,
}

impl<'a> Filter<'a> {
    pub(super) fn new(request: &'a ListRequest) -> Self {
        Self {
            request,
            project: request.project_id.as_deref().map(ProjectFilter::new),
        }
    }

    /// Whether a session passes all filters except `session_name`.
    pub(super) fn passes(&self, header: &Header) -> bool {
        let request = self.request;
        let is_wanted = |wanted: &Option<String>, actual: Option<&str>| {
            wanted.is_none() || wanted.as_deref() == actual
        };
        is_wanted(&request.parent_id, header.parent_id.as_deref())
            && is_wanted(&request.source, Some(header.source))
            && self.has_wanted_agent(header)
            && !(request.roots && header.parent_id.is_some())
            && request
                .archived
                .is_none_or(|a| a == header.archived.is_some())
            && request.since.is_none_or(|since| header.updated >= since)
            && request.until.is_none_or(|until| header.updated < until)
            && self.project.as_ref().is_none_or(|p| p.contains(header))
    }

    /// Whether one of the agents that the header names is the requested one. Names are compared as they are shown, like
    /// titles.
    fn has_wanted_agent(&self, header: &Header) -> bool {
        let Some(wanted) = &self.request.agent else {
            return true;
        };
        let mut agents = header.agent.iter().chain(&header.agents);
        agents.any(|agent| matches_pattern(&clean::display_text(agent, self.request.mask), wanted))
    }

    /// The sessions that pass the other filters and whose title contains `name`, or matches it as a pattern. If there are
    /// none, those that belong to the project called `name`.
    pub(super) fn find_by_name<'c>(&self, catalog: &'c Catalog, name: &str) -> Vec<&'c Entry> {
        let wanted = normalize(name.trim());
        let finder = memchr::memmem::Finder::new(wanted.as_bytes());
        // The title is compared in its masked form if titles are shown masked. Otherwise a caller could guess the
        // masked text piece by piece.
        let has_name = |title: &str| {
            let shown = clean::display_text(title, self.request.mask);
            let shown = normalize(&shown);
            finder.find(shown.as_bytes()).is_some() || matches_pattern(&shown, &wanted)
        };
        let entries = catalog.entries.iter().filter(|e| self.passes(&e.header));
        let by_title = |e: &&Entry| e.header.title.as_deref().is_some_and(has_name);
        let matches: Vec<&Entry> = entries.clone().filter(by_title).collect();
        if !matches.is_empty() {
            return matches;
        }
        let project = ProjectFilter::new(name.trim());
        entries.filter(|e| project.contains(&e.header)).collect()
    }
}

/// A project as a caller names it: by id, name, path, or the last folder of its path.
#[derive(Debug)]
pub struct ProjectFilter<'a> {
    /// The caller's text without trailing slashes, for comparison with ids and paths.
    exact: &'a str,
    /// The caller's text, normalized for comparison with names.
    normalized: Cow<'a, str>,
}

impl<'a> ProjectFilter<'a> {
    /// Prepares the filter once, for many sessions.
    pub fn new(named: &'a str) -> Self {
        // A trailing separator does not change the meaning of a path. The root consists only of the separator, and
        // keeps it.
        let path = named.trim_end_matches('/');
        Self {
            exact: if path.is_empty() { named } else { path },
            normalized: normalize(named),
        }
    }

    /// Whether a session belongs to the project.
    pub fn contains(&self, header: &Header) -> bool {
        let name = header.project_name.as_deref();
        let paths = [&header.worktree, &header.directory];
        header.project_id.as_deref() == Some(self.exact)
            || name.is_some_and(|name| normalize(name) == self.normalized)
            || paths.into_iter().flatten().any(|path| self.is_path(path))
    }

    fn is_path(&self, path: &str) -> bool {
        let path = if path.len() > 1 {
            path.trim_end_matches('/')
        } else {
            path
        };
        path == self.exact
            || last_folder(path).is_some_and(|last| normalize(last) == self.normalized)
    }
}

/// Normalizes a text, so that comparisons ignore case and the encoding of accents (NFC, NFD).
pub(super) fn normalize(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        let is_lowercase = !text.bytes().any(|b| b.is_ascii_uppercase());
        return if is_lowercase {
            Cow::Borrowed(text)
        } else {
            Cow::Owned(text.to_ascii_lowercase())
        };
    }
    // The Greek letter sigma has two lowercase forms, which count as equal.
    let lower = text
        .chars()
        .flat_map(char::to_lowercase)
        .map(|c| if c == 'ς' { 'σ' } else { c });
    Cow::Owned(lower.nfc().collect())
}
