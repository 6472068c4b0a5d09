//! Who said what, anywhere: `search_sessions`, `filrouge search`. A plain scan with full recall.
//!
//! Words (any order, all of them within one message or title) and `"phrases"` in any case, `-word` for what must be
//! absent, or `/regex/` with the flags `i`, `m`, `s`, `x` (linear time; `^` and `$` are the ends of lines). A word is found
//! wherever it stands, also within others. Every text of a conversation is looked through, arguments of tools as they
//! are written and as their strings read; of each call its tool's name, too.

mod ask;
#[cfg(test)]
mod behaviour;
mod collect;
mod cutting;
mod excerpt;
mod fields;
mod literals;
mod matcher;
mod needle;
mod page;
mod query;
mod sieve;
#[cfg(test)]
mod tests;
mod view;

use serde::Serialize;

use super::list::Row;
use super::{Catalog, Entry, Library, LibraryError, notices};
use crate::Role;
use ask::Filter;
use collect::{Collected, Search};
use excerpt::Cutter;
use matcher::Matcher;
use page::Cursor;
use query::{Kind, Query};

/// How many sessions a page has when no limit is given, and at most.
const LIMIT: usize = 20;
const LIMIT_MAX: usize = 500;
/// How many excerpts of a session are shown when no number is given, and at most.
const EXCERPTS: usize = 5;
const EXCERPTS_MAX: usize = 1_000;

/// What is asked for. Times are milliseconds since 1970.
#[derive(Debug, Clone, Default)]
pub struct Ask {
    /// Words, `"a phrase"`, `/regex/` or `/regex/i`; also `-word`. Empty with a filter: everything that passes it.
    pub query: String,
    /// Only messages of this agent; one that names none is of its session's.
    pub agent: Option<String>,
    /// A project's id, name, or folder.
    pub project_id: Option<String>,
    /// Only calls of this tool, in any case.
    pub tool: Option<String>,
    /// Only messages of this role.
    pub role: Option<Role>,
    /// Only messages at this time or later.
    pub since: Option<i64>,
    /// Only messages before this time.
    pub until: Option<i64>,
    /// Only of this program.
    pub source: Option<String>,
    /// Not this session, most often the caller's own.
    pub exclude_session: Option<String>,
    /// Only this session.
    pub session_id: Option<String>,
    /// At most so many sessions; 0 means the default, 20.
    pub limit: usize,
    /// At most so many excerpts of a session; 0 means the default, 5.
    pub excerpts: usize,
    /// Where to go on: `nextCursor` of the page before. With `session_id` pages go through the matches of that session.
    pub cursor: Option<String>,
    /// Masks what has the form of a credential in excerpts and all words but ids; nothing is found in it then.
    pub mask: bool,
}

/// A place where something was found, with what stands around it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Excerpt {
    /// The message; `null` for a title.
    #[serde(rename = "messageID")]
    pub message_id: Option<String>,
    /// The part.
    #[serde(rename = "partID")]
    pub part_id: Option<String>,
    /// `sessionID:messageID`, to ask the history for.
    pub place: String,
    /// `title`, `text`, `reasoning`, `tool_input`, `tool_output`, `tool_error`, `tool_title`, `tool` (its name),
    /// `file`, `patch`, `summary`, `error`, `other`.
    pub field: String,
    /// Who said it.
    pub role: Option<Role>,
    /// The tool.
    pub tool: Option<String>,
    /// When, milliseconds since 1970.
    pub created: Option<i64>,
    /// Where in the field the hit begins, in characters.
    pub offset: usize,
    /// The text around it, the hit between `«` and `»`.
    pub text: String,
}

/// A session in which something was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Hit {
    /// The session.
    #[serde(flatten)]
    pub session: Row,
    /// How many messages of it match; the title counts as one.
    pub matches: usize,
    /// The first excerpts.
    pub excerpts: Vec<Excerpt>,
}

