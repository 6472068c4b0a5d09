use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use filrouge_sources::library::made::{Made, conversation, header, message, text, torn};
use filrouge_sources::{Role, Source};
use filrouge_store::contract::text_index::Asking as _;
use filrouge_store::text_index::memory::MemoryIndex;
use filrouge_store::text_index::{CandidateQuery, TextIndex};
use proptest::prelude::*;

use super::*;
use crate::spoken::Spoken;

/// The bodies of documents by session and key.
type Bodies = BTreeMap<(String, String), Vec<u8>>;

/// What an index holds of the sessions that it knows as they are.
fn held(index: &dyn TextIndex, known: &Known) -> Bodies {
    let reach = reach();
    let mut all = Bodies::new();
    for (id, no) in &known.fresh {
        let query = CandidateQuery {
            reach: &reach,
            sessions: Some(&[*no]),
            kinds: u32::MAX,
            since: None,
            until: None,
            wanted: filrouge_store::text_index::Wanted::All(&[]),
        };
        let found = index.candidates(&query).unwrap();
        let numbers: Vec<_> = found.iter().map(|one| one.document).collect();
        let each = &mut |_, body: &[u8]| {
            let key = Spoken::decode(body).unwrap().id.into_owned();
            assert!(
                all.insert((id.to_string(), key), body.to_vec()).is_none(),
                "a document is there once"
            );
            true
        };
        index.bodies(&numbers, each).unwrap();
    }
    all
}

/// What a source holds.
fn said(source: &dyn Source) -> Bodies {
    let mut all = Bodies::new();
    for header in &source.list().unwrap().headers {
        let conversation = source.read(&header.id).unwrap();
        let messages = conversation.messages.iter().map(Spoken::of);
        for spoken in Spoken::of_title(header).into_iter().chain(messages) {
            let key = (header.id.to_string(), spoken.id.to_string());
            all.insert(key, spoken.encode());
        }
    }
    all
}

fn put(made: &Made, id: &str, title: u8, said: &BTreeMap<u8, u8>) {
    let one = |(id, word): (&u8, &u8)| {
        let parts = vec![text(&format!("p{id}"), &format!("word {word}"))];
        message(&format!("m{id}"), Role::User, parts)
    };
    let mut header = header(id, i64::from(title));
    header.title = Some(format!("title {title}").into());
    made.put(header, conversation(said.iter().map(one).collect()));
    // A session that comes back is in another state than it was.
    static STATES: AtomicU64 = AtomicU64::new(0);
    made.sessions.lock().unwrap().get_mut(id).unwrap().2 = STATES.fetch_add(1, Ordering::SeqCst);
}

fn over(made: &Arc<Made>) -> SourceIndex {
    let index: Arc<dyn TextIndex> = Arc::new(MemoryIndex::default());
    SourceIndex::new(made.clone(), index, None)
}

fn now(index: &SourceIndex) -> Arc<Known> {
    index.known(Duration::ZERO)
}

fn update(index: &SourceIndex) -> Progress {
    index.update(&mut |_| {}, &|| false).unwrap()
}

#[derive(Debug, Clone)]
enum Change {
    Say(u8, u8, u8),
    Remove(u8, u8),
    Title(u8, u8),
    Vanish(u8),
    Step,
    Update,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (0u8..4, 0u8..5, 0u8..3).prop_map(|(s, m, w)| Change::Say(s, m, w)),
        1 => (0u8..4, 0u8..5).prop_map(|(s, m)| Change::Remove(s, m)),
        1 => (0u8..4, 0u8..4).prop_map(|(s, t)| Change::Title(s, t)),
        1 => (0u8..4).prop_map(Change::Vanish),
        2 => Just(Change::Step),
        1 => Just(Change::Update),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    /// Whatever changes: what is known to be fresh is what is there, and an update makes everything fresh.
    #[test]
    fn an_index_follows_its_source(changes in proptest::collection::vec(change(), 1..40)) {
        let made = Arc::new(Made::default());
        let index = over(&made);
        let mut model: BTreeMap<u8, (u8, BTreeMap<u8, u8>)> = BTreeMap::new();
        for change in changes {
            let touched = match change {
                Change::Say(s, m, w) => {
                    model.entry(s).or_default().1.insert(m, w);
                    Some(s)
                }
                Change::Remove(s, m) => model.get_mut(&s).map(|one| one.1.remove(&m)).map(|_| s),
                Change::Title(s, t) => {
                    model.entry(s).or_default().0 = t;
                    Some(s)
                }
                Change::Vanish(s) => {
                    model.remove(&s);
                    made.sessions.lock().unwrap().remove(&*format!("s{s}"));
                    None
                }
                Change::Step => {
                    index.step(&|| false).unwrap();
                    None
                }
                Change::Update => {
                    update(&index);
                    prop_assert_eq!(now(&index).stale.len(), 0);
                    None
                }
            };
            if let Some((s, (title, said))) = touched.and_then(|s| model.get_key_value(&s)) {
                put(&made, &format!("s{s}"), *title, said);
            }
            let known = now(&index);
            prop_assert_eq!(known.fresh.len() + known.stale.len(), model.len());
            let all = said(&*made);
            let fresh: Bodies = all.into_iter().filter(|((id, _), _)| known.fresh.contains_key(&**id)).collect();
            prop_assert_eq!(held(&**index.index(), &known), fresh);
        }
        update(&index);
        prop_assert_eq!(held(&**index.index(), &now(&index)), said(&*made));
        prop_assert_eq!(index.index().sessions(&reach()).unwrap().len(), model.len());
        prop_assert_eq!(index.errors(), 0);
    }
}

