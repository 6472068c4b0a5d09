//! One page of what was found, with excerpts.

use filrouge_sources::Header;
use filrouge_sources::library::list::Row;
use filrouge_sources::library::{Catalog, LibraryError};
use filrouge_store::text_index::{DocumentNo, Reach, TextIndex};
use filrouge_types::Failure;

use super::cursor::Cursor;
use super::indexed::answer_to;
use super::{Asked, At, Everything, Found, InSession, Searcher};
use crate::answer::{Excerpt, Hit, Results};
use crate::ask::Ask;
use crate::excerpt::Cutter;
use crate::feed::reach;
use crate::filter::Filter;
use crate::spoken::Spoken;

/// How many sessions a page has when no limit is given, and at most.
const LIMIT: usize = 20;
const LIMIT_MAX: usize = 500;
/// How many excerpts of a session are shown when no number is given, and at most.
pub(crate) const EXCERPTS: usize = 5;
const EXCERPTS_MAX: usize = 1_000;

/// How much is shown at once.
pub(super) struct Page {
    /// Whether one session is searched alone.
    alone: bool,
    limit: usize,
    excerpts: usize,
}

/// Excerpts of one session, as they are found.
struct Shown {
    excerpts: Vec<Excerpt>,
    /// How many matches were seen.
    seen: usize,
    /// How many were seen when the excerpts were full; 0: not yet.
    end: usize,
    most: usize,
    /// How many matches were shown on pages before.
    skip: usize,
}

impl Shown {
    /// Takes a match; whether that was enough.
    fn take(&mut self, excerpts: impl FnOnce() -> Vec<Excerpt>) -> bool {
        self.seen += 1;
        let full = self.excerpts.len() >= self.most;
        if full && self.end == 0 {
            self.end = self.seen - 1;
        }
        if self.seen > self.skip && !full {
            self.excerpts.extend(excerpts());
            self.excerpts.truncate(self.most);
        }
        full
    }
}

impl Page {
    pub(super) fn of(ask: &Ask, filter: &Filter<'_>) -> Result<Self, LibraryError> {
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
        })
    }

    /// The page behind `cursor`.
    pub(super) fn results(
        &self,
        searcher: &Searcher,
        asked: &Asked<'_>,
        catalog: &Catalog,
        all: Everything<'_>,
        cursor: Option<&Cursor>,
    ) -> Result<Results, LibraryError> {
        let (mut total_sessions, mut total_matches) = (all.sessions.len(), 0);
        let mut exact = true;
        for found in &all.sessions {
            total_matches += found.evidence.matches;
            exact &= found.evidence.exact;
        }
        let is_new = |found: &&Found<'_>| {
            cursor.is_none_or(|cursor| !cursor.is_behind(found.score, found.updated, &found.id))
        };
        let mut rest = all.sessions.iter().filter(is_new);
        let (mut sessions, mut next) = (Vec::new(), None);
        while sessions.len() < self.limit {
            let Some(found) = rest.next() else { break };
            if (asked.stopped)() {
                return Err(LibraryError::GivenUp);
            }
            let skip = cursor.filter(|c| *c.id == *found.id).map_or(0, |c| c.shown);
            let Some((hit, end)) = self.hit(searcher, asked, found, skip)? else {
                total_sessions -= 1;
                total_matches -= found.evidence.matches;
                continue;
            };
            next = Some(Cursor {
                score: found.score,
                updated: found.updated,
                id: found.id.to_string(),
                shown: if self.alone { end } else { 0 },
                now: asked.now,
            });
            sessions.push(hit);
        }
        let more = rest.next().is_some() || next.as_ref().is_some_and(|c| c.shown > 0);
        Ok(Results {
            sessions,
            total_sessions,
            total_matches,
            exact,
            as_of: all.as_of,
            next_cursor: next.filter(|_| more).map(|c| c.write(asked.ask)),
            notices: notices(searcher, asked, catalog, all.notices),
        })
    }

    /// A session with excerpts of the matches behind the first `skip`, and how many were shown then, 0 for all; `None`
    /// when it does not hold what is looked for after all, or has gone.
    fn hit(
        &self,
        searcher: &Searcher,
        asked: &Asked<'_>,
        found: &Found<'_>,
        skip: usize,
    ) -> Result<Option<(Hit, usize)>, LibraryError> {
        let Some(header) = searcher.header(found) else {
            return Ok(None);
        };
        let mut shown = Shown {
            excerpts: Vec::new(),
            seen: 0,
            end: 0,
            most: self.excerpts,
            skip,
        };
        match &found.at {
            At::Scanned(entry) => scanned(searcher, asked, entry, &mut shown),
            At::Indexed(entry, inside) => {
                if let Some(index) = searcher.index(entry.source) {
                    let index = &**index.index();
                    indexed((index, &reach()), asked, &header, inside, &mut shown)?;
                }
            }
            At::Ledger(inside) => {
                if let Some(ledger) = &searcher.ledger {
                    let index = (ledger.index(), &ledger.reach());
                    indexed(index, asked, &header, inside, &mut shown)?;
                    let placed = ledger.place(&header.id, &mut shown.excerpts);
                    placed.map_err(|why| super::ledger::unanswered(&why))?;
                }
            }
        }
        if shown.seen == 0 && !matches!(found.at, At::Scanned(_)) {
            return Ok(None);
        }
        let hit = Hit {
            session: Row::of(&header).masked(asked.ask.mask),
            matches: found.evidence.matches,
            exact: found.evidence.exact,
            excerpts: shown.excerpts,
        };
        Ok(Some((hit, shown.end)))
    }
}