/// One page of sessions in which something was found, the last changed first.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Results {
    /// The sessions.
    pub sessions: Vec<Hit>,
    /// How many sessions match on all pages.
    pub total_sessions: usize,
    /// How many messages and titles match in all.
    pub total_matches: usize,
    /// Goes on behind this page; `null` on the last.
    pub next_cursor: Option<String>,
    /// What was left out, in words.
    pub notices: Vec<String>,
}

/// Searches everything there is. Numbers count all pages; a page shows at most 500 sessions, the last changed first.
///
/// # Errors
/// [`LibraryError::Invalid`] for a query or a cursor that cannot be understood; it names the character.
/// [`LibraryError::NoSession`] for a `session_id` that no source has.
pub fn search(library: &Library, ask: &Ask) -> Result<Results, LibraryError> {
    search_until(library, ask, &|| false)
}

/// As [`search`], given up as soon as `stopped` says so.
///
/// # Errors
/// As [`search`]; [`LibraryError::GivenUp`].
pub fn search_until(
    library: &Library,
    ask: &Ask,
    stopped: &(dyn Fn() -> bool + Sync),
) -> Result<Results, LibraryError> {
    let cursor = ask
        .cursor
        .as_deref()
        .map(|c| Cursor::read(c, ask))
        .transpose()?;
    let (query, filter) = (understood(ask)?, Filter::of(ask));
    let matcher = Matcher::new(&query, ask.tool.as_deref(), ask.mask).map_err(invalid)?;
    if matcher.wanted == 0 && filter.is_empty() {
        let text = if query.terms.is_empty() {
            "query is empty: give words, a \"phrase\" or /regex/ to look for, or a filter"
        } else {
            "query only says what must be absent: give something to look for as well, or a filter; \
             in quotes, \"-word\" is looked for"
        };
        return Err(LibraryError::Invalid(text.to_owned()));
    }
    let page = Page::of(ask)?;
    let catalog = library.catalog();
    let entries = selected(&catalog, ask, &filter)?;
    let search = Search {
        library,
        matcher: &matcher,
        filter: &filter,
        stopped,
    };
    let found = search.collect(&entries);
    if stopped() {
        return Err(LibraryError::GivenUp);
    }
    let mut results = page.results(&search, &entries, &found, cursor.as_ref());
    results.notices = notices(&catalog, &query, found);
    let excluded = ask.exclude_session.as_deref();
    if excluded.is_some_and(|id| catalog.get(id).is_err()) {
        let text = "excludeSession names a session that is not there: nothing was left out";
        results.notices.push(text.to_owned());
    }
    Ok(results)
}

fn understood(ask: &Ask) -> Result<Query, LibraryError> {
    query::parse(&ask.query).map_err(invalid)
}

fn invalid(wrong: query::Wrong) -> LibraryError {
    LibraryError::Invalid(wrong.to_string())
}

/// The sessions that are searched, the last changed first.
fn selected<'c>(
    catalog: &'c Catalog,
    ask: &Ask,
    filter: &Filter<'_>,
) -> Result<Vec<&'c Entry>, LibraryError> {
    if let Some(id) = &ask.session_id {
        catalog.get(id)?;
    }
    let entries = catalog.entries.iter().filter(|e| filter.lets(&e.header));
    let mut entries: Vec<&Entry> = entries.collect();
    entries.sort_unstable_by(|a, b| page::order(&a.header).cmp(&page::order(&b.header)));
    Ok(entries)
}

fn notices(catalog: &Catalog, query: &Query, found: Collected) -> Vec<String> {
    let mut notices = notices::of_catalog(catalog);
    notices.extend(found.notices);
    let path = |text: &str| {
        let plain = |c: char| c.is_alphanumeric() || matches!(c, '/' | '_' | '-' | '.');
        text.contains('/') && text.chars().all(plain)
    };
    let is_path = |term: &query::Term| matches!(term.kind, Kind::Regex(_)) && path(&term.text);
    if let Some(letter) = query.strange_flag {
        notices.push(format!(
            "the query was read as words: {letter:?} is no flag of a regular expression; known are i, m, s and x"
        ));
    }
    if query.terms.iter().any(is_path) {
        let text = "the query was read as a regular expression, as it stands between slashes; \
                    put it in quotes to look for a path";
        notices.push(text.to_owned());
    }
    notices
}