#[test]
fn what_is_known_is_told_again_for_a_while() {
    let made = Arc::new(Made::default());
    put(&made, "a", 1, &BTreeMap::from([(1, 1)]));
    let index = over(&made);
    update(&index);
    let known = now(&index);
    put(&made, "a", 2, &BTreeMap::from([(1, 2)]));
    let again = index.known(Duration::from_secs(3600));
    assert!(Arc::ptr_eq(&known, &again));
    let anew = now(&index);
    assert_eq!((anew.fresh.len(), anew.pending), (0, 1));
    assert!(anew.as_of >= known.as_of);
    assert!(index.asked().is_some());
}

#[test]
fn what_was_not_read_completely_is_never_fresh_and_not_read_again() {
    let made = Arc::new(Made::default());
    let mut said = conversation(vec![message("m", Role::User, vec![text("p", "word")])]);
    said.skipped.push(torn());
    made.put(header("torn", 1), said);
    let twice = vec![
        message("m", Role::User, vec![text("p", "one")]),
        message("m", Role::User, vec![text("q", "other")]),
    ];
    made.put(header("twice", 1), conversation(twice));
    put(&made, "whole", 1, &BTreeMap::from([(1, 1)]));
    let index = over(&made);
    update(&index);
    let reads = made.read_count();
    for _ in 0..2 {
        update(&index);
        assert_eq!(index.step(&|| false).unwrap(), Step::Idle);
        let known = now(&index);
        assert!(known.fresh.contains_key("whole") && known.fresh.len() == 1);
        assert_eq!((known.stale.len(), known.pending), (2, 0));
    }
    assert_eq!(made.read_count(), reads);
    // Once it is whole it is in it.
    made.put(header("torn", 1), conversation(Vec::new()));
    update(&index);
    assert!(now(&index).fresh.contains_key("torn"));
}

#[test]
fn what_has_no_fingerprint_is_not_indexed() {
    let made = Arc::new(Made {
        unmarked: true,
        ..Made::default()
    });
    put(&made, "a", 1, &BTreeMap::from([(1, 1)]));
    let index = over(&made);
    update(&index);
    let known = now(&index);
    assert_eq!(
        (known.fresh.len(), known.stale.len(), known.pending),
        (0, 1, 0)
    );
    assert_eq!(made.read_count(), 0);
}

#[test]
fn an_update_that_was_stopped_goes_on() {
    let made = Arc::new(Made::default());
    for at in 0..40 {
        put(&made, &format!("s{at:02}"), 1, &BTreeMap::from([(1, at)]));
    }
    let index = over(&made);
    let taken = AtomicUsize::new(0);
    let stopped = || taken.load(Ordering::SeqCst) >= 5;
    let each = &mut |progress: Progress| taken.store(progress.sessions, Ordering::SeqCst);
    let progress = index.update(each, &stopped).unwrap();
    let fresh = now(&index).fresh.len();
    assert!(
        fresh == progress.sessions && (5..40).contains(&fresh),
        "{fresh}"
    );
    // Another process goes on with what is there.
    let other = SourceIndex::new(made.clone(), index.index().clone(), None);
    assert_eq!(update(&other).sessions, 40 - fresh);
    assert_eq!(held(&**index.index(), &now(&other)), said(&*made));
}

