//! Builds one page of results, with the totals.

use filrouge_sources::library::LibraryError;
use filrouge_sources::library::list::Row;
use filrouge_sources::library::notices::{of_catalog, of_skipped};
use filrouge_sources::{Header, on_two_threads};

use super::cursor::Cursor;
use super::found::{FoundIn, FoundSession, FoundSessions, Remarks};
use super::query::PreparedQuery;
use super::search_space::SearchSpace;
use super::session_candidates::round_to_count;
use super::show::{DEFAULT_EXCERPTS, ExcerptCollector, FoundBy, MAX_EXCERPTS, collect_excerpts};
use crate::answer::{Hit, Results};
use crate::filter::Filter;
use crate::request::SearchRequest;

/// The default and the maximum number of sessions of a page.
const DEFAULT_LIMIT: usize = 20;
const MAX_LIMIT: usize = 500;
/// Sessions are examined in groups, because some turn out to have no hit. The first value is the minimum size of the
/// first group, even if the page needs fewer. The minimum doubles with each group, up to the second value.
const GROUP_SIZES: (usize, usize) = (2, 64);
/// Two threads examine a group if each has at least this many sessions.
const SESSIONS_PER_THREAD: usize = 4;

/// The size of a page, and the session after which it begins.
pub(super) struct Page<'a> {
    /// Whether one session is searched alone.
    is_single_session: bool,
    limit: usize,
    excerpts: usize,
    cursor: Option<&'a Cursor>,
}

/// Sessions, each with its hit, if any, and the number of its matches that this page and the earlier ones show; 0 for
/// all.
type Hits<'f, 'c> = Vec<(&'f FoundSession<'c>, Option<(Hit, usize)>)>;

/// The totals of all pages: counts where they are known, else estimates.
#[derive(Default)]
struct Totals {
    sessions: f64,
    matches: f64,
    /// The number of sessions whose matches are estimated.
    estimated: usize,
}

impl Totals {
    fn from_sessions(all: &[FoundSession<'_>]) -> Self {
        let mut totals = Self::default();
        for found in all {
            let (probability, estimated_matches) = found.estimates();
            totals.sessions += probability;
            totals.matches += estimated_matches;
            totals.estimated += usize::from(!found.evidence.exact);
        }
        totals
    }

    /// Replaces a session's estimate by the result of examining it: its hit, or `None` if it has none.
    fn replace_estimate(&mut self, found: &FoundSession<'_>, hit: Option<&Hit>) {
        let (probability, estimated_matches) = found.estimates();
        #[allow(clippy::cast_precision_loss)]
        let matches = hit.map_or(0.0, |hit| hit.matches as f64);
        self.sessions += f64::from(u8::from(hit.is_some())) - probability;
        self.matches += matches - estimated_matches;
        let becomes_exact = !found.evidence.exact && hit.is_none_or(|hit| hit.exact);
        self.estimated -= usize::from(becomes_exact);
    }
}

impl<'a> Page<'a> {
    /// Fails if a limit of the request exceeds its maximum.
    pub(super) fn new(
        request: &SearchRequest,
        filter: &Filter<'_>,
        cursor: Option<&'a Cursor>,
    ) -> Result<Self, LibraryError> {
        let check_limit = |name, number, default, max| match number {
            0 => Ok(default),
            _ if number <= max => Ok(number),
            _ => Err(LibraryError::Invalid(format!(
                "{name} is {number}; the maximum is {max}"
            ))),
        };
        Ok(Self {
            is_single_session: filter.session().is_some(),
            limit: check_limit("limit", request.limit, DEFAULT_LIMIT, MAX_LIMIT)?,
            excerpts: check_limit("excerpts", request.excerpts, DEFAULT_EXCERPTS, MAX_EXCERPTS)?,
            cursor,
        })
    }

    /// Builds the page of `all`, which are in their final order, with the totals and the cursor of the next page.
    pub(super) fn results(
        &self,
        space: &SearchSpace<'_>,
        query: &PreparedQuery<'_>,
        all: FoundSessions<'_>,
    ) -> Result<Results, LibraryError> {
        let FoundSessions {
            sessions: all,
            mut remarks,
        } = all;
        let mut totals = Totals::from_sessions(&all);
        let is_unshown = |found: &&FoundSession<'_>| {
            let (score, shown) = (found.score, &found.shown);
            let shown_before = |c: &Cursor| c.was_shown(score, shown.updated, &shown.id);
            !self.cursor.is_some_and(shown_before)
        };
        let unshown: Vec<&FoundSession<'_>> = all.iter().filter(is_unshown).collect();
        let mut rest = unshown.as_slice();
        let (mut sessions, mut next, mut more) = (Vec::new(), None, false);
        let mut group_size = GROUP_SIZES.0;
        while sessions.len() < self.limit && !rest.is_empty() {
            let count = group_size.max(self.limit - sessions.len());
            let (group, remaining) = rest.split_at(count.min(rest.len()));
            for (found, hit) in self.hits(space, query, group, &mut remarks)? {
                totals.replace_estimate(found, hit.as_ref().map(|(hit, _)| hit));
                let Some((hit, end)) = hit else { continue };
                if sessions.len() == self.limit {
                    more = true;
                } else {
                    next = Some(self.cursor_after(query, found, end));
                    sessions.push(hit);
                }
            }
            (rest, group_size) = (remaining, GROUP_SIZES.1.min(2 * group_size));
        }
        more |= next.as_ref().is_some_and(|c| c.shown > 0);
        // A cursor is returned only if the next page is not empty, so sessions are examined until one has a hit.
        while !more && !rest.is_empty() {
            let uncertain = rest.iter().take_while(|found| !found.has_certain_excerpt());
            let (group, remaining) = rest.split_at(uncertain.take(group_size).count());
            more = group.is_empty();
            for (found, hit) in self.hits(space, query, group, &mut remarks)? {
                more |= hit.is_some();
                totals.replace_estimate(found, hit.as_ref().map(|(hit, _)| hit));
            }
            (rest, group_size) = (remaining, GROUP_SIZES.1.min(2 * group_size));
        }
        let unread = space.unread();
        let is_complete = !remarks.lacks_sessions && unread.is_empty();
        remarks.notices.extend(of_skipped(&unread));
        let notices = notices(space, query, remarks.notices, sessions.is_empty());
        Ok(Results {
            total_sessions: round_to_count(totals.sessions).max(sessions.len()),
            total_matches: round_to_count(totals.matches),
            exact: totals.estimated == 0 && is_complete,
            sessions,
            as_of: remarks.as_of,
            next_cursor: next.filter(|_| more).map(|c| c.encode(query.request)),
            notices,
        })
    }

