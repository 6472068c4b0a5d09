//! Where a question is put: the indexes of sources and of the ledger alike, each with the sessions of it that are asked, and
//! the sessions that no index knows as they are.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use filrouge_sources::Library;
use filrouge_sources::library::{Catalog, Entry, LibraryError};
use filrouge_store::text_index::{Reach, SessionNo, TextIndex, Which};
use filrouge_types::Failure;

use super::asked::Asked;
use super::found::Told;
use super::ledger::{LedgerSearch, NAME, unanswered};
use crate::feed::{Indexes, SourceIndex, reach, unlisted};

/// One index with what of it is asked.
pub(super) struct Place<'c> {
    whose: Whose<'c>,
    pub(super) reach: Reach,
    /// The sessions that are asked, where not all within reach are.
    pub(super) only: Option<Vec<SessionNo>>,
    /// Of when its answers are, milliseconds since 1970; `None` for the ledger's, of which that is said before.
    pub(super) as_of: Option<i64>,
}

/// Whose an index is.
enum Whose<'c> {
    /// A source's, with the sessions that it knows as they are, in the order of their numbers.
    Source(Arc<SourceIndex>, Vec<(SessionNo, &'c Entry)>),
    Ledger(&'c LedgerSearch, &'c dyn TextIndex),
}

/// A session of an index.
pub(super) struct Named<'c> {
    pub(super) id: Cow<'c, str>,
    pub(super) updated: i64,
    /// `None`: the ledger's.
    pub(super) entry: Option<&'c Entry>,
}

/// All that a question is put to.
pub(super) struct Places<'c> {
    pub(super) library: &'c Library,
    pub(super) catalog: &'c Catalog,
    pub(super) ledger: Option<&'c LedgerSearch>,
    pub(super) indexed: Vec<Place<'c>>,
    /// The sessions that pass the filters and that no index knows as they are.
    pub(super) unknown: Vec<&'c Entry>,
}

impl<'c> Place<'c> {
    pub(super) fn index(&self) -> &dyn TextIndex {
        match &self.whose {
            Whose::Source(index, _) => &**index.index(),
            Whose::Ledger(_, index) => *index,
        }
    }

    pub(super) const fn is_ledger(&self) -> bool {
        matches!(self.whose, Whose::Ledger(..))
    }

    /// Whether no session is asked.
    pub(super) fn is_empty(&self) -> bool {
        match &self.whose {
            Whose::Source(_, known) => known.is_empty(),
            Whose::Ledger(..) => false,
        }
    }

    /// The sessions of the catalog that are asked here.
    pub(super) fn entries(&self) -> impl Iterator<Item = &'c Entry> {
        let known = match &self.whose {
            Whose::Source(_, known) => known.as_slice(),
            Whose::Ledger(..) => &[],
        };
        known.iter().map(|(_, entry)| *entry)
    }

    fn entry(&self, no: SessionNo) -> Option<&'c Entry> {
        let Whose::Source(_, known) = &self.whose else {
            return None;
        };
        let at = known.binary_search_by_key(&no, |(no, _)| *no).ok()?;
        Some(known.get(at)?.1)
    }

    /// Those of these sessions that are asked and shown from here.
    pub(super) fn named(
        &self,
        asked: &Asked<'_>,
        catalog: &Catalog,
        numbers: &[SessionNo],
    ) -> Result<HashMap<SessionNo, Named<'c>>, Failure> {
        if let Whose::Source(..) = &self.whose {
            let named = |no: &SessionNo| {
                let entry = self.entry(*no)?;
                let one = Named {
                    id: Cow::Borrowed(&entry.header.id),
                    updated: entry.header.updated,
                    entry: Some(entry),
                };
                Some((*no, one))
            };
            return Ok(numbers.iter().filter_map(named).collect());
        }
        let known = self.index().known(Which::Numbers(&self.reach, numbers))?;
        let shown = known.sessions.iter();
        let shown = shown.filter(|s| asked.is_shown_from_ledger(catalog, &s.entry.key));
        let named = shown.map(|session| {
            let one = Named {
                id: Cow::Owned(session.entry.key.to_string()),
                updated: session.entry.updated,
                entry: None,
            };
            (session.no, one)
        });
        Ok(named.collect())
    }

    /// The agent of a session's messages that name none, where somebody asks for agents. A session that cannot be read has
    /// none: it is not shown either.
    pub(super) fn agent(&self, asked: &Asked<'_>, no: SessionNo) -> Option<Box<str>> {
        if !asked.filter.asks_agent() {
            return None;
        }
        match &self.whose {
            Whose::Source(..) => self.entry(no)?.header.agent.clone(),
            Whose::Ledger(ledger, _) => {
                let known = self.index().known(Which::Numbers(&self.reach, &[no]));
                let sessions = known.ok()?.sessions;
                ledger.header(&sessions.first()?.entry.key).ok()??.agent
            }
        }
    }
}

