//! Lists sessions: `list_sessions`, `filrouge sessions list`.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};

use serde::Serialize;

use super::facts::Facts;
use super::filter::Filter;
use super::{Catalog, Entry, Library, LibraryError, Result, clean, notices};
use crate::{Changes, Header, on_two_threads};

/// The default number of sessions on a page.
pub const DEFAULT_LIMIT: usize = 50;
/// The maximum number of sessions on a page.
const LIMIT_MAX: usize = 500;

/// The prefix of a cursor.
const CURSOR_PREFIX: &str = "sessions.";

/// A request for one page of a list. An absent filter excludes nothing. Times are milliseconds since 1970.
#[derive(Debug, Clone, Default)]
pub struct ListRequest {
    /// A part of the title, or a pattern of the whole title in which `*` is any text; in upper or lower case. If no title
    /// matches, the name of a project.
    pub session_name: Option<String>,
    /// A project's id, name, or folder.
    pub project_id: Option<String>,
    /// The agent's name, or a pattern such as `*build*`. Of histories of other programs, only the agent of the first
    /// message is compared.
    pub agent: Option<String>,
    /// Only sessions that the session with this id started.
    pub parent_id: Option<String>,
    /// Only sessions that no other session started.
    pub roots: bool,
    /// `true`: only archived sessions; `false`: only sessions that are not archived.
    pub archived: Option<bool>,
    /// Only sessions of this program.
    pub source: Option<String>,
    /// Only sessions last changed at this time or later.
    pub since: Option<i64>,
    /// Only sessions last changed before this time.
    pub until: Option<i64>,
    /// The maximum number of sessions; 0 means the default, 50.
    pub limit: usize,
    /// Whether the order is that of creation, the newest first, instead of the last change.
    pub by_creation: bool,
    /// The place to continue: `nextCursor` of the previous page.
    pub cursor: Option<String>,
    /// Whether to mask anything with the form of a credential, in all texts except ids. Text that is masked in a title
    /// does not match `session_name`.
    pub mask: bool,
}

/// A session as lists show it.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// The session's id.
    pub id: String,
    /// Its title.
    pub title: Option<String>,
    /// The time of its creation, in milliseconds since 1970.
    pub created: i64,
    /// The time of its last change.
    pub updated: i64,
    /// The agent of its first message.
    pub agent: Option<String>,
    /// All agents that wrote messages; only in lists.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    /// The session that started it.
    #[serde(rename = "parentID")]
    pub parent_id: Option<String>,
    /// The changes it made.
    pub summary: Option<Changes>,
    /// The program that wrote it.
    pub source: String,
    /// The generation of its storage.
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
    /// The time at which it was archived.
    pub archived: Option<i64>,
    /// Whether its own record is damaged, so that only its messages are known.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub damaged: bool,
}

/// One page of sessions in the requested order.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sessions {
    /// The sessions.
    pub sessions: Vec<Row>,
    /// The number of sessions on all pages.
    pub total: usize,
    /// The project of all sessions found, if they have the same one.
    #[serde(rename = "projectID")]
    pub project_id: Option<String>,
    /// The cursor of the next page; `null` on the last.
    pub next_cursor: Option<String>,
    /// Notices about records that were left out, counted by reason, and about sources that do not answer.
    pub notices: Vec<String>,
    /// Whether the order is that of creation.
    #[serde(skip)]
    pub by_creation: bool,
}

impl Row {
    /// The row of a header, unmasked.
    pub fn from_header(header: &Header) -> Self {
        let owned = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
        let folder = header.worktree.as_deref().filter(|path| *path != "/");
        let folder = folder.or(header.directory.as_deref());
        Self {
            id: header.id.to_string(),
            title: owned(&header.title),
            created: header.created,
            updated: header.updated,
            agent: owned(&header.agent),
            agents: Vec::new(),
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
            damaged: header.damaged,
        }
    }

    /// Returns the row; if `mask` is true, anything with the form of a credential is masked in all its texts except the
    /// ids of sessions.
    #[must_use]
    pub fn masked(mut self, mask: bool) -> Self {
        if mask {
            let texts = [
                &mut self.title,
                &mut self.agent,
                &mut self.project_id,
                &mut self.project_name,
                &mut self.directory,
                &mut self.version,
            ];
            clean::mask_in_place(texts.into_iter().flatten().chain(&mut self.agents));
        }
        self
    }
}

/// The last folder of a path, with the separators of any system.
pub(super) fn last_folder(path: &str) -> Option<&str> {
    path.trim_end_matches(['/', '\\'])
        .rsplit(['/', '\\'])
        .next()
        .filter(|name| !name.is_empty())
}

