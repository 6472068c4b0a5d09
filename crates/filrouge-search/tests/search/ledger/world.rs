//! The test world: a ledger with an engine, an index and a feed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use filrouge_engine::Caller;
use filrouge_engine::{AppendItems, CreateSession, Engine, Settings, StartTurn};
use filrouge_search::SearchDocument;
use filrouge_search::embed::Embedder;
use filrouge_search::ledger::{LedgerFeed, Progress};
use filrouge_sources::Source;
use filrouge_sources::ledger::LedgerSource;
use filrouge_store::contract::text_index::{IndexTestExt as _, query};
use filrouge_store::memory::MemoryLedger;
use filrouge_store::text_index::memory::MemoryIndex;
use filrouge_store::text_index::{
    CandidateQuery, IndexScope, IndexedDocument, IndexedSession, TextIndex,
};
use filrouge_store::{Keyring, Lane, Lanes, Ledger, OsEntropy};
use filrouge_types::{FixedClock, IdentityId, ItemBody, JsonText, SessionId, TenantId, Turn};

use serde_json::json;
use tokio::runtime::Runtime;

pub(super) struct LedgerWorld {
    pub(super) runtime: Runtime,
    pub(super) engine: Arc<Engine>,
    pub(super) index: Arc<dyn TextIndex>,
    pub(super) feed: Arc<LedgerFeed>,
    pub(super) ledger: Arc<dyn Ledger>,
}

pub(super) fn clock() -> Arc<FixedClock> {
    Arc::new(FixedClock::at(1_700_000_000_000_000))
}

pub(super) fn ledger() -> Arc<dyn Ledger> {
    ledger_with_lanes(Lanes::ONE)
}

pub(super) fn ledger_with_lanes(lanes: Lanes) -> Arc<dyn Ledger> {
    let keyring = Arc::new(Keyring::single([7; 32]));
    let ledger = MemoryLedger::new(keyring, Arc::new(OsEntropy), clock());
    Arc::new(ledger.with_lanes(lanes))
}

pub(super) fn four_lanes() -> Lanes {
    Lanes::new(4).unwrap()
}

/// Names of sessions of the default tenant that belong to a lane of four.
pub(super) fn names_in(lane: u16, count: usize) -> Vec<String> {
    let (lane, tenant) = (Lane::new(lane), TenantId::default_tenant());
    let is_in_lane = |name: &String| four_lanes().of_session(&tenant, &id(name)) == lane;
    let names = (0..).map(|n| format!("s{n}")).filter(is_in_lane);
    names.take(count).collect()
}

/// An engine that does not know the index.
pub(super) fn engine(ledger: &Arc<dyn Ledger>) -> Engine {
    let entropy = Arc::new(OsEntropy);
    Engine::new(ledger.clone(), entropy, clock(), Settings::default())
}

pub(super) fn operator() -> Caller {
    Caller::operator(TenantId::default_tenant())
}

/// The user with this name, or an anonymous one if it is empty.
pub(super) fn user(name: &str) -> Caller {
    let identity = (!name.is_empty()).then(|| IdentityId::new(name).unwrap());
    Caller::local(TenantId::default_tenant(), identity)
}

pub(super) fn id(name: &str) -> SessionId {
    name.parse().unwrap()
}

/// The realm of the default tenant in the index.
pub(super) fn realm() -> Box<[u8]> {
    TenantId::default_tenant().as_str().as_bytes().into()
}

pub(super) fn item(json: serde_json::Value) -> ItemBody {
    serde_json::from_value(json).unwrap()
}

/// An item of the assistant, which an open turn accepts.
pub(super) fn observation(text: &str) -> ItemBody {
    let part = json!([{ "type": "text", "text": text }]);
    item(json!({ "role": "assistant", "channel": "observation", "parts": part }))
}

impl LedgerWorld {
    pub(super) fn new() -> Self {
        Self::from_parts(ledger(), Arc::new(MemoryIndex::default()))
    }

    pub(super) fn from_parts(ledger: Arc<dyn Ledger>, index: Arc<dyn TextIndex>) -> Self {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.enable_all().worker_threads(1).build().unwrap();
        let engine = Arc::new(engine(&ledger).with_index(index.clone()));
        let feed = Arc::new(LedgerFeed::new(engine.clone(), index.clone(), clock()));
        Self {
            runtime,
            engine,
            index,
            feed,
            ledger,
        }
    }

    /// An engine without the index, as in another process that serves the same ledger.
    pub(super) fn engine_without_index(&self) -> Engine {
        engine(&self.ledger)
    }

