//! Who said what, anywhere: `search_sessions`, `filrouge search`. A plain scan with full recall.
//!
//! Words (any order, all of them within one message or title) and `"phrases"` in any case, `-word` for what must be
//! absent, or `/regex/` with the flags `i`, `m`, `s`, `x` (linear time; `^` and `$` are the ends of lines). A word is found
//! wherever it stands, also within others. Every text of a conversation is looked through, arguments of tools as they
//! are written and as their strings read; of each call its tool's name, too.

use filrouge_sources::library::list::Row;
use filrouge_sources::library::{Catalog, Entry, Library, LibraryError, notices};

use crate::answer::{Excerpt, Hit, Results};
use crate::ask::Ask;
use crate::collect::{Collected, Search};
use crate::excerpt::Cutter;
use crate::filter::Filter;
use crate::matcher::Matcher;
use crate::page::{self, Cursor};
use crate::query::{self, Kind, Query};

/// How many sessions a page has when no limit is given, and at most.
const LIMIT: usize = 20;
const LIMIT_MAX: usize = 500;
/// How many excerpts of a session are shown when no number is given, and at most.
pub(crate) const EXCERPTS: usize = 5;
const EXCERPTS_MAX: usize = 1_000;

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
    results.notices = told(&catalog, &query, found);
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

fn told(catalog: &Catalog, query: &Query, found: Collected) -> Vec<String> {
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
