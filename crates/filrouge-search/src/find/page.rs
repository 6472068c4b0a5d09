//! Builds one page of results, with the totals.

use filrouge_sources::library::LibraryError;
use filrouge_sources::library::list::Row;
use filrouge_sources::{Header, on_two_threads};
use filrouge_types::{ErrorCode, Failure};

use super::cursor::Cursor;
use super::found::{Found, FoundIn, FoundSessions, Remarks};
use super::inside::to_count;
use super::ledger::unanswered;
use super::place::Places;
use super::query::PreparedQuery;
use super::records::ConfirmedExcerpts;
use super::show::{By, EXCERPTS, EXCERPTS_MAX, Shown, show};
use crate::answer::{Excerpt, Hit, Results};
use crate::ask::Ask;
use crate::filter::Filter;

/// The default and the maximum number of sessions of a page.
const LIMIT: usize = 20;
const LIMIT_MAX: usize = 500;
/// Sessions are examined in groups, because some turn out to have no hit. The first value is the minimum size of the
/// first group, even if the page needs fewer. The minimum doubles with each group, up to the second value.
const AHEAD: (usize, usize) = (2, 64);
/// Two threads examine a group if each has at least this many sessions.
const SESSIONS_PER_THREAD: usize = 4;

/// The size of a page, and the session after which it begins.
pub(super) struct Page<'a> {
    /// Whether one session is searched alone.
    alone: bool,
    limit: usize,
    excerpts: usize,
    cursor: Option<&'a Cursor>,
}

/// Sessions, each with its hit, if any, and the number of its matches that this page and the earlier ones show; 0 for
/// all.
type Hits<'f, 'c> = Vec<(&'f Found<'c>, Option<(Hit, usize)>)>;

/// The totals of all pages: counts where they are known, else estimates.
struct Totals {
    sessions: f64,
    matches: f64,
    /// The number of sessions whose matches are estimated.
    estimated: usize,
}

impl Totals {
    fn of(all: &[Found<'_>]) -> Self {
        let mut totals = Self {
            sessions: 0.0,
            matches: 0.0,
            estimated: 0,
        };
        for found in all {
            let (likely, about) = found.estimated();
            totals.sessions += likely;
            totals.matches += about;
            totals.estimated += usize::from(!found.evidence.exact);
        }
        totals
    }

    /// Replaces a session's estimate by the result of examining it: its hit, or `None` if it has none.
    fn replace_estimate(&mut self, found: &Found<'_>, hit: Option<&Hit>) {
        let (likely, about) = found.estimated();
        #[allow(clippy::cast_precision_loss)]
        let matches = hit.map_or(0.0, |hit| hit.matches as f64);
        self.sessions += f64::from(u8::from(hit.is_some())) - likely;
        self.matches += matches - about;
        let known = !found.evidence.exact && hit.is_none_or(|hit| hit.exact);
        self.estimated -= usize::from(known);
    }
}

impl<'a> Page<'a> {
    /// Fails if a limit of the request exceeds its maximum.
    pub(super) fn of(
        ask: &Ask,
        filter: &Filter<'_>,
        cursor: Option<&'a Cursor>,
    ) -> Result<Self, LibraryError> {
        let bounded = |name, number, default, max| match number {
            0 => Ok(default),
            _ if number <= max => Ok(number),
            _ => Err(LibraryError::Invalid(format!(
                "{name} is {number}; the maximum is {max}"
            ))),
        };
        Ok(Self {
            alone: filter.session().is_some(),
            limit: bounded("limit", ask.limit, LIMIT, LIMIT_MAX)?,
            excerpts: bounded("excerpts", ask.excerpts, EXCERPTS, EXCERPTS_MAX)?,
            cursor,
        })
    }