    /// Brings the index up to date.
    pub(super) fn catch_up(&self) -> Progress {
        let limit = Duration::from_secs(60);
        let caught_up = self.feed.catch_up(limit, &|| false);
        let progress = self.runtime.block_on(caught_up).unwrap();
        assert!(progress.done && progress.lag_commits == 0, "{progress:?}");
        progress
    }

    pub(super) fn create_session(&self, caller: &Caller, session: &str, title: Option<&str>) {
        let request = CreateSession {
            session_id: Some(id(session)),
            title: title.map(Into::into),
            ..CreateSession::default()
        };
        let created = self.engine.sessions.create(caller, request);
        self.runtime.block_on(created).unwrap();
    }

    /// Starts a turn and closes it with `answer`. Without an answer, the turn stays open.
    pub(super) fn start_turn(
        &self,
        caller: &Caller,
        (session, request): (&str, &str),
        question: &str,
        answer: Option<&str>,
    ) -> Turn {
        let start = StartTurn {
            question_neutral: Some(JsonText::from_plain(question)),
            answer_neutral: answer.map(JsonText::from_plain),
            ..StartTurn::new(request.parse().unwrap())
        };
        let started = self.engine.turns.start(caller, id(session), start);
        self.runtime.block_on(started).unwrap().value
    }

    pub(super) fn append(&self, session: &str, turn: &Turn, items: Vec<ItemBody>) {
        let (caller, items) = (operator(), AppendItems::new(items));
        let append = self
            .engine
            .turns
            .append(&caller, id(session), turn.turn_id, items);
        self.runtime.block_on(append).unwrap();
    }

    /// Embeds all documents of the index.
    pub(super) fn embed(&self, embedder: &Arc<dyn Embedder>) {
        let feed = LedgerFeed::new(self.engine.clone(), self.index.clone(), clock());
        let feed = feed.with_embedder(Some(embedder.clone()));
        for _ in 0..100 {
            if !self.runtime.block_on(feed.embed()).unwrap() {
                return;
            }
        }
        panic!("the same documents are embedded again and again");
    }

    /// The index's entry for a session.
    pub(super) fn indexed_session(&self, session: &str) -> Option<IndexedSession> {
        self.index.session(&realm(), session).unwrap()
    }

    /// Whether a document in the index contains a word.
    pub(super) fn index_contains(&self, word: &str) -> bool {
        let (scope, terms) = (IndexScope::Realm(realm()), [vec![word.to_owned()]]);
        let query = CandidateQuery {
            reach: &scope,
            sessions: None,
            kinds: u32::MAX,
            since: None,
            until: None,
            wanted: filrouge_store::text_index::CandidateFilter::All(&terms),
        };
        !self.index.candidates(&query).unwrap().is_empty()
    }

    pub(super) fn source(&self) -> LedgerSource {
        let runtime = self.runtime.handle().clone();
        LedgerSource::new(self.engine.clone(), operator(), runtime)
    }
}

/// The contents of an index: each session's owner, and the sorted digests of its documents.
pub(super) type Contents = BTreeMap<String, (Vec<u8>, Vec<u64>)>;

pub(super) fn contents(index: &dyn TextIndex) -> Contents {
    let scope = IndexScope::Realm(realm());
    let mut all = Contents::new();
    for session in index.sessions(&scope).unwrap().iter() {
        let documents = documents(index, session);
        let mut digests: Vec<u64> = documents.iter().map(|document| document.digest).collect();
        digests.sort_unstable();
        let key = session.entry.key.to_string();
        all.insert(key, (session.shard.owner.to_vec(), digests));
    }
    all
}

/// The documents of a session in the index.
pub(super) fn documents(index: &dyn TextIndex, session: &IndexedSession) -> Vec<IndexedDocument> {
    let (scope, sessions) = (IndexScope::Shard(session.shard.clone()), [session.no]);
    let query = CandidateQuery {
        sessions: Some(&sessions),
        ..query(&scope, &[])
    };
    let found = index.candidates(&query).unwrap();
    let numbers: Vec<u64> = found.iter().map(|candidate| candidate.document).collect();
    index.documents(&numbers).unwrap()
}

/// The sorted digests of the documents that the ledger's own source returns, by session.
pub(super) fn source_digests(source: &LedgerSource) -> BTreeMap<String, Vec<u64>> {
    let mut all = BTreeMap::new();
    for header in &source.list().unwrap().headers {
        let conversation = source.read(&header.id).unwrap();
        let messages = conversation.messages.iter();
        let messages = messages.map(SearchDocument::from_message);
        let documents = SearchDocument::from_title(header)
            .into_iter()
            .chain(messages);
        let mut digests: Vec<u64> = documents.map(|document| document.digest()).collect();
        digests.sort_unstable();
        all.insert(header.id.to_string(), digests);
    }
    all
}
