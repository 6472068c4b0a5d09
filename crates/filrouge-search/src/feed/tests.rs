//! Tests of indexes that follow a source.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use filrouge_sources::library::samples::{MemorySource, conversation, header, message, text, torn};
use filrouge_sources::{Role, Source};
use filrouge_store::contract::text_index::IndexTestExt as _;
use filrouge_store::text_index::memory::MemoryIndex;
use filrouge_store::text_index::{CandidateQuery, TextIndex};
use proptest::prelude::*;

use super::*;
use crate::search_document::SearchDocument;

/// The bodies of documents by session and key.
type Bodies = BTreeMap<(String, String), Vec<u8>>;

/// The documents of an index's fresh sessions.
fn indexed_documents(index: &dyn TextIndex, snapshot: &IndexSnapshot) -> Bodies {
    let reach = index_scope();
    let mut bodies = Bodies::new();
    for (id, no) in &snapshot.fresh {
        let query = CandidateQuery {
            reach: &reach,
            sessions: Some(&[*no]),
            kinds: u32::MAX,
            since: None,
            until: None,
            wanted: filrouge_store::text_index::CandidateFilter::All(&[]),
        };
        let candidates = index.candidates(&query).unwrap();
        let numbers: Vec<_> = candidates
            .iter()
            .map(|candidate| candidate.document)
            .collect();
        let each = &mut |_, body: &[u8]| {
            let key = SearchDocument::decode(body).unwrap().id.into_owned();
            assert!(
                bodies
                    .insert((id.to_string(), key), body.to_vec())
                    .is_none(),
                "a document was returned twice"
            );
            true
        };
        index.bodies(&numbers, each).unwrap();
    }
    bodies
}

/// The documents of a source.
fn documents_of(source: &dyn Source) -> Bodies {
    let mut bodies = Bodies::new();
    for header in &source.list().unwrap().headers {
        let conversation = source.read(&header.id).unwrap();
        let messages = conversation
            .messages
            .iter()
            .map(SearchDocument::from_message);
        for doc in SearchDocument::from_title(header)
            .into_iter()
            .chain(messages)
        {
            let key = (header.id.to_string(), doc.id.to_string());
            bodies.insert(key, doc.encode());
        }
    }
    bodies
}

/// Replaces a session of a source: its title, and the word of each message.
fn put(source: &MemorySource, id: &str, title: u8, messages: &BTreeMap<u8, u8>) {
    let to_message = |(id, word): (&u8, &u8)| {
        let parts = vec![text(&format!("p{id}"), &format!("word {word}"))];
        message(&format!("m{id}"), Role::User, parts)
    };
    let mut header = header(id, i64::from(title));
    header.title = Some(format!("title {title}").into());
    source.put(
        header,
        conversation(messages.iter().map(to_message).collect()),
    );
    // A session that is created again gets a new fingerprint.
    static STATES: AtomicU64 = AtomicU64::new(0);
    source.sessions.lock().unwrap().get_mut(id).unwrap().2 = STATES.fetch_add(1, Ordering::SeqCst);
}

fn index_of(source: &Arc<MemorySource>) -> SourceIndex {
    let index: Arc<dyn TextIndex> = Arc::new(MemoryIndex::default());
    SourceIndex::new(source.clone(), index, None)
}

/// A snapshot that is not older than this call.
fn current_snapshot(index: &SourceIndex) -> Arc<IndexSnapshot> {
    index.snapshot(Duration::ZERO)
}

fn update(index: &SourceIndex) -> BuildProgress {
    index.update(&mut |_| {}, &|| false).unwrap()
}

/// A change of the source, or work of the index.
#[derive(Debug, Clone)]
enum Change {
    /// Sets the word of a message of a session.
    Message(u8, u8, u8),
    RemoveMessage(u8, u8),
    Title(u8, u8),
    RemoveSession(u8),
    Step,
    Update,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (0u8..4, 0u8..5, 0u8..3).prop_map(|(s, m, w)| Change::Message(s, m, w)),
        1 => (0u8..4, 0u8..5).prop_map(|(s, m)| Change::RemoveMessage(s, m)),
        1 => (0u8..4, 0u8..4).prop_map(|(s, t)| Change::Title(s, t)),
        1 => (0u8..4).prop_map(Change::RemoveSession),
        2 => Just(Change::Step),
        1 => Just(Change::Update),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    /// After any change, the documents of fresh sessions equal the source's, and an update makes everything fresh.
    #[test]
    fn an_index_follows_its_source(changes in proptest::collection::vec(change(), 1..40)) {
        let source = Arc::new(MemorySource::default());
        let index = index_of(&source);
        let mut model: BTreeMap<u8, (u8, BTreeMap<u8, u8>)> = BTreeMap::new();
        for change in changes {
            let touched = match change {
                Change::Message(s, m, w) => {
                    model.entry(s).or_default().1.insert(m, w);
                    Some(s)
                }
                Change::RemoveMessage(s, m) => model.get_mut(&s).map(|one| one.1.remove(&m)).map(|_| s),
                Change::Title(s, t) => {
                    model.entry(s).or_default().0 = t;
                    Some(s)
                }
                Change::RemoveSession(s) => {
                    model.remove(&s);
                    source.sessions.lock().unwrap().remove(&*format!("s{s}"));
                    None
                }
                Change::Step => {
                    index.step(&|| false).unwrap();
                    None
                }
                Change::Update => {
                    update(&index);
                    prop_assert_eq!(current_snapshot(&index).stale.len(), 0);
                    None
                }
            };
            if let Some((s, (title, messages))) = touched.and_then(|s| model.get_key_value(&s)) {
                put(&source, &format!("s{s}"), *title, messages);
            }
            let snapshot = current_snapshot(&index);
            prop_assert!(snapshot.failed.is_none());
            prop_assert_eq!(snapshot.fresh.len() + snapshot.stale.len(), model.len());
            let all = documents_of(&*source);
            let fresh: Bodies = all.into_iter().filter(|((id, _), _)| snapshot.fresh.contains_key(&**id)).collect();
            prop_assert_eq!(indexed_documents(&**index.index(), &snapshot), fresh);
        }
        update(&index);
        prop_assert_eq!(indexed_documents(&**index.index(), &current_snapshot(&index)), documents_of(&*source));
        prop_assert_eq!(index.index().sessions(&index_scope()).unwrap().len(), model.len());
    }
}