    /// Builds the page of `all`, which are in their final order, with the totals and the cursor of the next page.
    pub(super) fn results(
        &self,
        places: &Places<'_>,
        query: &PreparedQuery<'_>,
        all: FoundSessions<'_>,
    ) -> Result<Results, LibraryError> {
        let FoundSessions {
            sessions: all,
            mut remarks,
        } = all;
        let mut totals = Totals::of(&all);
        let is_new = |found: &&Found<'_>| {
            let shown_before = |c: &Cursor| c.was_shown(found.score, found.updated, &found.id);
            !self.cursor.is_some_and(shown_before)
        };
        let new: Vec<&Found<'_>> = all.iter().filter(is_new).collect();
        let mut rest = new.as_slice();
        let (mut sessions, mut next, mut more) = (Vec::new(), None, false);
        let mut least = AHEAD.0;
        while sessions.len() < self.limit && !rest.is_empty() {
            let wanted = least.max(self.limit - sessions.len());
            let (ahead, remaining) = rest.split_at(wanted.min(rest.len()));
            for (found, hit) in self.hits(places, query, ahead, &mut remarks)? {
                totals.replace_estimate(found, hit.as_ref().map(|(hit, _)| hit));
                let Some((hit, end)) = hit else { continue };
                if sessions.len() == self.limit {
                    more = true;
                } else {
                    next = Some(self.cursor_after(query, found, end));
                    sessions.push(hit);
                }
            }
            (rest, least) = (remaining, AHEAD.1.min(2 * least));
        }
        more |= next.as_ref().is_some_and(|c| c.shown > 0);
        // A cursor is returned only if the next page is not empty, so sessions are examined until one has a hit.
        while !more && !rest.is_empty() {
            let unsure = rest.iter().take_while(|found| !found.is_sure());
            let (ahead, remaining) = rest.split_at(unsure.take(least).count());
            more = ahead.is_empty();
            for (found, hit) in self.hits(places, query, ahead, &mut remarks)? {
                more |= hit.is_some();
                totals.replace_estimate(found, hit.as_ref().map(|(hit, _)| hit));
            }
            (rest, least) = (remaining, AHEAD.1.min(2 * least));
        }
        Ok(Results {
            total_sessions: to_count(totals.sessions).max(sessions.len()),
            total_matches: to_count(totals.matches),
            exact: totals.estimated == 0,
            sessions,
            as_of: remarks.as_of,
            next_cursor: next.filter(|_| more).map(|c| c.write(query.ask)),
            notices: notices(places, query, remarks.notices),
        })
    }

    /// Returns the cursor that continues after a session; `end` is the number of its matches that were shown, 0 for
    /// all.
    fn cursor_after(&self, query: &PreparedQuery<'_>, found: &Found<'_>, end: usize) -> Cursor {
        Cursor {
            score: found.score,
            updated: found.updated,
            id: found.id.to_string(),
            shown: if self.alone { end } else { 0 },
            now: query.now,
            embedded: query.vector.is_some(),
        }
    }

    /// Examines the sessions `ahead`, and returns them with their hits, whose excerpts show matches that no earlier
    /// page shows. A session has no hit if it turns out not to match, or no longer exists.
    fn hits<'f, 'c>(
        &self,
        places: &Places<'_>,
        query: &PreparedQuery<'_>,
        ahead: &[&'f Found<'c>],
        remarks: &mut Remarks,
    ) -> Result<Hits<'f, 'c>, LibraryError> {
        let examined = on_two_threads(ahead, SESSIONS_PER_THREAD, |found| {
            self.examine(places, query, found)
        });
        let mut seen = Vec::with_capacity(ahead.len());
        for (found, examined) in ahead.iter().zip(examined) {
            let (shown, by) = examined?;
            if let By::Source(why) = &by {
                remarks.unanswered(why);
            }
            let is_there = shown.seen > 0 || matches!(found.found_in, FoundIn::Source);
            seen.push((*found, is_there.then_some((shown, by))));
        }
        let mut confirmed = confirm_ledger_excerpts(places, &mut seen);
        let hit = |(found, seen): (&'f Found<'c>, Option<(Shown, By)>)| {
            let hit = match (seen, found.entry) {
                (Some((shown, by)), Some(entry)) => {
                    Some(Self::hit(query, found, &entry.header, shown, &by))
                }
                (Some((mut shown, by)), None) => {
                    of_ledger(found, &mut confirmed)?.map(|(header, excerpts)| {
                        shown.excerpts = excerpts;
                        Self::hit(query, found, &header, shown, &by)
                    })
                }
                (None, _) => None,
            };
            Ok((found, hit))
        };
        seen.into_iter().map(hit).collect()
    }