impl<'c> Places<'c> {
    /// Readies a question: what each index knows as it is, and what is to be read. `ledger` is asked by its index with
    /// `by_index`; else it is among the sources.
    pub(super) fn of(
        asked: &Asked<'_>,
        (library, catalog): (&'c Library, &'c Catalog),
        indexes: Option<(&Indexes, Duration)>,
        (ledger, by_index): (Option<&'c LedgerSearch>, bool),
        told: &mut Told,
    ) -> Result<Self, LibraryError> {
        let mut places = Self {
            library,
            catalog,
            ledger,
            indexed: Vec::new(),
            unknown: Vec::new(),
        };
        for id in asked.filter.sessions(false) {
            if !places.has(id)? {
                return Err(LibraryError::NoSession(id.to_owned()));
            }
        }
        for source in 0..library.sources().len() {
            let index = indexes.and_then(|(all, fresh)| Some((all.of(source)?, fresh)));
            places.source(asked, source, index, told);
        }
        let by_index = ledger.filter(|_| by_index);
        if let Some((ledger, index)) = by_index.and_then(|l| Some((l, l.index()?))) {
            let asked = places.ledger(asked, ledger, index);
            asked.map_err(unanswered)?;
        }
        Ok(places)
    }

    fn source(
        &mut self,
        asked: &Asked<'_>,
        source: usize,
        index: Option<(Arc<SourceIndex>, Duration)>,
        told: &mut Told,
    ) {
        let entries = self.catalog.entries.iter();
        let own = entries.filter(|e| e.source == source && asked.filter.lets(&e.header));
        let Some((index, fresh)) = index else {
            return self.unknown.extend(own);
        };
        let listed = self.library.listed(source, fresh);
        let known = index.known_of(&listed.map_err(|why| unlisted(&why)));
        let mut here = Vec::with_capacity(known.fresh.len());
        let before = self.unknown.len();
        for entry in own {
            match known.fresh.get(&entry.header.id) {
                Some(no) => here.push((*no, entry)),
                None => self.unknown.push(entry),
            }
        }
        if let Some(why) = &known.failed {
            if self.unknown.len() > before {
                told.unanswered(why);
            }
            return;
        }
        here.sort_unstable_by_key(|(no, _)| *no);
        let is_all = known.stale.is_empty() && here.len() == known.fresh.len();
        self.indexed.push(Place {
            only: (!is_all).then(|| here.iter().map(|(no, _)| *no).collect()),
            reach: reach(),
            as_of: Some(known.as_of.as_millis()),
            whose: Whose::Source(index, here),
        });
    }

    fn ledger(
        &mut self,
        asked: &Asked<'_>,
        ledger: &'c LedgerSearch,
        index: &'c dyn TextIndex,
    ) -> Result<(), Failure> {
        let mut ids = asked.filter.sessions(false);
        if !asked.filter.lets_source(NAME)
            || ids.any(|id| asked.is_shown_from_source(self.catalog, id))
        {
            return Ok(());
        }
        self.indexed.push(Place {
            only: ledger.only(index, asked)?,
            reach: ledger.reach(),
            as_of: None,
            whose: Whose::Ledger(ledger, index),
        });
        Ok(())
    }

    /// Whether there is a session of this id that the caller may see.
    pub(super) fn has(&self, id: &str) -> Result<bool, LibraryError> {
        match &self.ledger {
            _ if self.catalog.get(id).is_ok() => Ok(true),
            Some(ledger) => Ok(ledger.header(id).map_err(unanswered)?.is_some()),
            None => Ok(false),
        }
    }
}
