//! Excerpts of one session.

use filrouge_sources::library::{Entry, LibraryError};
use filrouge_store::text_index::DocumentNo;
use filrouge_types::Failure;

use super::answered::{Question, answer_to};
use super::asked::Asked;
use super::found::{At, Found};
use super::inside::InSession;
use super::ledger::{NAME, unanswered};
use super::place::{Place, Places};
use super::texts::{read, whole};
use crate::answer::Excerpt;
use crate::excerpt::Cutter;
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
    /// It was read from its source, since its index does not answer.
    Source(Failure),
}

/// Shows what was found in a session; whether by its words, not by its meaning alone.
pub(super) fn show(
    places: &Places<'_>,
    asked: &Asked<'_>,
    found: &Found<'_>,
    shown: &mut Shown,
) -> Result<By, LibraryError> {
    let place = match &found.at {
        At::Index(at, inside) => places.indexed.get(*at).map(|place| (place, inside)),
        At::Source => None,
    };
    let Some((place, inside)) = place else {
        if let Some(entry) = found.entry {
            read_whole(places, asked, entry, shown);
        }
        return Ok(By::Words);
    };
    match (indexed(place, asked, &found.id, inside, shown), found.entry) {
        (Ok(by), _) => Ok(by),
        (Err(why), None) => Err(unanswered(why)),
        (Err(why), Some(entry)) => {
            *shown = Shown::behind(shown.skip, shown.most);
            // Its source still does, but for what only an index finds.
            if inside.may_hold() {
                read_whole(places, asked, entry, shown);
            }
            Ok(By::Source(why))
        }
    }
}

/// Excerpts of a session that is read from its source. One that has gone since has none.
fn read_whole(places: &Places<'_>, asked: &Asked<'_>, entry: &Entry, shown: &mut Shown) {
    let header = &entry.header;
    let cutter = cutter(asked, header.source == NAME);
    if let Ok(conversation) = places.library.conversation(entry) {
        for spoken in whole(header, &conversation, asked.looks_at_titles()) {
            let holds = asked.holds(header.agent.as_deref(), &spoken);
            if holds && shown.take(|| cutter.of(&header.id, &spoken)) {
                break;
            }
        }
    }
}

fn cutter<'a>(asked: &'a Asked<'_>, is_ledger: bool) -> Cutter<'a> {
    Cutter {
        matcher: &asked.question.matcher,
        mask: asked.ask.mask,
        is_ledger,
    }
}

/// Excerpts of the documents of an index that hold it; where there are none, those that mean the like.
fn indexed(
    place: &Place<'_>,
    asked: &Asked<'_>,
    id: &str,
    inside: &InSession,
    shown: &mut Shown,
) -> Result<By, Failure> {
    let (cutter, index) = (cutter(asked, place.is_ledger()), place.index());
    let agent = place.agent(asked, inside.session);
    let all: Vec<(DocumentNo, bool)> = inside.documents().collect();
    let numbers: Vec<DocumentNo> = all.iter().map(|(document, _)| *document).collect();
    let mut all = all.into_iter();
    read(index, &numbers, &mut |document, spoken| {
        let sure = all.find(|(no, _)| *no == document);
        let sure = sure.is_some_and(|(_, sure)| sure);
        let holds = || asked.holds(agent.as_deref(), spoken);
        let full = (sure || holds()) && shown.take(|| cutter.of(id, spoken));
        !full && !(asked.stopped)()
    })?;
    if shown.seen > 0 || inside.near.is_empty() {
        return Ok(By::Words);
    }
    near(place, asked, (id, inside), shown)?;
    Ok(By::Meaning)
}

/// Excerpts of messages that mean the like; of questions with what was answered behind each.
fn near(
    place: &Place<'_>,
    asked: &Asked<'_>,
    (id, inside): (&str, &InSession),
    shown: &mut Shown,
) -> Result<(), Failure> {
    let cutter = cutter(asked, place.is_ledger());
    let mut found = Vec::with_capacity(inside.near.len());
    read(place.index(), &inside.near, &mut |document, spoken| {
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
            excerpts.extend(answer_to(place, &question, answer)?);
        }
        if shown.take(|| excerpts) {
            break;
        }
    }
    Ok(())
}
