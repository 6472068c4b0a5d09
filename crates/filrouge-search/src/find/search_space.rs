//! Everything that a search covers: the indexes of the sources and of the ledger, each with the sessions to search in
//! it, and the sessions whose current state no index contains.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use filrouge_sources::ledger::unreadable;
use filrouge_sources::library::{Catalog, Entry, LibraryError};
use filrouge_sources::{Header, Library, Skipped};
use filrouge_store::text_index::{
    IndexScope, IndexedSession, Key, SessionNo, SessionSelection, TextIndex,
};
use filrouge_types::Failure;

use super::found::Remarks;
use super::ledger::{LEDGER_NAME, LedgerSearch};
use super::query::PreparedQuery;
use crate::feed::{Indexes, SourceIndex, index_scope, listing_failure};
use crate::ledger::{Unreadable, VerifiedTexts};
use crate::similar_turns::NamedTurn;
use crate::texts::Texts;

/// One index, with the part of it that is searched.
pub(super) struct SearchedIndex<'c> {
    history: History<'c>,
    /// The part of the index that the caller may see.
    pub(super) reach: IndexScope,
    /// The sessions to search; `None` for all within reach.
    pub(super) sessions: Option<Vec<SessionNo>>,
    /// The time up to which the index is current, in milliseconds since 1970. `None` for the ledger's index, whose time
    /// was recorded before the search.
    pub(super) as_of: Option<i64>,
}

/// The history that an index belongs to.
enum History<'c> {
    /// A source, with its fresh sessions in the order of their numbers.
    Source(Arc<SourceIndex>, Vec<(SessionNo, &'c Entry)>),
    /// The ledger, with the texts that this search reads from it.
    Ledger(Box<VerifiedTexts>),
}

/// A session, as a result shows it.
#[derive(Clone)]
pub(super) struct ShownSession<'c> {
    pub(super) id: Cow<'c, str>,
    pub(super) updated: i64,
    /// Its entry in the catalog; `None` for a session that the ledger's index found.
    pub(super) entry: Option<&'c Entry>,
}

impl<'c> From<&'c Entry> for ShownSession<'c> {
    fn from(entry: &'c Entry) -> Self {
        Self {
            id: Cow::Borrowed(&entry.header.id),
            updated: entry.header.updated,
            entry: Some(entry),
        }
    }
}

/// Everything that a search covers.
pub(super) struct SearchSpace<'c> {
    pub(super) library: &'c Library,
    pub(super) catalog: &'c Catalog,
    pub(super) ledger: Option<&'c LedgerSearch>,
    pub(super) indexed: Vec<SearchedIndex<'c>>,
    /// The sessions that pass the filters and whose current state no index contains.
    pub(super) unindexed: Vec<&'c Entry>,
}

