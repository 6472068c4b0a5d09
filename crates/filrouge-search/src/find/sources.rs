//! What foreign histories hold: told by an index where it knows a session as it is now, by its source otherwise.

use std::collections::HashMap;
use std::sync::Arc;

use filrouge_sources::library::{Catalog, Entry};
use filrouge_store::text_index::SessionNo;
use filrouge_types::Failure;

use super::indexed::Look;
use super::rank::Evidence;
use super::{Asked, At, Everything, FRESH, Found, Searcher};
use crate::collect::{Collected, Search};
use crate::feed::{SourceIndex, reach};

/// The sessions of one source that its index knows as they are now.
pub(super) struct Known<'c> {
    pub(super) by_no: HashMap<SessionNo, &'c Entry>,
    /// Those that it does not.
    pub(super) stale: Vec<&'c Entry>,
    pub(super) as_of: i64,
    /// Why it knows nothing.
    failed: Option<Failure>,
    /// Whether it knows no others.
    is_all: bool,
}

impl<'c> Known<'c> {
    fn of(index: &SourceIndex, own: &[&'c Entry]) -> Self {
        let known = index.known(FRESH);
        let mut this = Self {
            by_no: HashMap::with_capacity(own.len()),
            stale: Vec::new(),
            as_of: known.as_of.as_millis(),
            failed: known.failed.clone(),
            is_all: false,
        };
        for entry in own {
            match known.fresh.get(&entry.header.id) {
                Some(no) => drop(this.by_no.insert(*no, entry)),
                None => this.stale.push(entry),
            }
        }
        this.is_all = known.stale.is_empty() && this.by_no.len() == known.fresh.len();
        this
    }

    /// The numbers, where not all sessions of the index are asked for.
    pub(super) fn only(&self) -> Option<Vec<SessionNo>> {
        (!self.is_all).then(|| self.by_no.keys().copied().collect())
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
        catalog: &'c Catalog,
        source: usize,
    ) -> Option<(Arc<SourceIndex>, Known<'c>)> {
        let index = self.index(source)?;
        let own = Self::own(asked, catalog, source);
        let known = Known::of(&index, &own);
        Some((index, known))
    }

    pub(super) fn in_sources<'c>(
        &self,
        asked: &Asked<'_>,
        catalog: &'c Catalog,
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
        let only = known.only();
        let look = Look {
            index: &**index.index(),
            reach: &reach(),
            sessions: only.as_deref(),
            asked,
            agent: &|no| known.by_no.get(&no)?.header.agent.clone(),
            most: self.most,
        };
        for inside in look.find()? {
            // What is not among them is not there any more, or another source's.
            if let Some(entry) = known.by_no.get(&inside.session) {
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
        id: entry.header.id.clone(),
        updated: entry.header.updated,
        evidence,
        score: 0,
        at,
    }
}
