//! Reads the documents that the ledger's index names from the ledger's verified records.
//!
//! The index keeps no text of these documents. A program that edits it, or restores an older state of it, can therefore
//! change neither a text that is compared with a query nor a text that is shown.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::iter;
use std::sync::{Arc, Mutex};

use filrouge_engine::{Caller, Engine, Extent};
use filrouge_sources::ledger::{header, loose_seq, units, unreadable};
use filrouge_sources::{Header, Message, Skipped};
use filrouge_store::text_index::{DocumentNo, IndexedDocument, Key, TextIndex};
use filrouge_types::{Recorded, Result, SessionId, TenantId, lock};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use tokio::runtime::Handle;

use super::counts::FeedCounts;
use super::documents::document_key;
use super::shard::realm_of;
use crate::feed::digest;
use crate::search_document::SearchDocument;

/// The maximum size of the cached units, in bytes, and their estimated number.
const CACHED: (u64, usize) = (64 << 20, 1 << 13);
/// The approximate size of a cached document besides its text, in bytes.
const DOCUMENT_OVERHEAD: usize = 128;
/// The number of documents that are read at once.
const DOCUMENTS_PER_READ: usize = 16;

/// The cache of the units that were read recently.
pub(super) type UnitCache = Cache<UnitKey, Arc<Unit>, BySize>;

/// Creates an empty cache.
pub(super) fn unit_cache() -> UnitCache {
    let (bytes, items) = CACHED;
    Cache::with_weighter(items, bytes, BySize)
}

/// A unit of a session in one state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct UnitKey {
    session: Key,
    /// Every change of a session's items, even a redaction, adds a seq: the newest one identifies their state.
    last_seq: u64,
    unit: u64,
}

/// The documents of a unit.
pub(super) struct Unit {
    documents: Vec<UnitDocument>,
    /// Whether the complete session was read. If not, a document that depends on other units may differ from the
    /// indexed one: a result that joins its call, or an id that occurs twice.
    is_whole: bool,
}

struct UnitDocument {
    key: Box<str>,
    digest: u64,
    body: Arc<[u8]>,
}

impl Unit {
    /// The encoded document that the index names. If the complete session was read, it may differ from the indexed one:
    /// what the records contain is then newer.
    fn body(&self, named: &IndexedDocument) -> Option<Arc<[u8]>> {
        let mut documents = self.documents.iter();
        let is_named =
            |d: &&UnitDocument| d.key == named.key && (self.is_whole || d.digest == named.digest);
        Some(documents.find(is_named)?.body.clone())
    }
}

impl From<&Message> for UnitDocument {
    fn from(message: &Message) -> Self {
        let body = SearchDocument::from_message(message).encode();
        Self {
            key: document_key(message).into(),
            digest: digest::hash_bytes(&body),
            body: body.into(),
        }
    }
}

/// Weighs units by their size in bytes.
#[derive(Clone)]
pub(super) struct BySize;

impl Weighter<UnitKey, Arc<Unit>> for BySize {
    fn weight(&self, key: &UnitKey, unit: &Arc<Unit>) -> u64 {
        let documents = unit.documents.iter();
        let sizes = documents.map(|d| d.body.len() + d.key.len() + DOCUMENT_OVERHEAD);
        (sizes.sum::<usize>() + key.session.1.len() + DOCUMENT_OVERHEAD) as u64
    }
}

/// A session that was verified.
struct SessionState {
    header: Header,
    last_seq: u64,
}

/// Units of sessions, by the sessions' keys.
type UnitNumbers<'k> = BTreeMap<&'k Key, BTreeSet<u64>>;
type Units<'k> = HashMap<(&'k Key, u64), Arc<Unit>>;

/// The texts of the documents in the ledger's index, read for one search. Its methods block: call them outside the
/// worker threads of the runtime.
pub(crate) struct VerifiedTexts {
    engine: Arc<Engine>,
    index: Arc<dyn TextIndex>,
    cache: Arc<UnitCache>,
    counts: Arc<Mutex<FeedCounts>>,
    /// The engine's runtime.
    runtime: Handle,
    /// Whose texts are read; `None` for those of all tenants.
    caller: Option<Caller>,
    /// The sessions that this search has verified; `None` for one that the caller may not see, or that cannot be read.
    sessions: Mutex<HashMap<Key, Option<Arc<SessionState>>>>,
    /// The sessions that this search lacks because they cannot be read.
    unread: Mutex<BTreeSet<Skipped>>,
}

impl VerifiedTexts {
    pub(super) fn new(
        (engine, index): (Arc<Engine>, Arc<dyn TextIndex>),
        (cache, counts): (Arc<UnitCache>, Arc<Mutex<FeedCounts>>),
        caller: Option<Caller>,
        runtime: Handle,
    ) -> Self {
        Self {
            engine,
            index,
            cache,
            counts,
            runtime,
            caller,
            sessions: Mutex::default(),
            unread: Mutex::default(),
        }
    }