#[test]
fn a_recent_snapshot_is_reused() {
    let source = Arc::new(MemorySource::default());
    put(&source, "a", 1, &BTreeMap::from([(1, 1)]));
    let index = index_of(&source);
    update(&index);
    let snapshot = current_snapshot(&index);
    put(&source, "a", 2, &BTreeMap::from([(1, 2)]));
    let reused = index.snapshot(Duration::from_secs(3600));
    assert!(Arc::ptr_eq(&snapshot, &reused));
    let newer = current_snapshot(&index);
    assert_eq!((newer.fresh.len(), newer.pending), (0, 1));
    assert!(newer.as_of >= snapshot.as_of);
    assert!(index.last_used().is_some());
}

#[test]
fn an_incomplete_session_is_never_fresh_and_not_read_again() {
    let source = Arc::new(MemorySource::default());
    let mut torn_conversation =
        conversation(vec![message("m", Role::User, vec![text("p", "word")])]);
    torn_conversation.skipped.push(torn());
    source.put(header("torn", 1), torn_conversation);
    let twice = vec![
        message("m", Role::User, vec![text("p", "one")]),
        message("m", Role::User, vec![text("q", "other")]),
    ];
    source.put(header("twice", 1), conversation(twice));
    put(&source, "whole", 1, &BTreeMap::from([(1, 1)]));
    let index = index_of(&source);
    update(&index);
    let reads = source.read_count();
    for _ in 0..2 {
        update(&index);
        assert_eq!(index.step(&|| false).unwrap(), StepOutcome::Idle);
        let snapshot = current_snapshot(&index);
        assert!(snapshot.fresh.contains_key("whole") && snapshot.fresh.len() == 1);
        assert_eq!((snapshot.stale.len(), snapshot.pending), (2, 0));
    }
    assert_eq!(source.read_count(), reads);
    // Once the session is complete it is indexed.
    source.put(header("torn", 1), conversation(Vec::new()));
    update(&index);
    assert!(current_snapshot(&index).fresh.contains_key("torn"));
}

#[test]
fn a_session_without_a_fingerprint_is_not_indexed() {
    let source = Arc::new(MemorySource {
        without_fingerprints: true,
        ..MemorySource::default()
    });
    put(&source, "a", 1, &BTreeMap::from([(1, 1)]));
    let index = index_of(&source);
    update(&index);
    let snapshot = current_snapshot(&index);
    assert_eq!(
        (snapshot.fresh.len(), snapshot.stale.len(), snapshot.pending),
        (0, 1, 0)
    );
    assert_eq!(source.read_count(), 0);
}

#[test]
fn a_stopped_update_is_continued_by_the_next_one() {
    let source = Arc::new(MemorySource::default());
    for n in 0..40 {
        put(&source, &format!("s{n:02}"), 1, &BTreeMap::from([(1, n)]));
    }
    let index = index_of(&source);
    let indexed = AtomicUsize::new(0);
    let stopped = || indexed.load(Ordering::SeqCst) >= 5;
    let each = &mut |progress: BuildProgress| indexed.store(progress.sessions, Ordering::SeqCst);
    let progress = index.update(each, &stopped).unwrap();
    let fresh = current_snapshot(&index).fresh.len();
    assert!(
        fresh == progress.sessions && (5..40).contains(&fresh),
        "{fresh} sessions are fresh"
    );
    // Another process continues where the first one stopped.
    let other = SourceIndex::new(source.clone(), index.index().clone(), None);
    assert_eq!(update(&other).sessions, 40 - fresh);
    assert_eq!(
        indexed_documents(&**index.index(), &current_snapshot(&other)),
        documents_of(&*source)
    );
}

