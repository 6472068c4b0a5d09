//! Which sessions there are: `list_sessions`, `filrouge sessions list`.

#[cfg(test)]
mod tests;

use serde::Serialize;

use super::filter::Filter;
use super::{Catalog, Entry, Library, LibraryError, clean, notices};
use crate::{Changes, Header};

/// How many sessions a page has when no limit is given, and at most.
const LIMIT: usize = 50;
const LIMIT_MAX: usize = 500;

/// What a cursor begins with.
const CURSOR: &str = "sessions.";

/// What is asked for. Absent filters let everything through; times are milliseconds since 1970.
#[derive(Debug, Clone, Default)]
pub struct Ask {
    /// Part of the title, any case; the project's name when no title holds it.
    pub session_name: Option<String>,
    /// A project's id, name, or folder.
    pub project_id: Option<String>,
    /// The agent's name.
    pub agent: Option<String>,
    /// Only what this session has started.
    pub parent_id: Option<String>,
    /// Only sessions that no other has started.
    pub roots: bool,
    /// Only archived ones, or only others.
    pub archived: Option<bool>,
    /// Only of this program.
    pub source: Option<String>,
    /// Only those last changed at this time or later.
    pub since: Option<i64>,
    /// Only those last changed before this time.
    pub until: Option<i64>,
    /// At most so many; 0 means the default, 50.
    pub limit: usize,
    /// Where to go on: `nextCursor` of the page before.
    pub cursor: Option<String>,
    /// Masks what has the form of a credential, in all words but ids. What is masked is not found by its title either.
    pub mask: bool,
}

/// A session as lists show it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// The session's id.
    pub id: String,
    /// Its title.
    pub title: Option<String>,
    /// When it was made, milliseconds since 1970.
    pub created: i64,
    /// When it last changed.
    pub updated: i64,
    /// The agent of its first message.
    pub agent: Option<String>,
    /// The session that has started it.
    #[serde(rename = "parentID")]
    pub parent_id: Option<String>,
    /// What it changed.
    pub summary: Option<Changes>,
    /// The program that wrote it.
    pub source: String,
    /// The form it is stored in.
    pub generation: String,
    /// Its project's id.
    #[serde(rename = "projectID")]
    pub project_id: Option<String>,
    /// Its project's name, or the last folder of its path.
    pub project_name: Option<String>,
    /// The folder it ran in.
    pub directory: Option<String>,
    /// The version of the program.
    pub version: Option<String>,
    /// When it was archived.
    pub archived: Option<i64>,
}

/// One page of sessions, the last changed first.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Sessions {
    /// The sessions.
    pub sessions: Vec<Row>,
    /// How many there are on all pages.
    pub total: usize,
    /// The project that all sessions found are of, if it is one.
    #[serde(rename = "projectID")]
    pub project_id: Option<String>,
    /// Goes on behind this page; `null` on the last.
    pub next_cursor: Option<String>,
    /// What could not be read, counted by reason, and sources that do not answer.
    pub notices: Vec<String>,
}

impl Row {
    /// The row of a header, as it is.
    #[must_use]
    pub fn of(header: &Header) -> Self {
        let owned = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
        let folder = header.worktree.as_deref().filter(|path| *path != "/");
        let folder = folder.or(header.directory.as_deref());
        Self {
            id: header.id.to_string(),
            title: owned(&header.title),
            created: header.created,
            updated: header.updated,
            agent: owned(&header.agent),
            parent_id: owned(&header.parent_id),
            summary: header.changes,
            source: header.source.to_owned(),
            generation: header.generation.to_owned(),
            project_id: owned(&header.project_id),
            project_name: owned(&header.project_name)
                .or_else(|| folder.and_then(last_folder).map(str::to_owned)),
            directory: owned(&header.directory),
            version: owned(&header.version),
            archived: header.archived,
        }
    }

