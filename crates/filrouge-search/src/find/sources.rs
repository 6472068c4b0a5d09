//! What foreign histories hold: told by an index where it knows a session as it is now, by its source otherwise.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use filrouge_sources::library::{Catalog, Entry};
use filrouge_store::text_index::SessionNo;
use filrouge_types::Failure;

use super::indexed::Look;
use super::rank::Evidence;
use super::{Asked, At, Everything, Found, Searcher};
use crate::collect::{Collected, Search};
use crate::feed::{self, SourceIndex, reach, unlisted};

/// The sessions of one source by what its index knows of them.
struct Sessions {
    /// Those that it knows as they are now, by their numbers, with their places in the catalog.
    fresh: Vec<(SessionNo, usize)>,
    /// The places of those that it does not.
    stale: Vec<usize>,
    /// Whether it knows no others.
    is_all: bool,
}

impl Sessions {
    fn of(known: &feed::Known, catalog: &Catalog, source: usize) -> Self {
        let (mut fresh, mut stale) = (Vec::with_capacity(known.fresh.len()), Vec::new());
        for (place, entry) in catalog.entries.iter().enumerate() {
            if entry.source == source {
                match known.fresh.get(&entry.header.id) {
                    Some(no) => fresh.push((*no, place)),
                    None => stale.push(place),
                }
            }
        }
        fresh.sort_unstable();
        Self {
            is_all: known.stale.is_empty() && fresh.len() == known.fresh.len(),
            fresh,
            stale,
        }
    }
}

/// What was found out last of each source: it holds as long as neither the catalog nor what its index knows is another.
#[derive(Default)]
pub(super) struct Memory(Mutex<HashMap<usize, Remembered>>);

struct Remembered {
    catalog: Weak<Catalog>,
    known: Weak<feed::Known>,
    sessions: Arc<Sessions>,
}

impl Memory {
    fn sessions(
        &self,
        known: &Arc<feed::Known>,
        catalog: &Arc<Catalog>,
        source: usize,
    ) -> Arc<Sessions> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // What a weak pointer leads to is in no other's place.
        let last = all.get(&source).filter(|last| {
            last.catalog.as_ptr() == Arc::as_ptr(catalog)
                && last.known.as_ptr() == Arc::as_ptr(known)
        });
        if let Some(last) = last {
            return last.sessions.clone();
        }
        let sessions = Arc::new(Sessions::of(known, catalog, source));
        let remembered = Remembered {
            catalog: Arc::downgrade(catalog),
            known: Arc::downgrade(known),
            sessions: sessions.clone(),
        };
        all.insert(source, remembered);
        sessions
    }
}

/// The sessions of one source that its index knows as they are now, and of those the ones that pass the filters.
pub(super) struct Known<'c> {
    catalog: &'c Catalog,
    sessions: Arc<Sessions>,
    /// The numbers of those that are asked, where not all sessions of the index are.
    pub(super) only: Option<Vec<SessionNo>>,
    /// Those that it does not know and that pass.
    stale: Vec<&'c Entry>,
    pub(super) as_of: i64,
    /// Why it knows nothing.
    failed: Option<Failure>,
}

impl<'c> Known<'c> {
    fn of(
        asked: &Asked<'_>,
        known: &feed::Known,
        catalog: &'c Catalog,
        sessions: Arc<Sessions>,
    ) -> Self {
        let all = asked.filter.lets_all_sessions();
        let passes = |place: &usize| {
            let entry = catalog.entries.get(*place);
            entry.filter(|entry| all || asked.filter.lets(&entry.header))
        };
        let only = (!all || !sessions.is_all).then(|| {
            let some = sessions
                .fresh
                .iter()
                .filter(|(_, place)| passes(place).is_some());
            some.map(|(no, _)| *no).collect::<Vec<_>>()
        });
        let is_all = |only: &Vec<_>| sessions.is_all && only.len() == sessions.fresh.len();
        Self {
            catalog,
            only: only.filter(|only| !is_all(only)),
            stale: sessions.stale.iter().filter_map(passes).collect(),
            as_of: known.as_of.as_millis(),
            failed: known.failed.clone(),
            sessions,
        }
    }