/// The sessions that pass the filters of `request`, in its order. Ignores the limit and the cursor of
/// `request`.
pub(super) fn select_sessions<'a>(catalog: &'a Catalog, request: &ListRequest) -> Vec<&'a Entry> {
    let filter = Filter::new(request);
    let entries = catalog.entries.iter();
    let mut matches: Vec<&Entry> = match &request.session_name {
        None => entries.filter(|e| filter.passes(&e.header)).collect(),
        Some(name) => filter.find_by_name(catalog, name),
    };
    let order = |entry: &&'a Entry| list_order(&entry.header, request.by_creation);
    matches.sort_unstable_by(|a, b| order(a).cmp(&order(b)));
    matches
}

/// The key by which a list is ordered: the last changed or newest session first, then by id.
fn list_order(header: &Header, by_creation: bool) -> (std::cmp::Reverse<i64>, &str) {
    let at = match by_creation {
        true => header.created,
        false => header.updated,
    };
    (std::cmp::Reverse(at), &header.id)
}

/// Lists sessions, the last changed first, or the newest if so requested, then by id. A session that changes while pages are read moves to the front
/// and can appear on two pages; a session that does not change is never left out.
///
/// # Errors
/// [`LibraryError::Invalid`] for an invalid cursor, and for a limit above 500.
pub fn list(library: &Library, request: &ListRequest) -> Result<Sessions> {
    let limit = limit(request.limit)?;
    let after = request.cursor.as_deref().map(read_cursor).transpose()?;
    let library = &library.for_query();
    let catalog = library.catalog();
    let matches = select_sessions(&catalog, request);
    let start = after.map_or(0, |after| {
        let after = (std::cmp::Reverse(after.0), after.1);
        matches.partition_point(|e| list_order(&e.header, request.by_creation) <= after)
    });
    let remaining = matches.get(start..).unwrap_or_default();
    let page = remaining.get(..limit).unwrap_or(remaining);
    let last = page.last().filter(|_| page.len() < remaining.len());
    let agents = agents_of(library, page);
    let row = |e: &&Entry| {
        let listed = || e.header.agents.iter().map(ToString::to_string).collect();
        let row = Row {
            agents: agents.get(&*e.header.id).cloned().unwrap_or_else(listed),
            ..Row::from_header(&e.header)
        };
        row.masked(request.mask)
    };
    Ok(Sessions {
        sessions: page.iter().map(row).collect(),
        total: matches.len(),
        project_id: clean::optional_text(common_project(&matches), request.mask),
        next_cursor: last.map(|e| {
            let (at, id) = list_order(&e.header, request.by_creation);
            format!("{CURSOR_PREFIX}{}.{id}", at.0)
        }),
        notices: notices::of_catalog(&catalog),
        by_creation: request.by_creation,
    })
}

/// The agents that wrote messages in these sessions, by session. Sessions whose facts are not cached are left out,
/// because a list would read them each time; so are unreadable ones.
fn agents_of<'a>(library: &Library, page: &[&'a Entry]) -> HashMap<&'a str, Vec<String>> {
    let entries = page.iter().copied();
    let cached: Vec<&'a Entry> = entries.filter(|e| library.caches(e)).collect();
    let names = on_two_threads(&cached, 1, |entry| {
        let facts = library.facts(entry).ok()?;
        Some(agents(&facts))
    });
    let named = cached.iter().copied().zip(names);
    let named = named.filter_map(|(entry, names)| Some((&*entry.header.id, names?)));
    named.collect()
}

/// The agents of a session, sorted.
fn agents(facts: &Facts) -> Vec<String> {
    let tallies = [&facts.certain_originals, &facts.maybe_copied].into_iter();
    let names: BTreeSet<&String> = tallies.flat_map(|t| t.sums.agents.keys()).collect();
    names.into_iter().cloned().collect()
}

/// The number of sessions on a page; refuses a request for too many.
fn limit(requested: usize) -> Result<usize> {
    match requested {
        0 => Ok(DEFAULT_LIMIT),
        1..=LIMIT_MAX => Ok(requested),
        _ => Err(LibraryError::Invalid(format!(
            "limit is {requested}; a page has at most {LIMIT_MAX} sessions"
        ))),
    }
}

/// Reads a cursor: the time of change and the id of the last row on the previous page.
fn read_cursor(cursor: &str) -> Result<(i64, &str)> {
    let read = || {
        let (updated, id) = cursor.strip_prefix(CURSOR_PREFIX)?.split_once('.')?;
        Some((updated.parse().ok()?, id))
    };
    read().ok_or_else(|| {
        let text =
            "this is not a cursor of a list of sessions; use nextCursor of the previous page";
        LibraryError::Invalid(text.to_owned())
    })
}

/// The id of the project to which all these sessions belong; `None` if they belong to different ones or to none.
fn common_project<'a>(matches: &[&'a Entry]) -> Option<&'a str> {
    let (first, rest) = matches.split_first()?;
    let id = first.header.project_id.as_deref()?;
    let is_same = |e: &&Entry| e.header.project_id.as_deref() == Some(id);
    rest.iter().all(is_same).then_some(id)
}