impl<'c> SearchedIndex<'c> {
    /// The texts of the documents that the index names.
    pub(super) fn texts(&self) -> Texts<'_> {
        match &self.history {
            History::Source(index, _) => Texts::Stored(&**index.index()),
            History::Ledger(texts) => Texts::Verified(texts),
        }
    }

    pub(super) fn index(&self) -> &dyn TextIndex {
        self.texts().index()
    }

    pub(super) const fn is_ledger(&self) -> bool {
        matches!(self.history, History::Ledger(..))
    }

    /// Whether it is known that there is no session to search; always false for the ledger.
    pub(super) fn is_empty(&self) -> bool {
        !self.is_ledger() && self.entries().next().is_none()
    }

    /// The sessions of the catalog that are searched in this index.
    pub(super) fn entries(&self) -> impl Iterator<Item = &'c Entry> {
        let fresh = match &self.history {
            History::Source(_, fresh) => fresh.as_slice(),
            History::Ledger(..) => &[],
        };
        fresh.iter().map(|(_, entry)| *entry)
    }

    fn entry(&self, no: SessionNo) -> Option<&'c Entry> {
        let History::Source(_, fresh) = &self.history else {
            return None;
        };
        let at = fresh.binary_search_by_key(&no, |(no, _)| *no).ok()?;
        Some(fresh.get(at)?.1)
    }

    /// Returns those of the sessions `numbers` that still exist and are shown from this index, not from another source.
    pub(super) fn shown_sessions(
        &self,
        query: &PreparedQuery<'_>,
        catalog: &Catalog,
        numbers: &[SessionNo],
    ) -> Result<HashMap<SessionNo, ShownSession<'c>>, Failure> {
        if let History::Source(..) = &self.history {
            let shown_session = |no: &SessionNo| Some((*no, ShownSession::from(self.entry(*no)?)));
            return Ok(numbers.iter().filter_map(shown_session).collect());
        }
        let state = self
            .index()
            .state(SessionSelection::Numbers(&self.reach, numbers))?;
        let shown = state.sessions.iter();
        let shown = shown.filter(|s| query.is_shown_from_ledger(catalog, &s.entry.key));
        let by_number = shown.map(|session| {
            let shown = ShownSession {
                id: Cow::Owned(session.entry.key.to_string()),
                updated: session.entry.updated,
                entry: None,
            };
            (session.no, shown)
        });
        Ok(by_number.collect())
    }

    /// The sessions of these turns in the ledger's index that the caller may see; none in the index of a source.
    pub(super) fn ledger_sessions(
        &self,
        turns: &[NamedTurn],
    ) -> Result<Vec<IndexedSession>, Failure> {
        let History::Ledger(texts) = &self.history else {
            return Ok(Vec::new());
        };
        let ids: BTreeSet<&str> = turns.iter().map(|turn| turn.session.as_str()).collect();
        let keys = ids.into_iter().filter_map(|id| texts.session_key(id));
        let keys: Vec<Key> = keys.collect();
        let mut sessions = self.index().state(SessionSelection::Named(&keys))?.sessions;
        sessions.retain(|session| self.reach.contains(&session.shard));
        Ok(sessions)
    }

    /// Counts turns that a projection names and the ledger's index does not have for the caller.
    pub(super) fn count_unconfirmed(&self, turns: usize) {
        if let History::Ledger(texts) = &self.history {
            texts.count_unconfirmed(turns);
        }
    }

    /// Returns the verified header of a session of the ledger; `None` if the session no longer exists, the caller may
    /// not see it, or it is another history's.
    pub(super) fn ledger_header(&self, id: &str) -> Result<Option<Header>, Failure> {
        match &self.history {
            History::Ledger(texts) => texts.header(id),
            History::Source(..) => Ok(None),
        }
    }

    /// Returns the agent to which a session's messages without an agent belong. Returns `None` if it has no agent, if
    /// no filter names an agent, or if the session cannot be read; such a session is not shown.
    pub(super) fn agent(&self, query: &PreparedQuery<'_>, no: SessionNo) -> Option<Box<str>> {
        if !query.filter.names_agent() {
            return None;
        }
        match &self.history {
            History::Source(..) => self.entry(no)?.header.agent.clone(),
            History::Ledger(texts) => {
                let selection = SessionSelection::Numbers(&self.reach, &[no]);
                let sessions = texts.index().state(selection).ok()?.sessions;
                let key = &sessions.first()?.entry.key;
                texts.header(key).ok()??.agent
            }
        }
    }
}

