//! One page of what was found, and the totals.

use filrouge_sources::library::LibraryError;
use filrouge_sources::library::list::Row;
use filrouge_sources::{Header, by_two};
use filrouge_types::{ErrorCode, Failure};

use super::asked::Asked;
use super::cursor::Cursor;
use super::found::{At, Everything, Found, Told};
use super::inside::whole;
use super::ledger::unanswered;
use super::place::Places;
use super::records::Vouched;
use super::show::{By, EXCERPTS, EXCERPTS_MAX, Shown, show};
use crate::answer::{Excerpt, Hit, Results};
use crate::ask::Ask;
use crate::filter::Filter;

/// How many sessions a page has when no limit is given, and at most.
const LIMIT: usize = 20;
const LIMIT_MAX: usize = 500;
/// So many sessions are looked at together when a page lacks less: at first, and at most, twice as many each time.
const AHEAD: (usize, usize) = (2, 64);
/// Fewer sessions are looked at by one thread.
const SESSIONS_PER_THREAD: usize = 4;

/// How much is shown at once, and behind what.
pub(super) struct Page<'a> {
    /// Whether one session is searched alone.
    alone: bool,
    limit: usize,
    excerpts: usize,
    cursor: Option<&'a Cursor>,
}

/// Sessions, with what each has to show and how many of its matches were shown then.
type Hits<'f, 'c> = Vec<(&'f Found<'c>, Option<(Hit, usize)>)>;

/// What all pages come to: counted where it is known, estimated where it is not.
struct Totals {
    sessions: f64,
    matches: f64,
    /// How many sessions are estimated.
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

    /// Puts what a session has come to in place of what was thought of it.
    fn know(&mut self, found: &Found<'_>, hit: Option<&Hit>) {
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
    pub(super) fn of(
        ask: &Ask,
        filter: &Filter<'_>,
        cursor: Option<&'a Cursor>,
    ) -> Result<Self, LibraryError> {
        let bounded = |name, asked, default, most| match asked {
            0 => Ok(default),
            _ if asked <= most => Ok(asked),
            _ => Err(LibraryError::Invalid(format!(
                "{name} is {asked}; the most is {most}"
            ))),
        };
        Ok(Self {
            alone: filter.session().is_some(),
            limit: bounded("limit", ask.limit, LIMIT, LIMIT_MAX)?,
            excerpts: bounded("excerpts", ask.excerpts, EXCERPTS, EXCERPTS_MAX)?,
            cursor,
        })
    }

    pub(super) fn results(
        &self,
        places: &Places<'_>,
        asked: &Asked<'_>,
        all: Everything<'_>,
    ) -> Result<Results, LibraryError> {
        let Everything {
            sessions: all,
            mut told,
        } = all;
        let mut totals = Totals::of(&all);
        let is_new = |found: &&Found<'_>| {
            let behind = |c: &Cursor| c.is_behind(found.score, found.updated, &found.id);
            !self.cursor.is_some_and(behind)
        };
        let new: Vec<&Found<'_>> = all.iter().filter(is_new).collect();
        let mut rest = new.as_slice();
        let (mut sessions, mut next, mut more) = (Vec::new(), None, false);
        let mut least = AHEAD.0;
        while sessions.len() < self.limit && !rest.is_empty() {
            let wanted = least.max(self.limit - sessions.len());
            let (ahead, behind) = rest.split_at(wanted.min(rest.len()));
            for (found, hit) in self.hits(places, asked, ahead, &mut told)? {
                totals.know(found, hit.as_ref().map(|(hit, _)| hit));
                let Some((hit, end)) = hit else { continue };
                if sessions.len() == self.limit {
                    more = true;
                } else {
                    next = Some(self.behind(asked, found, end));
                    sessions.push(hit);
                }
            }
            (rest, least) = (behind, AHEAD.1.min(2 * least));
        }
        more |= next.as_ref().is_some_and(|c| c.shown > 0);
        // A page that is said to follow has something to show.
        while !more && !rest.is_empty() {
            let unsure = rest.iter().take_while(|found| !found.is_sure());
            let (ahead, behind) = rest.split_at(unsure.take(least).count());
            more = ahead.is_empty();
            for (found, hit) in self.hits(places, asked, ahead, &mut told)? {
                more |= hit.is_some();
                totals.know(found, hit.as_ref().map(|(hit, _)| hit));
            }
            (rest, least) = (behind, AHEAD.1.min(2 * least));
        }
        Ok(Results {
            total_sessions: whole(totals.sessions).max(sessions.len()),
            total_matches: whole(totals.matches),
            exact: totals.estimated == 0,
            sessions,
            as_of: told.as_of,
            next_cursor: next.filter(|_| more).map(|c| c.write(asked.ask)),
            notices: notices(places, asked, told.notices),
        })
    }