#[test]
fn one_process_feeds_and_all_know() {
    let dir = tempfile::tempdir().unwrap();
    let lock = dir.path().join("lock");
    let made = Arc::new(Made::default());
    put(&made, "a", 1, &BTreeMap::from([(1, 1)]));
    let shared: Arc<dyn TextIndex> = Arc::new(MemoryIndex::default());
    let one = SourceIndex::new(made.clone(), shared.clone(), Some(lock.clone()));
    let other = SourceIndex::new(made.clone(), shared, Some(lock));
    let feeding = one.feeding().unwrap();
    assert_eq!(other.step(&|| false).unwrap(), Step::Elsewhere);
    assert!(update(&other).elsewhere);
    assert!(!other.tidy().unwrap());
    drop(feeding);
    update(&one);
    assert_eq!(now(&other).fresh, now(&one).fresh);
    assert_eq!(now(&other).fresh.len(), 1);
}

#[test]
fn a_history_that_cannot_be_listed_has_nothing_fresh() {
    let good = Arc::new(Made::default());
    put(&good, "a", 1, &BTreeMap::from([(1, 1)]));
    let index = over(&good);
    update(&index);
    let broken = Arc::new(Made {
        broken: true,
        ..Made::default()
    });
    let lost = SourceIndex::new(broken, index.index().clone(), None);
    assert!(now(&lost).fresh.is_empty());
    assert!(lost.step(&|| false).is_err());
    assert_eq!(lost.errors(), 2);
    // Nothing was removed for that.
    assert_eq!(now(&index).fresh.len(), 1);
}

fn indexes(made: &Arc<Made>, dir: &Path, makes: bool) -> Indexes {
    let sources: Vec<Arc<dyn Source>> = vec![made.clone()];
    let open = |file: &Path| {
        std::fs::write(file, "").unwrap();
        Ok(Arc::new(MemoryIndex::default()) as Arc<dyn TextIndex>)
    };
    Indexes::new(&sources, dir, makes, Box::new(open))
}

#[test]
fn files_are_made_when_there_is_something_to_put_in() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("a/b");
    let made = Arc::new(Made::default());
    let reader = indexes(&made, &dir, false);
    let feeder = indexes(&made, &dir, true);
    assert!(feeder.of(0).is_none() && feeder.make(0).unwrap().is_none());
    assert!(feeder.overview(0).unwrap().is_none() && !reader.lacks_one());
    put(&made, "a", 1, &BTreeMap::from([(1, 1)]));
    assert!(reader.of(0).is_none() && reader.lacks_one());
    assert!(!dir.exists());
    update(&feeder.of(0).unwrap());
    assert!(!reader.lacks_one() && reader.of(1).is_none());
    let told = feeder.overview(0).unwrap().unwrap();
    assert_eq!(told.known.unwrap().fresh.len(), 1);
    assert_eq!(told.status.unwrap().documents, 2);
    assert_eq!(told.file.parent(), Some(&*dir));
    let mode = std::os::unix::fs::PermissionsExt::mode(&dir.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn an_index_that_cannot_be_opened_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let made = Arc::new(Made::default());
    put(&made, "a", 1, &BTreeMap::from([(1, 1)]));
    let sources: Vec<Arc<dyn Source>> = vec![made];
    let why = || filrouge_types::Failure::new(filrouge_types::ErrorCode::StoreUnavailable, "no");
    let open = move |_: &Path| Err(why());
    let indexes = Indexes::new(&sources, dir.path(), true, Box::new(open));
    assert!(indexes.of(0).is_none() && indexes.make(0).is_err());
    assert!(indexes.open_all().is_empty());
}

#[test]
fn a_process_keeps_its_indexes_in_step_until_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let made = Arc::new(Made::default());
    put(&made, "a", 1, &BTreeMap::from([(1, 1)]));
    let all = Arc::new(indexes(&made, dir.path(), true));
    let indexer = Indexer::start(all.clone()).unwrap();
    let until = |is: &dyn Fn(&Known) -> bool| {
        let began = Instant::now();
        while !all.of(0).is_some_and(|index| is(&now(&index))) {
            assert!(began.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    until(&|known| known.fresh.len() == 1);
    put(&made, "b", 1, &BTreeMap::from([(1, 1)]));
    until(&|known| known.fresh.len() == 2);
    drop(indexer);
    put(&made, "c", 1, &BTreeMap::from([(1, 1)]));
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(now(&all.of(0).unwrap()).pending, 1);
}