impl<'c> SearchSpace<'c> {
    /// Prepares a search: determines the sessions that each index covers, and the sessions that must be read from their
    /// sources. The duration is the maximum age of the comparison of an index with its source. With `by_index`,
    /// `ledger` is searched by its index; otherwise it is among the sources of `library`.
    pub(super) fn new(
        query: &PreparedQuery<'_>,
        (library, catalog): (&'c Library, &'c Catalog),
        indexes: Option<(&Indexes, Duration)>,
        (ledger, by_index): (Option<&'c LedgerSearch>, bool),
        remarks: &mut Remarks,
    ) -> Result<Self, LibraryError> {
        let mut space = Self {
            library,
            catalog,
            ledger,
            indexed: Vec::new(),
            unindexed: Vec::new(),
        };
        for id in query.filter.sessions(false) {
            if !space.has(id)? {
                return Err(LibraryError::NoSession(id.to_owned()));
            }
        }
        for source in 0..library.sources().len() {
            let index =
                indexes.and_then(|(indexes, max_age)| Some((indexes.open(source)?, max_age)));
            space.add_source(query, source, index, remarks);
        }
        let by_index = ledger.filter(|_| by_index);
        if let Some((ledger, texts)) = by_index.and_then(|l| Some((l, l.texts()?))) {
            let added = space.add_ledger(query, ledger, texts, remarks);
            added.map_err(LibraryError::Unavailable)?;
        }
        Ok(space)
    }

    /// Adds the source at a position of the library: its index, if it has one, with the fresh sessions, and its other
    /// sessions to `unindexed`.
    fn add_source(
        &mut self,
        query: &PreparedQuery<'_>,
        source: usize,
        index: Option<(Arc<SourceIndex>, Duration)>,
        remarks: &mut Remarks,
    ) {
        let entries = self.catalog.entries.iter();
        let selected = entries.filter(|e| e.source == source && query.filter.may_pass(&e.header));
        let Some((index, max_age)) = index else {
            return self.unindexed.extend(selected);
        };
        let listed = self.library.listed(source, max_age);
        let snapshot = index.snapshot_of(&listed.map_err(|why| listing_failure(&why)));
        let mut fresh = Vec::with_capacity(snapshot.fresh.len());
        let before = self.unindexed.len();
        for entry in selected {
            match snapshot.fresh.get(&entry.header.id) {
                Some(no) => fresh.push((*no, entry)),
                None => self.unindexed.push(entry),
            }
        }
        if let Some(why) = &snapshot.failed {
            if self.unindexed.len() > before {
                remarks.add_unanswered(why);
            }
            return;
        }
        fresh.sort_unstable_by_key(|(no, _)| *no);
        let is_complete = snapshot.stale.is_empty() && fresh.len() == snapshot.fresh.len();
        self.indexed.push(SearchedIndex {
            sessions: (!is_complete).then(|| fresh.iter().map(|(no, _)| *no).collect()),
            reach: index_scope(),
            as_of: Some(snapshot.as_of.as_millis()),
            history: History::Source(index, fresh),
        });
    }

    /// Adds the ledger's index, unless the filters exclude the ledger, or require a session that is shown from a
    /// source.
    fn add_ledger(
        &mut self,
        query: &PreparedQuery<'_>,
        ledger: &'c LedgerSearch,
        texts: VerifiedTexts,
        remarks: &mut Remarks,
    ) -> Result<(), Failure> {
        let mut ids = query.filter.sessions(false);
        if !query.filter.may_pass_source(LEDGER_NAME)
            || ids.any(|id| query.is_shown_from_source(self.catalog, id))
        {
            return Ok(());
        }
        // A session that is searched alone is damaged only if it cannot be read.
        if query.filter.session().is_none() {
            match ledger.source().damaged() {
                Ok(damaged) => texts.add_unread(damaged),
                Err(why) if why.code.retry() => return Err(why),
                Err(why) => remarks.add_missing(&why.detail),
            }
        }
        self.add_unreadable(query, &ledger.unreadable(), &texts, remarks);
        self.indexed.push(SearchedIndex {
            sessions: ledger.sessions_to_search(texts.index(), query)?,
            reach: ledger.index_scope(),
            as_of: None,
            history: History::Ledger(Box::new(texts)),
        });
        Ok(())
    }

    /// Records the sessions that the ledger's index lacks, as far as this search covers them.
    fn add_unreadable(
        &self,
        query: &PreparedQuery<'_>,
        Unreadable { ids, others }: &Unreadable,
        texts: &VerifiedTexts,
        remarks: &mut Remarks,
    ) {
        let only = query.filter.session();
        let is_covered = |id: &&str| {
            only.is_none_or(|only| only == *id) && query.is_shown_from_ledger(self.catalog, id)
        };
        let covered = ids.iter().map(|id| &**id).filter(is_covered);
        texts.add_unread(covered.map(|id| unreadable(id, "the search index could not read it")));
        if *others > 0 && only.is_none() {
            remarks.add_missing(&format!("{others} more could not be read"));
        }
    }

    /// The sessions of the ledger that this search lacks because they cannot be read.
    pub(super) fn unread(&self) -> Vec<Skipped> {
        let ledgers = self.indexed.iter().filter_map(|one| match &one.history {
            History::Ledger(texts) => Some(texts.unread()),
            History::Source(..) => None,
        });
        ledgers.flatten().collect()
    }

    /// Whether a session with this id exists that the caller may see.
    pub(super) fn has(&self, id: &str) -> Result<bool, LibraryError> {
        match &self.ledger {
            _ if self.catalog.get(id).is_ok() => Ok(true),
            Some(ledger) => {
                let header = ledger.header(id).map_err(LibraryError::Unavailable)?;
                Ok(header.is_some())
            }
            None => Ok(false),
        }
    }
}