    /// This row, without what has the form of a credential in any word but its ids if `mask` says so.
    #[must_use]
    pub fn masked(mut self, mask: bool) -> Self {
        if mask {
            let words = [
                &mut self.title,
                &mut self.agent,
                &mut self.project_id,
                &mut self.project_name,
                &mut self.directory,
                &mut self.version,
            ];
            clean::put(words.into_iter().flatten());
        }
        self
    }
}

/// The last folder of a path of any system.
pub(super) fn last_folder(path: &str) -> Option<&str> {
    path.trim_end_matches(['/', '\\'])
        .rsplit(['/', '\\'])
        .next()
        .filter(|name| !name.is_empty())
}

/// The sessions that `ask` lets through, the last changed first. Limit and cursor are not looked at.
pub(super) fn selected<'a>(catalog: &'a Catalog, ask: &Ask) -> Vec<&'a Entry> {
    let filter = Filter::of(ask);
    let mut found: Vec<&Entry> = match &ask.session_name {
        None => catalog
            .entries
            .iter()
            .filter(|e| filter.lets(&e.header))
            .collect(),
        Some(name) => filter.named(catalog, name),
    };
    found.sort_unstable_by(|a, b| place(&a.header).cmp(&place(&b.header)));
    found
}

/// Where a session stands in a list: the last changed first, then by id.
fn place(header: &Header) -> (std::cmp::Reverse<i64>, &str) {
    (std::cmp::Reverse(header.updated), &header.id)
}

/// Lists sessions, the last changed first, then by id. A session that changes while pages are read can be on two of
/// them, as it moves to the front; none that stays as it was is left out.
///
/// # Errors
/// [`LibraryError::Invalid`] for a cursor that is none, and for a limit above 500.
pub fn list(library: &Library, ask: &Ask) -> Result<Sessions, LibraryError> {
    let limit = limit(ask.limit)?;
    let after = ask.cursor.as_deref().map(read_cursor).transpose()?;
    let catalog = library.catalog();
    let found = selected(&catalog, ask);
    let start = after.map_or(0, |after| {
        found.partition_point(|e| place(&e.header) <= (std::cmp::Reverse(after.0), after.1))
    });
    let rest = found.get(start..).unwrap_or_default();
    let page = rest.get(..limit).unwrap_or(rest);
    let last = page.last().filter(|_| page.len() < rest.len());
    let row = |e: &&Entry| Row::of(&e.header).masked(ask.mask);
    Ok(Sessions {
        sessions: page.iter().map(row).collect(),
        total: found.len(),
        project_id: clean::some(one_project(&found), ask.mask),
        next_cursor: last.map(|e| format!("{CURSOR}{}.{}", e.header.updated, e.header.id)),
        notices: notices::of_catalog(&catalog),
    })
}

fn limit(asked: usize) -> Result<usize, LibraryError> {
    match asked {
        0 => Ok(LIMIT),
        1..=LIMIT_MAX => Ok(asked),
        _ => Err(LibraryError::Invalid(format!(
            "limit is {asked}; a page has at most {LIMIT_MAX} sessions"
        ))),
    }
}

/// The last row of the page before: when it changed, and its id.
fn read_cursor(cursor: &str) -> Result<(i64, &str), LibraryError> {
    let read = || {
        let (updated, id) = cursor.strip_prefix(CURSOR)?.split_once('.')?;
        Some((updated.parse().ok()?, id))
    };
    read().ok_or_else(|| {
        let text = "the cursor is none of a list of sessions; take nextCursor of the page before";
        LibraryError::Invalid(text.to_owned())
    })
}

fn one_project<'a>(found: &[&'a Entry]) -> Option<&'a str> {
    let (first, rest) = found.split_first()?;
    let id = first.header.project_id.as_deref()?;
    let same = |e: &&Entry| e.header.project_id.as_deref() == Some(id);
    rest.iter().all(same).then_some(id)
}