    /// Behind a session of which matches up to `end` were shown, 0 for all.
    fn behind(&self, asked: &Asked<'_>, found: &Found<'_>, end: usize) -> Cursor {
        Cursor {
            score: found.score,
            updated: found.updated,
            id: found.id.to_string(),
            shown: if self.alone { end } else { 0 },
            now: asked.now,
            embedded: asked.meant.is_some(),
        }
    }

    /// Sessions with excerpts of what was not shown yet, and how many matches of each were shown then, 0 for all; `None` of
    /// one that does not hold what is looked for after all, or has gone.
    fn hits<'f, 'c>(
        &self,
        places: &Places<'_>,
        asked: &Asked<'_>,
        ahead: &[&'f Found<'c>],
        told: &mut Told,
    ) -> Result<Hits<'f, 'c>, LibraryError> {
        let looked = by_two(ahead, SESSIONS_PER_THREAD, |found| {
            self.look(places, asked, found)
        });
        let mut seen = Vec::with_capacity(ahead.len());
        for (found, looked) in ahead.iter().zip(looked) {
            let (shown, by) = looked?;
            if let By::Source(why) = &by {
                told.unanswered(why);
            }
            let is_there = shown.seen > 0 || matches!(found.at, At::Source);
            seen.push((*found, is_there.then_some((shown, by))));
        }
        let mut vouched = vouched(places, &mut seen);
        let hit = |(found, seen): (&'f Found<'c>, Option<(Shown, By)>)| {
            let hit = match (seen, found.entry) {
                (Some((shown, by)), Some(entry)) => {
                    Some(Self::hit(asked, found, &entry.header, shown, &by))
                }
                (Some((mut shown, by)), None) => {
                    of_ledger(found, &mut vouched)?.map(|(header, excerpts)| {
                        shown.excerpts = excerpts;
                        Self::hit(asked, found, &header, shown, &by)
                    })
                }
                (None, _) => None,
            };
            Ok((found, hit))
        };
        seen.into_iter().map(hit).collect()
    }

    /// What a session has to show.
    fn look(
        &self,
        places: &Places<'_>,
        asked: &Asked<'_>,
        found: &Found<'_>,
    ) -> Result<(Shown, By), LibraryError> {
        if (asked.stopped)() {
            return Err(LibraryError::GivenUp);
        }
        let here = self.cursor.filter(|c| *c.id == *found.id);
        let mut shown = Shown::behind(here.map_or(0, |c| c.shown), self.excerpts);
        let by = show(places, asked, found, &mut shown)?;
        Ok((shown, by))
    }

    fn hit(
        asked: &Asked<'_>,
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
            session: Row::of(header).masked(asked.ask.mask),
            matches,
            exact,
            excerpts: shown.excerpts,
        };
        (hit, shown.end)
    }
}

/// Those of the ledger, as their records have them.
fn vouched(places: &Places<'_>, seen: &mut [(&Found<'_>, Option<(Shown, By)>)]) -> Vouched {
    let mut own = Vec::new();
    for (found, seen) in seen.iter_mut().filter(|(found, _)| found.entry.is_none()) {
        if let Some((shown, _)) = seen {
            let excerpts = std::mem::take(&mut shown.excerpts);
            own.push(((&*found.id).into(), excerpts));
        }
    }
    match places.ledger {
        Some(ledger) if !own.is_empty() => ledger.vouched(own),
        _ => Vouched::new(),
    }
}

/// What is shown of a session of the ledger; `None` when it has gone, or is not the caller's to see.
fn of_ledger(
    found: &Found<'_>,
    vouched: &mut Vouched,
) -> Result<Option<(Header, Vec<Excerpt>)>, LibraryError> {
    let unread = || Err(Failure::new(ErrorCode::Internal, "a session was not read"));
    let read = vouched.remove(&*found.id).unwrap_or_else(unread);
    read.map_err(unanswered)
}

/// What was left out, and how the query was understood.
fn notices(places: &Places<'_>, asked: &Asked<'_>, found: Vec<String>) -> Vec<String> {
    let mut notices = filrouge_sources::library::notices::of_catalog(places.catalog);
    notices.extend(found);
    notices.extend(asked.question.notices());
    // What does not answer may be there.
    let is_there = |id| places.has(id).unwrap_or(true);
    if asked.filter.sessions(true).any(|id| !is_there(id)) {
        let text = if asked.ask.exclude_session.is_some() {
            "excludeSession"
        } else {
            "-session:"
        };
        let text = format!("{text} names a session that is not there: nothing was left out");
        notices.push(text);
    }
    notices
}
