//! Excerpts of one session.

use filrouge_sources::library::{Entry, LibraryError};
use filrouge_store::text_index::{DocumentNo, Reach, TextIndex};
use filrouge_types::Failure;

use super::answered::{Question, answer_to};
use super::bodies::documents;
use super::ledger::unanswered;
use super::{Asked, At, Found, InSession, Searcher};
use crate::answer::Excerpt;
use crate::excerpt::Cutter;
use crate::feed::reach;
use crate::spoken::Spoken;

/// How many excerpts of a session are shown when no number is given, and at most.
pub(crate) const EXCERPTS: usize = 5;
pub(super) const EXCERPTS_MAX: usize = 1_000;

/// Excerpts of one session, as they are found.
pub(super) struct Shown {
    pub(super) excerpts: Vec<Excerpt>,
    /// How many matches were seen.
    pub(super) seen: usize,
    /// How many were seen when the excerpts were full and another came; 0: none came.
    pub(super) end: usize,
    most: usize,
    /// How many matches were shown on pages before.
    skip: usize,
}

impl Shown {
    /// Nothing yet of what is behind the first `skip` matches.
    pub(super) const fn behind(skip: usize, most: usize) -> Self {
        Self {
            excerpts: Vec::new(),
            seen: 0,
            end: 0,
            most,
            skip,
        }
    }

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

    /// Whether the next match would be shown.
    const fn takes_next(&self) -> bool {
        self.seen >= self.skip && self.excerpts.len() < self.most
    }
}

/// How a session came to be shown.
pub(super) enum By {
    /// It holds the words.
    Words,
    /// It means the like.
    Meaning,
    /// Its source was looked through, since its index is not there any more, or fails.
    Source(Option<Failure>),
}

/// An index with whose documents are asked.
type Within<'i> = (&'i dyn TextIndex, &'i Reach);
/// The id of a session, and the agent of its messages that name none.
type Of<'s> = (&'s str, Option<&'s str>);

impl Searcher {
    /// Shows what was found in a session; whether by its words, not by its meaning alone.
    pub(super) fn show(
        &self,
        asked: &Asked<'_>,
        found: &Found<'_>,
        shown: &mut Shown,
    ) -> Result<By, LibraryError> {
        match &found.at {
            At::Scanned(entry) => {
                self.scanned(asked, entry, shown);
                Ok(By::Words)
            }
            At::Indexed(entry, inside) => {
                let index = self.index(entry.source);
                let shows = index.ok_or(None).and_then(|index| {
                    let within = (&**index.index(), &reach());
                    let of = (&*found.id, entry.header.agent.as_deref());
                    indexed(within, asked, of, inside, shown).map_err(Some)
                });
                Ok(shows.unwrap_or_else(|why| {
                    *shown = Shown::behind(shown.skip, shown.most);
                    // Its source still does, but for what only an index finds.
                    if inside.may_hold() {
                        self.scanned(asked, entry, shown);
                    }
                    By::Source(why)
                }))
            }
            At::Ledger(inside) => {
                let Some(ledger) = &self.ledger else {
                    return Ok(By::Words);
                };
                let agent = ledger.agent(asked, &found.id).map_err(unanswered)?;
                let within = (ledger.index(), &ledger.reach());
                let of = (&*found.id, agent.as_deref());
                indexed(within, asked, of, inside, shown).map_err(unanswered)
            }
        }
    }

    /// Excerpts of a session that is looked through in its source. One that has gone since has none.
    fn scanned(&self, asked: &Asked<'_>, entry: &Entry, shown: &mut Shown) {
        let (header, cutter) = (&entry.header, cutter(asked));
        let search = asked.scan(&self.library);
        if search.title_matches(header)
            && let Some(title) = Spoken::of_title(header)
        {
            shown.take(|| cutter.of(&header.id, &title));
        }
        if let Ok(conversation) = self.library.conversation(entry) {
            for message in search.messages(header, &conversation) {
                if shown.take(|| cutter.of(&header.id, &message)) {
                    break;
                }
            }
        }
    }
}

fn cutter<'a>(asked: &'a Asked<'_>) -> Cutter<'a> {
    Cutter {
        matcher: &asked.question.matcher,
        mask: asked.ask.mask,
    }
}

/// Excerpts of the documents of an index that hold it; where there are none, those that mean the like.
fn indexed(
    within: Within<'_>,
    asked: &Asked<'_>,
    of: Of<'_>,
    inside: &InSession,
    shown: &mut Shown,
) -> Result<By, Failure> {
    let cutter = cutter(asked);
    let all: Vec<(DocumentNo, bool)> = inside.documents().collect();
    let numbers: Vec<DocumentNo> = all.iter().map(|(document, _)| *document).collect();
    let mut all = all.into_iter();
    documents(within.0, &numbers, &mut |document, spoken| {
        let sure = all.find(|(no, _)| *no == document);
        let sure = sure.is_some_and(|(_, sure)| sure);
        let holds = || asked.holds(of.1, spoken);
        let full = (sure || holds()) && shown.take(|| cutter.of(of.0, spoken));
        !full && !(asked.stopped)()
    })?;
    if shown.seen > 0 || inside.near.is_empty() {
        return Ok(By::Words);
    }
    near(within, asked, of.0, inside, shown)?;
    Ok(By::Meaning)
}

/// Excerpts of messages that mean the like; of questions with what was answered behind each.
fn near(
    within: Within<'_>,
    asked: &Asked<'_>,
    id: &str,
    inside: &InSession,
    shown: &mut Shown,
) -> Result<(), Failure> {
    let (cutter, mut found) = (cutter(asked), Vec::with_capacity(inside.near.len()));
    documents(within.0, &inside.near, &mut |document, spoken| {
        let question = Question {
            session: inside.session,
            document,
            created: spoken.created,
        };
        found.push((question, cutter.near(id, spoken)));
        true
    })?;
    if asked.ask.similar.is_some() {
        // A question and its answer are one.
        shown.most *= 2;
    }
    for (question, mut excerpts) in found {
        if asked.ask.similar.is_some() && shown.takes_next() {
            excerpts.truncate(1);
            let answer = |answer: &Spoken<'_>| cutter.said(id, answer);
            excerpts.extend(answer_to(within, &question, answer)?);
        }
        if shown.take(|| excerpts) {
            break;
        }
    }
    Ok(())
}