    /// A session that it knows, by its number.
    pub(super) fn entry(&self, no: SessionNo) -> Option<&'c Entry> {
        let fresh = &self.sessions.fresh;
        let at = fresh.binary_search_by_key(&no, |(no, _)| *no).ok()?;
        self.catalog.entries.get(fresh.get(at)?.1)
    }

    /// Whether none is asked.
    pub(super) fn is_empty(&self) -> bool {
        let asked = self.only.as_ref().map(Vec::len);
        asked.unwrap_or(self.sessions.fresh.len()) == 0
    }
}

impl Searcher {
    /// The index of a source.
    pub(super) fn index(&self, source: usize) -> Option<Arc<SourceIndex>> {
        self.indexes.as_ref()?.of(source)
    }

    /// The sessions of a source that pass the filters.
    fn own<'c>(asked: &Asked<'_>, catalog: &'c Catalog, source: usize) -> Vec<&'c Entry> {
        let entries = catalog.entries.iter();
        let own = entries.filter(|e| e.source == source && asked.filter.lets(&e.header));
        own.collect()
    }

    /// What the index of a source knows of its sessions that pass the filters; `None` without an index.
    pub(super) fn known<'c>(
        &self,
        asked: &Asked<'_>,
        catalog: &'c Arc<Catalog>,
        source: usize,
    ) -> Option<(Arc<SourceIndex>, Known<'c>)> {
        let index = self.index(source)?;
        let listed = self.library.listed(source, self.fresh);
        let known = index.known_of(&listed.map_err(|why| unlisted(&why)));
        let sessions = self.memory.sessions(&known, catalog, source);
        let known = Known::of(asked, &known, catalog, sessions);
        Some((index, known))
    }

    pub(super) fn in_sources<'c>(
        &self,
        asked: &Asked<'_>,
        catalog: &'c Arc<Catalog>,
        all: &mut Everything<'c>,
    ) {
        let mut scanned = Vec::new();
        for source in 0..self.library.sources().len() {
            let Some((index, known)) = self.known(asked, catalog, source) else {
                scanned.extend(Self::own(asked, catalog, source));
                continue;
            };
            let failed = known.failed.as_ref().filter(|_| !known.stale.is_empty());
            if let Some(why) = failed {
                all.told.unanswered(why);
            }
            match self.look(asked, &index, &known, all) {
                Ok(()) => {
                    if known.failed.is_none() {
                        all.told.known_at(known.as_of);
                    }
                    scanned.extend(known.stale);
                }
                Err(why) => {
                    all.told.unanswered(&why);
                    scanned.extend(Self::own(asked, catalog, source));
                }
            }
        }
        self.scan(asked, scanned, all);
    }

    fn look<'c>(
        &self,
        asked: &Asked<'_>,
        index: &SourceIndex,
        known: &Known<'c>,
        all: &mut Everything<'c>,
    ) -> Result<(), Failure> {
        let look = Look {
            index: &**index.index(),
            reach: &reach(),
            sessions: known.only.as_deref(),
            asked,
            agent: &|no| known.entry(no)?.header.agent.clone(),
            most: self.most,
        };
        for inside in look.find()? {
            // What is not among them is not there any more, or another source's.
            if let Some(entry) = known.entry(inside.session) {
                let evidence = inside.evidence;
                let at = At::Indexed(entry, inside);
                all.sessions.push(found(entry, evidence, at));
            }
        }
        Ok(())
    }

    fn scan<'c>(&self, asked: &Asked<'_>, mut entries: Vec<&'c Entry>, all: &mut Everything<'c>) {
        if entries.is_empty() {
            return;
        }
        entries.sort_unstable_by(|a, b| a.header.place().cmp(&b.header.place()));
        let search = asked.scan(&self.library);
        let collected: Collected = search.collect(&entries);
        for (place, evidence) in &collected.matches {
            if let Some(entry) = entries.get(*place) {
                all.sessions
                    .push(found(entry, *evidence, At::Scanned(entry)));
            }
        }
        all.told.notices.extend(collected.notices);
    }
}

impl Asked<'_> {
    pub(super) fn scan<'q>(&'q self, library: &'q filrouge_sources::Library) -> Search<'q> {
        Search {
            library,
            matcher: &self.question.matcher,
            words: self.words,
            filter: self.filter,
            stopped: self.stopped,
        }
    }
}

fn found<'c>(entry: &'c Entry, evidence: Evidence, at: At<'c>) -> Found<'c> {
    Found {
        id: Cow::Borrowed(&entry.header.id),
        updated: entry.header.updated,
        evidence,
        score: 0,
        at,
    }
}