    /// Records that these sessions cannot be read.
    pub(crate) fn add_unread(&self, sessions: impl IntoIterator<Item = Skipped>) {
        lock(&self.unread).extend(sessions);
    }

    /// The sessions that this search lacks because they cannot be read.
    pub(crate) fn unread(&self) -> Vec<Skipped> {
        let mut unread: Vec<_> = lock(&self.unread).iter().cloned().collect();
        unread.dedup_by(|a, b| a.path == b.path);
        unread
    }

    /// The index that names the documents.
    pub(crate) fn index(&self) -> &dyn TextIndex {
        &*self.index
    }

    /// The header of a session; `None` if the caller may not see it, or it cannot be read.
    pub(crate) fn header(&self, id: &str) -> Result<Option<Header>> {
        let Some(key) = self.session_key(id) else {
            return Ok(None);
        };
        let state = self.verify(iter::once(&key))?.pop().flatten();
        Ok(state.map(|state| state.header.clone()))
    }

    /// The key in the index of a session of the caller's tenant; `None` without a caller.
    pub(crate) fn session_key(&self, id: &str) -> Option<Key> {
        let caller = self.caller.as_ref()?;
        Some((realm_of(caller.tenant()), id.into()))
    }

    /// Counts turns that a projection names and no document of the index confirms.
    pub(crate) fn count_unconfirmed(&self, turns: usize) {
        if turns > 0 {
            tracing::debug!(
                turns,
                "a projection names turns that the search index does not have: they are left out"
            );
            lock(&self.counts).stale += turns as u64;
        }
    }

