//! One page of what was found, and the totals.

use std::sync::Arc;

use filrouge_sources::Header;
use filrouge_sources::library::list::Row;
use filrouge_sources::library::{Catalog, LibraryError};
use filrouge_types::{ErrorCode, Failure};

use super::cursor::Cursor;
use super::inside::whole;
use super::ledger::{Headers, unanswered};
use super::show::{EXCERPTS, EXCERPTS_MAX, Shown};
use super::{Asked, At, Everything, Found, Searcher, Told};
use crate::answer::{Hit, Results};
use crate::ask::Ask;
use crate::filter::Filter;

/// How many sessions a page has when no limit is given, and at most.
const LIMIT: usize = 20;
const LIMIT_MAX: usize = 500;

/// How much is shown at once, and behind what.
pub(super) struct Page<'a> {
    /// Whether one session is searched alone.
    alone: bool,
    limit: usize,
    excerpts: usize,
    cursor: Option<&'a Cursor>,
}

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

impl Found<'_> {
    /// How likely the session holds it, and in how many messages about.
    fn estimated(&self) -> (f64, f64) {
        match &self.at {
            #[allow(clippy::cast_precision_loss)]
            At::Scanned(_) => (1.0, self.evidence.matches as f64),
            At::Indexed(_, inside) | At::Ledger(inside) => (inside.likely, inside.about),
        }
    }

    /// Whether the session is shown without another look.
    fn is_sure(&self) -> bool {
        match &self.at {
            At::Scanned(_) => true,
            At::Indexed(_, inside) | At::Ledger(inside) => {
                inside.holds() || !inside.near.is_empty()
            }
        }
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
        searcher: &Searcher,
        asked: &Asked<'_>,
        catalog: &Catalog,
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
        let mut rest = all.iter().filter(is_new);
        let (mut sessions, mut next) = (Vec::new(), None);
        let mut headers = Headers::new();
        while sessions.len() < self.limit {
            let ahead = rest.clone().take(self.limit - sessions.len());
            let Some(found) = rest.next() else { break };
            let header = searcher.header(found, ahead, &mut headers)?;
            let shown = self.hit(searcher, asked, (found, header), &mut told)?;
            totals.know(found, shown.as_ref().map(|(hit, _)| hit));
            if let Some((hit, end)) = shown {
                next = Some(self.behind(asked, found, end));
                sessions.push(hit);
            }
        }
        let mut more = next.as_ref().is_some_and(|c| c.shown > 0);
        // A page that is said to follow has something to show.
        while let Some(found) = rest.next().filter(|_| !more) {
            more = found.is_sure();
            if !more {
                let header = searcher.header(found, std::iter::once(found), &mut headers)?;
                let shown = self.hit(searcher, asked, (found, header), &mut told)?;
                more = shown.is_some();
            }
            if !more {
                totals.know(found, None);
            }
        }
        searcher.place(&mut sessions)?;
        Ok(Results {
            total_sessions: whole(totals.sessions).max(sessions.len()),
            total_matches: whole(totals.matches),
            exact: totals.estimated == 0,
            sessions,
            as_of: told.as_of,
            next_cursor: next.filter(|_| more).map(|c| c.write(asked.ask)),
            notices: notices(searcher, asked, catalog, told.notices),
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

    /// A session with excerpts of what was not shown yet, and how many matches were shown then, 0 for all; `None` when it
    /// does not hold what is looked for after all, or has gone.
    fn hit(
        &self,
        searcher: &Searcher,
        asked: &Asked<'_>,
        (found, header): (&Found<'_>, Option<Arc<Header>>),
        told: &mut Told,
    ) -> Result<Option<(Hit, usize)>, LibraryError> {
        if (asked.stopped)() {
            return Err(LibraryError::GivenUp);
        }
        let Some(header) = header else {
            return Ok(None);
        };
        let here = self.cursor.filter(|c| *c.id == *found.id);
        let mut shown = Shown::behind(here.map_or(0, |c| c.shown), self.excerpts);
        let by_words = searcher.show(asked, found, &header, &mut shown, told)?;
        if shown.seen == 0 && !matches!(found.at, At::Scanned(_)) {
            return Ok(None);
        }
        let (matches, exact) = match (by_words, found.evidence.exact) {
            (false, _) => (0, true),
            (true, true) => (found.evidence.matches, true),
            (true, false) if shown.end == 0 => (shown.seen, true),
            (true, false) => (found.evidence.matches.max(shown.seen), false),
        };
        let hit = Hit {
            session: Row::of(&header).masked(asked.ask.mask),
            matches,
            exact,
            excerpts: shown.excerpts,
        };
        Ok(Some((hit, shown.end)))
    }
}

impl Searcher {
    /// The header of a session that was found; `None` when it has gone, or is not the caller's to see. Of the ledger it is
    /// read together with those `ahead`.
    fn header<'f>(
        &self,
        found: &Found<'_>,
        ahead: impl Iterator<Item = &'f Found<'f>>,
        headers: &mut Headers,
    ) -> Result<Option<Arc<Header>>, LibraryError> {
        let ledger = match (&found.at, &self.ledger) {
            (At::Scanned(entry) | At::Indexed(entry, _), _) => {
                return Ok(Some(entry.header.clone()));
            }
            (At::Ledger(_), Some(ledger)) => ledger,
            (At::Ledger(_), None) => return Ok(None),
        };
        if !headers.contains_key(&*found.id) {
            let own = ahead.filter(|one| matches!(one.at, At::Ledger(_)));
            let ids: Vec<&str> = own.map(|one| &*one.id).collect();
            headers.extend(ledger.headers(&ids));
        }
        let unread = || Err(Failure::new(ErrorCode::Internal, "a session was not read"));
        let header = headers.remove(&*found.id).unwrap_or_else(unread);
        Ok(header.map_err(unanswered)?.map(Arc::new))
    }

    /// Names the items of the ledger.
    fn place(&self, sessions: &mut [Hit]) -> Result<(), LibraryError> {
        match &self.ledger {
            Some(ledger) => ledger.place(sessions).map_err(unanswered),
            None => Ok(()),
        }
    }
}

/// What was left out, and how the query was understood.
fn notices(
    searcher: &Searcher,
    asked: &Asked<'_>,
    catalog: &Catalog,
    found: Vec<String>,
) -> Vec<String> {
    let mut notices = filrouge_sources::library::notices::of_catalog(catalog);
    notices.extend(found);
    notices.extend(asked.question.notices());
    // What does not answer may be there.
    let is_there = |id| searcher.has(catalog, id).unwrap_or(true);
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