#[test]
fn one_process_feeds_the_index_and_all_processes_see_the_result() {
    let dir = tempfile::tempdir().unwrap();
    let lock = dir.path().join("lock");
    let source = Arc::new(MemorySource::default());
    put(&source, "a", 1, &BTreeMap::from([(1, 1)]));
    let shared: Arc<dyn TextIndex> = Arc::new(MemoryIndex::default());
    let one = SourceIndex::new(source.clone(), shared.clone(), Some(lock.clone()));
    let other = SourceIndex::new(source.clone(), shared, Some(lock));
    let lock = one.try_lock().unwrap();
    assert_eq!(other.step(&|| false).unwrap(), StepOutcome::Locked);
    assert!(update(&other).is_locked);
    assert!(!other.tidy().unwrap());
    drop(lock);
    update(&one);
    assert_eq!(current_snapshot(&other).fresh, current_snapshot(&one).fresh);
    assert_eq!(current_snapshot(&other).fresh.len(), 1);
}

#[test]
fn a_history_that_cannot_be_listed_has_no_fresh_sessions() {
    let readable = Arc::new(MemorySource::default());
    put(&readable, "a", 1, &BTreeMap::from([(1, 1)]));
    let index = index_of(&readable);
    update(&index);
    let broken = Arc::new(MemorySource {
        broken: true,
        ..MemorySource::default()
    });
    let unlisted = SourceIndex::new(broken, index.index().clone(), None);
    let snapshot = current_snapshot(&unlisted);
    assert!(snapshot.fresh.is_empty() && snapshot.failed.is_some());
    assert!(unlisted.step(&|| false).is_err());
    // The failure removed no session from the index.
    assert_eq!(current_snapshot(&index).fresh.len(), 1);
}

/// The indexes of a source. If `creates` is set, missing ones are created.
fn indexes(source: &Arc<MemorySource>, dir: &Path, creates: bool) -> Indexes {
    let sources: Vec<Arc<dyn Source>> = vec![source.clone()];
    let open = |file: &Path| {
        std::fs::write(file, "").unwrap();
        Ok(Arc::new(MemoryIndex::default()) as Arc<dyn TextIndex>)
    };
    Indexes::new(&sources, dir, creates, Box::new(open))
}

#[test]
fn an_index_file_is_created_when_there_is_a_session_to_index() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("a/b");
    let source = Arc::new(MemorySource::default());
    let reader = indexes(&source, &dir, false);
    let feeder = indexes(&source, &dir, true);
    assert!(feeder.open(0).is_none() && feeder.open_or_create(0).unwrap().is_none());
    assert!(feeder.overview(0).unwrap().is_none() && !reader.lacks_index());
    put(&source, "a", 1, &BTreeMap::from([(1, 1)]));
    assert!(reader.open(0).is_none() && reader.lacks_index());
    assert!(!dir.exists());
    update(&feeder.open(0).unwrap());
    assert!(!reader.lacks_index() && reader.open(1).is_none());
    let overview = feeder.overview(0).unwrap().unwrap();
    assert_eq!(overview.snapshot.unwrap().fresh.len(), 1);
    assert_eq!(overview.status.unwrap().documents, 2);
    assert_eq!(overview.file.parent(), Some(&*dir));
    let mode = std::os::unix::fs::PermissionsExt::mode(&dir.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn an_index_that_cannot_be_opened_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let source = Arc::new(MemorySource::default());
    put(&source, "a", 1, &BTreeMap::from([(1, 1)]));
    let sources: Vec<Arc<dyn Source>> = vec![source];
    let failure =
        || filrouge_types::Failure::new(filrouge_types::ErrorCode::StoreUnavailable, "no");
    let open = move |_: &Path| Err(failure());
    let indexes = Indexes::new(&sources, dir.path(), true, Box::new(open));
    assert!(indexes.open(0).is_none() && indexes.open_or_create(0).is_err());
    assert!(indexes.open_all().is_empty());
}

#[test]
fn an_indexer_keeps_indexes_up_to_date_until_it_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let source = Arc::new(MemorySource::default());
    put(&source, "a", 1, &BTreeMap::from([(1, 1)]));
    let indexes = Arc::new(indexes(&source, dir.path(), true));
    let indexer = Indexer::start(indexes.clone()).unwrap();
    let wait_until = |is: &dyn Fn(&IndexSnapshot) -> bool| {
        let began = Instant::now();
        while !indexes
            .open(0)
            .is_some_and(|index| is(&current_snapshot(&index)))
        {
            assert!(
                began.elapsed() < Duration::from_secs(20),
                "the indexer did not update the index"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    wait_until(&|snapshot| snapshot.fresh.len() == 1);
    put(&source, "b", 1, &BTreeMap::from([(1, 1)]));
    wait_until(&|snapshot| snapshot.fresh.len() == 2);
    drop(indexer);
    put(&source, "c", 1, &BTreeMap::from([(1, 1)]));
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(current_snapshot(&indexes.open(0).unwrap()).pending, 1);
}