    /// Calls `visit` with the number and the encoded [`SearchDocument`] of each of these documents, in order, until it
    /// returns false. Leaves out, and counts, documents that no verified record confirms.
    pub(crate) fn bodies(
        &self,
        documents: &[DocumentNo],
        visit: &mut dyn FnMut(DocumentNo, &[u8]) -> bool,
    ) -> Result<()> {
        for numbers in documents.chunks(DOCUMENTS_PER_READ) {
            let named = self.index.documents(numbers)?;
            let bodies = self.read(&named)?;
            self.count_stale(&named, &bodies);
            for (document, body) in named.iter().zip(bodies) {
                if body.is_some_and(|body| !visit(document.no, &body)) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn count_stale(&self, named: &[IndexedDocument], bodies: &[Option<Arc<[u8]>>]) {
        let read = named.iter().zip(bodies);
        let mut stale = read.filter(|(_, body)| body.is_none());
        if let Some((first, _)) = stale.next() {
            let stale = 1 + stale.count();
            let text = "the search index names documents that no record of the ledger confirms: they are left out";
            tracing::warn!(session_id = %first.session.1, stale, "{text}");
            lock(&self.counts).stale += stale as u64;
        }
    }

    /// Reads documents; `None` for one that no verified record confirms.
    fn read(&self, named: &[IndexedDocument]) -> Result<Vec<Option<Arc<[u8]>>>> {
        let states = self.verify(named.iter().map(|document| &document.session))?;
        let documents = || {
            let documents = named.iter().zip(&states);
            documents.filter_map(|(document, state)| Some((document, state.as_ref()?)))
        };
        let (mut units, mut unread) = (Units::new(), UnitNumbers::new());
        for (document, state) in documents().filter(|(document, _)| !is_title(document)) {
            let key = UnitKey {
                session: document.session.clone(),
                last_seq: state.last_seq,
                unit: document.unit,
            };
            match self.cache.get(&key) {
                Some(unit) => drop(units.insert((&document.session, document.unit), unit)),
                None => drop(
                    unread
                        .entry(&document.session)
                        .or_default()
                        .insert(document.unit),
                ),
            }
        }
        self.read_units(&unread, false, &mut units)?;
        // Of a session whose units depend on each other, all units are read.
        let mut dependent = UnitNumbers::new();
        for (document, _) in documents() {
            let unit = units.get(&(&document.session, document.unit));
            if unit.is_some_and(|unit| !unit.is_whole && unit.body(document).is_none()) {
                dependent
                    .entry(&document.session)
                    .or_default()
                    .insert(document.unit);
            }
        }
        self.read_units(&dependent, true, &mut units)?;
        let mut bodies = Vec::with_capacity(named.len());
        for (document, state) in named.iter().zip(&states) {
            let unit = units.get(&(&document.session, document.unit));
            bodies.push(match state {
                Some(state) if is_title(document) => {
                    let title = SearchDocument::from_title(&state.header);
                    title.map(|title| title.encode().into())
                }
                _ => unit.and_then(|unit| unit.body(document)),
            });
        }
        Ok(bodies)
    }

    /// Returns the states of sessions, in the order of `keys`. Verifies the sessions that this search has not seen yet.
    fn verify<'k>(
        &self,
        keys: impl Iterator<Item = &'k Key> + Clone,
    ) -> Result<Vec<Option<Arc<SessionState>>>> {
        let unknown: BTreeSet<&Key> = {
            let known = lock(&self.sessions);
            keys.clone()
                .filter(|key| !known.contains_key(*key))
                .collect()
        };
        let no_unit = BTreeSet::new();
        let parts = unknown.iter().map(|key| (*key, extent_of(&no_unit)));
        let read = self.read_parts(&parts.collect::<Vec<_>>())?;
        let mut sessions = lock(&self.sessions);
        for (key, recorded) in read {
            let state = SessionState {
                header: header(&recorded.session),
                last_seq: recorded.session.last_seq,
            };
            sessions.insert(key.clone(), Some(Arc::new(state)));
        }
        for key in unknown {
            sessions.entry(key.clone()).or_default();
        }
        Ok(keys
            .map(|key| sessions.get(key).cloned().flatten())
            .collect())
    }

    /// Reads units, and adds them to `units` and to the cache. With `is_whole`, reads their sessions completely.
    fn read_units<'k>(
        &self,
        wanted: &UnitNumbers<'k>,
        is_whole: bool,
        units_read: &mut Units<'k>,
    ) -> Result<()> {
        let part = |(key, numbers): (&&'k Key, &BTreeSet<u64>)| match is_whole {
            true => (*key, Extent::Entire),
            false => (*key, extent_of(numbers)),
        };
        let parts: Vec<(&Key, Extent)> = wanted.iter().map(part).collect();
        // Complete sessions are read one by one, because they may be large.
        let parts_per_read = if is_whole { 1 } else { parts.len().max(1) };
        for parts in parts.chunks(parts_per_read) {
            for (key, recorded) in self.read_parts(parts)? {
                let numbers = wanted.get(key).into_iter().flatten();
                // A unit that the session does not have is empty.
                let mut documents: BTreeMap<u64, Vec<UnitDocument>> =
                    numbers.map(|unit| (*unit, Vec::new())).collect();
                for (unit, messages) in &units(&recorded).units {
                    if let Some(documents) = documents.get_mut(unit) {
                        documents.extend(messages.iter().map(UnitDocument::from));
                    }
                }
                for (number, documents) in documents {
                    let unit = Arc::new(Unit {
                        documents,
                        is_whole,
                    });
                    let cache_key = UnitKey {
                        session: key.clone(),
                        last_seq: recorded.session.last_seq,
                        unit: number,
                    };
                    self.cache.insert(cache_key, unit.clone());
                    units_read.insert((key, number), unit);
                }
            }
        }
        Ok(())
    }

    /// Reads parts of sessions, which are ordered by their keys. Leaves out the sessions that the caller may not see,
    /// and those that cannot be read.
    fn read_parts<'k>(&self, parts: &[(&'k Key, Extent)]) -> Result<Vec<(&'k Key, Recorded)>> {
        let mut read = Vec::with_capacity(parts.len());
        for parts in parts.chunk_by(|(a, _), (b, _)| a.0 == b.0) {
            let realm = parts.first().map_or(&[][..], |(key, _)| &*key.0);
            let Some(caller) = self.caller_in(realm) else {
                continue;
            };
            let part = |(key, extent): &(&'k Key, Extent)| {
                Some((*key, (key.1.parse::<SessionId>().ok()?, extent.clone())))
            };
            let (keys, parts): (Vec<&'k Key>, Vec<(SessionId, Extent)>) =
                parts.iter().filter_map(part).unzip();
            let results = self.engine.index_feed.read_sessions(&caller, parts);
            for (key, result) in keys.into_iter().zip(self.runtime.block_on(results)?) {
                match result {
                    Ok(Some(recorded)) => read.push((key, recorded)),
                    Ok(None) => {}
                    // While the store does not answer, it is unknown what its records contain.
                    Err(why) if why.code.retry() => return Err(why),
                    Err(why) => {
                        let text = "a session cannot be read for a search";
                        tracing::warn!(session_id = %key.1, code = %why.code, "{text}");
                        self.add_unread([unreadable(&key.1, &why.detail)]);
                    }
                }
            }
        }
        Ok(read)
    }

    /// The caller who reads the sessions of a tenant; `None` if the caller belongs to another tenant.
    fn caller_in(&self, realm: &[u8]) -> Option<Caller> {
        match &self.caller {
            Some(caller) => (*realm_of(caller.tenant()) == *realm).then(|| caller.clone()),
            None => {
                let tenant = TenantId::new(std::str::from_utf8(realm).ok()?).ok()?;
                Some(Caller::operator(tenant))
            }
        }
    }
}

/// Whether a document is a session's title, whose key is empty.
fn is_title(document: &IndexedDocument) -> bool {
    document.key.is_empty()
}

/// The part of a session that consists of these units.
fn extent_of(units: &BTreeSet<u64>) -> Extent {
    let is_turn = |unit: &&u64| loose_seq(**unit).is_none();
    Extent::Units {
        turns: units.iter().filter(is_turn).copied().collect(),
        items: units.iter().copied().filter_map(loose_seq).collect(),
    }
}