    /// Returns the cursor that continues after a session; `end` is the number of its matches that were shown, 0 for
    /// all.
    fn cursor_after(
        &self,
        query: &PreparedQuery<'_>,
        found: &FoundSession<'_>,
        end: usize,
    ) -> Cursor {
        Cursor {
            score: found.score,
            updated: found.shown.updated,
            id: found.shown.id.to_string(),
            shown: if self.is_single_session { end } else { 0 },
            now: query.now,
            embedded: query.vector.is_some(),
            named: query.named.is_some(),
        }
    }

    /// Examines the sessions of `group`, and returns them with their hits, whose excerpts show matches that no earlier
    /// page shows. A session has no hit if it turns out not to match, or no longer exists.
    fn hits<'f, 'c>(
        &self,
        space: &SearchSpace<'_>,
        query: &PreparedQuery<'_>,
        group: &[&'f FoundSession<'c>],
        remarks: &mut Remarks,
    ) -> Result<Hits<'f, 'c>, LibraryError> {
        let examined = on_two_threads(group, SESSIONS_PER_THREAD, |found| {
            self.examine(space, query, found)
        });
        let mut hits = Hits::with_capacity(group.len());
        for (found, examined) in group.iter().zip(examined) {
            let (collector, found_by) = examined?;
            if let FoundBy::Source(why) = &found_by {
                remarks.add_unanswered(why);
            }
            let has_match = collector.match_count > 0 || matches!(found.found_in, FoundIn::Source);
            let hit = match found.shown.entry {
                _ if !has_match => None,
                Some(entry) => Some(Self::hit(query, found, &entry.header, collector, &found_by)),
                None => ledger_header(space, found)?
                    .map(|header| Self::hit(query, found, &header, collector, &found_by)),
            };
            hits.push((*found, hit));
        }
        Ok(hits)
    }

    /// Collects the excerpts of a session, after those that earlier pages show.
    fn examine(
        &self,
        space: &SearchSpace<'_>,
        query: &PreparedQuery<'_>,
        found: &FoundSession<'_>,
    ) -> Result<(ExcerptCollector, FoundBy), LibraryError> {
        if (query.stopped)() {
            return Err(LibraryError::Cancelled);
        }
        let continued = self.cursor.filter(|c| *c.id == *found.shown.id);
        let mut collector =
            ExcerptCollector::after(continued.map_or(0, |c| c.shown), self.excerpts);
        let found_by = collect_excerpts(space, query, found, &mut collector)?;
        Ok((collector, found_by))
    }

    /// Builds the hit of a session, and returns it with the number of matches shown so far; 0 for all.
    fn hit(
        query: &PreparedQuery<'_>,
        found: &FoundSession<'_>,
        header: &Header,
        collector: ExcerptCollector,
        found_by: &FoundBy,
    ) -> (Hit, usize) {
        let (matches, exact) = match (found_by, found.evidence.exact) {
            (FoundBy::Meaning, _) => (0, true),
            (_, true) => (found.evidence.matches, true),
            (_, false) if collector.end == 0 => (collector.match_count, true),
            (_, false) => (found.evidence.matches.max(collector.match_count), false),
        };
        let hit = Hit {
            session: Row::from_header(header).masked(query.request.mask),
            matches,
            exact,
            excerpts: collector.excerpts,
        };
        (hit, collector.end)
    }
}

/// Returns the verified header of a session that the ledger's index found; `None` if the session no longer exists, or
/// the caller may not see it.
fn ledger_header(
    space: &SearchSpace<'_>,
    found: &FoundSession<'_>,
) -> Result<Option<Header>, LibraryError> {
    let searched = match &found.found_in {
        FoundIn::Index(at, _) => space.indexed.get(*at),
        FoundIn::Source => None,
    };
    let header = searched.map(|searched| searched.ledger_header(&found.shown.id));
    Ok(header
        .transpose()
        .map_err(LibraryError::Unavailable)?
        .flatten())
}

/// Returns all notices of a search, with those about omitted results and about how the query was understood.
fn notices(
    space: &SearchSpace<'_>,
    query: &PreparedQuery<'_>,
    found: Vec<String>,
    is_empty: bool,
) -> Vec<String> {
    let mut notices = of_catalog(space.catalog);
    notices.extend(found);
    notices.extend(query.parsed.notices());
    notices.extend(query.parsed.pattern_notice().filter(|_| is_empty));
    // When the ledger does not answer, a session is assumed to exist.
    let exists = |id| space.has(id).unwrap_or(true);
    if query.filter.sessions(true).any(|id| !exists(id)) {
        let text = if query.request.exclude_session.is_some() {
            "excludeSession"
        } else {
            "-session:"
        };
        let text = format!("{text} names a session that does not exist: no session was left out");
        notices.push(text);
    }
    notices
}