/// How much is shown at once.
struct Page<'a> {
    ask: &'a Ask,
    limit: usize,
    excerpts: usize,
}

impl<'a> Page<'a> {
    fn of(ask: &'a Ask) -> Result<Self, LibraryError> {
        let bounded = |name, asked, default, most| match asked {
            0 => Ok(default),
            _ if asked <= most => Ok(asked),
            _ => Err(LibraryError::Invalid(format!(
                "{name} is {asked}; the most is {most}"
            ))),
        };
        Ok(Self {
            ask,
            limit: bounded("limit", ask.limit, LIMIT, LIMIT_MAX)?,
            excerpts: bounded("excerpts", ask.excerpts, EXCERPTS, EXCERPTS_MAX)?,
        })
    }

    /// The page behind `cursor`, without notices.
    fn results(
        &self,
        search: &Search<'_>,
        entries: &[&Entry],
        found: &Collected,
        cursor: Option<&Cursor>,
    ) -> Results {
        let hits = entries.iter().enumerate();
        let hits = hits.filter_map(|(place, entry)| Some((*entry, *found.matches.get(&place)?)));
        let new = |(entry, _): &(&Entry, usize)| {
            cursor.is_none_or(|cursor| !cursor.is_behind(&entry.header))
        };
        let mut rest = hits.filter(new).peekable();
        let mut sessions = Vec::new();
        let mut next = None;
        for (entry, matches) in rest.by_ref().take(self.limit) {
            let shown = cursor
                .filter(|c| *c.id == *entry.header.id)
                .map_or(0, |c| c.shown);
            let (hit, end) = self.hit(search, entry, matches, shown);
            let header = &entry.header;
            next = Some(Cursor {
                updated: header.updated,
                id: header.id.to_string(),
                shown: if self.ask.session_id.is_some() {
                    end
                } else {
                    0
                },
            });
            sessions.push(hit);
        }
        let more = rest.peek().is_some() || next.as_ref().is_some_and(|c| c.shown > 0);
        Results {
            sessions,
            total_sessions: found.matches.len(),
            total_matches: found.matches.values().sum(),
            next_cursor: next.filter(|_| more).map(|cursor| cursor.write(self.ask)),
            notices: Vec::new(),
        }
    }

    /// A session with excerpts of the matches behind the first `shown`; and how many were shown then, 0 for all.
    fn hit(
        &self,
        search: &Search<'_>,
        entry: &Entry,
        matches: usize,
        shown: usize,
    ) -> (Hit, usize) {
        let header = &entry.header;
        let cutter = Cutter {
            matcher: search.matcher,
            mask: self.ask.mask,
        };
        let (mut excerpts, mut at, mut end) = (Vec::new(), 0, 0);
        let mut show = |new: &dyn Fn() -> Vec<Excerpt>| {
            at += 1;
            let full = excerpts.len() >= self.excerpts;
            if full && end == 0 {
                end = at - 1;
            }
            if at > shown && !full {
                excerpts.extend(new());
                excerpts.truncate(self.excerpts);
            }
            full
        };
        if search.title_matches(header) {
            show(&|| cutter.of_title(header));
        }
        // A session that has gone since it was found has no excerpts.
        if let Ok(conversation) = search.library.conversation(entry) {
            for message in search.messages(header, &conversation) {
                if show(&|| cutter.of_message(header, message)) {
                    break;
                }
            }
        }
        let hit = Hit {
            session: Row::of(header).masked(self.ask.mask),
            matches,
            excerpts,
        };
        (hit, end)
    }
}