    /// Collects the excerpts of a session, after those that earlier pages show.
    fn examine(
        &self,
        places: &Places<'_>,
        query: &PreparedQuery<'_>,
        found: &Found<'_>,
    ) -> Result<(Shown, By), LibraryError> {
        if (query.stopped)() {
            return Err(LibraryError::Cancelled);
        }
        let here = self.cursor.filter(|c| *c.id == *found.id);
        let mut shown = Shown::after(here.map_or(0, |c| c.shown), self.excerpts);
        let by = show(places, query, found, &mut shown)?;
        Ok((shown, by))
    }

    /// Builds the hit of a session, and returns it with the number of matches shown so far; 0 for all.
    fn hit(
        query: &PreparedQuery<'_>,
        found: &Found<'_>,
        header: &Header,
        shown: Shown,
        by: &By,
    ) -> (Hit, usize) {
        let (matches, exact) = match (by, found.evidence.exact) {
            (By::Meaning, _) => (0, true),
            (_, true) => (found.evidence.matches, true),
            (_, false) if shown.end == 0 => (shown.seen, true),
            (_, false) => (found.evidence.matches.max(shown.seen), false),
        };
        let hit = Hit {
            session: Row::of(header).masked(query.ask.mask),
            matches,
            exact,
            excerpts: shown.excerpts,
        };
        (hit, shown.end)
    }
}

/// Takes the excerpts of sessions that the ledger's index found out of `seen`, and checks them against the ledger's
/// records.
fn confirm_ledger_excerpts(
    places: &Places<'_>,
    seen: &mut [(&Found<'_>, Option<(Shown, By)>)],
) -> ConfirmedExcerpts {
    let mut own = Vec::new();
    for (found, seen) in seen.iter_mut().filter(|(found, _)| found.entry.is_none()) {
        if let Some((shown, _)) = seen {
            let excerpts = std::mem::take(&mut shown.excerpts);
            own.push(((&*found.id).into(), excerpts));
        }
    }
    match places.ledger {
        Some(ledger) if !own.is_empty() => ledger.confirm_excerpts(own),
        _ => ConfirmedExcerpts::new(),
    }
}

/// Takes the header and the confirmed excerpts of a session out of `confirmed`; `None` if the session no longer exists,
/// the caller may not see it, or no record confirms any of its excerpts.
fn of_ledger(
    found: &Found<'_>,
    confirmed: &mut ConfirmedExcerpts,
) -> Result<Option<(Header, Vec<Excerpt>)>, LibraryError> {
    let unread = || Err(Failure::new(ErrorCode::Internal, "a session was not read"));
    let read = confirmed.remove(&*found.id).unwrap_or_else(unread);
    read.map_err(unanswered)
}

/// Returns all notices of a search, with those about omitted results and about how the query was understood.
fn notices(places: &Places<'_>, query: &PreparedQuery<'_>, found: Vec<String>) -> Vec<String> {
    let mut notices = filrouge_sources::library::notices::of_catalog(places.catalog);
    notices.extend(found);
    notices.extend(query.question.notices());
    // When the ledger does not answer, a session is assumed to exist.
    let is_there = |id| places.has(id).unwrap_or(true);
    if query.filter.sessions(true).any(|id| !is_there(id)) {
        let text = if query.ask.exclude_session.is_some() {
            "excludeSession"
        } else {
            "-session:"
        };
        let text = format!("{text} names a session that does not exist: no session was left out");
        notices.push(text);
    }
    notices
}