fn cutter<'a>(asked: &'a Asked<'_>) -> Cutter<'a> {
    Cutter {
        matcher: &asked.question.matcher,
        mask: asked.ask.mask,
    }
}

/// Excerpts of a session that was looked through in its source. One that has gone since has none.
fn scanned(
    searcher: &Searcher,
    asked: &Asked<'_>,
    entry: &filrouge_sources::library::Entry,
    shown: &mut Shown,
) {
    let (header, cutter) = (&entry.header, cutter(asked));
    let search = asked.scan(&searcher.library);
    if search.title_matches(header)
        && let Some(title) = Spoken::of_title(header)
    {
        shown.take(|| cutter.of(&header.id, &title));
    }
    if let Ok(conversation) = searcher.library.conversation(entry) {
        for message in search.messages(header, &conversation) {
            if shown.take(|| cutter.of(&header.id, &message)) {
                break;
            }
        }
    }
}

/// Excerpts of the documents of an index: those known to hold it, then those of the rest that do.
fn indexed(
    (index, reach): (&dyn TextIndex, &Reach),
    asked: &Asked<'_>,
    header: &Header,
    inside: &InSession,
    shown: &mut Shown,
) -> Result<(), LibraryError> {
    let cutter = cutter(asked);
    let mut show = |documents: &[DocumentNo], sure: bool| {
        index.bodies(documents, &mut |_, body| {
            let Ok(spoken) = Spoken::decode(body) else {
                return true;
            };
            let holds = || asked.weigh(header.agent.as_deref(), &spoken).is_some();
            !((sure || holds()) && shown.take(|| cutter.of(&header.id, &spoken)))
        })
    };
    let ready = show(&inside.held, true).and_then(|()| show(&inside.open, false));
    let ready = ready.and_then(|()| match &asked.ask.similar {
        Some(_) => answers((index, reach), inside, &header.id, &cutter, shown),
        None => Ok(()),
    });
    ready.map_err(|why| super::ledger::unanswered(&why))
}

/// Adds what was answered to the questions that were shown, the beginning of each behind its question.
fn answers(
    (index, reach): (&dyn TextIndex, &Reach),
    inside: &InSession,
    session: &str,
    cutter: &Cutter<'_>,
    shown: &mut Shown,
) -> Result<(), Failure> {
    let mut both = Vec::new();
    let mut questions = std::mem::take(&mut shown.excerpts).into_iter();
    for document in &inside.held {
        both.extend(questions.next());
        let mut answer = Ok(None);
        index.bodies(&[*document], &mut |_, body| {
            if let Ok(question) = Spoken::decode(body) {
                answer = answer_to(index, reach, inside.session, &question);
            }
            false
        })?;
        if let Some(answer) = answer? {
            index.bodies(&[answer], &mut |_, body| {
                if let Ok(answer) = Spoken::decode(body) {
                    both.extend(cutter.of(session, &answer));
                }
                false
            })?;
        }
    }
    shown.excerpts = both;
    Ok(())
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
    if asked
        .filter
        .sessions(true)
        .any(|id| !searcher.has(catalog, id))
    {
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
