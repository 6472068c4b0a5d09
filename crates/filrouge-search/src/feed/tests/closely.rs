//! What a quick look overlooks is found in time.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::AtomicI64;

use filrouge_types::{Clock, Timestamp};

use super::*;
use crate::feed::rounds::{AGAIN, CLOSE};

/// A clock that a test sets.
struct Hand(AtomicI64);

impl Hand {
    fn new() -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(1_800_000_000_000)))
    }

    fn pass(&self, time: Duration) {
        let millis = i64::try_from(time.as_millis()).unwrap();
        self.0.fetch_add(millis, Ordering::SeqCst);
    }

    fn millis(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.millis()).unwrap()
    }
}

/// A source of which a quick look overlooks everything in these sessions.
fn overlooking(ids: &[&str]) -> Arc<Made> {
    let ids: BTreeSet<Box<str>> = ids.iter().map(|id| (*id).into()).collect();
    Arc::new(Made {
        overlooked: Some(Mutex::new(ids)),
        ..Made::default()
    })
}

/// An index as a process that has just started sees it.
fn opened(made: &Arc<Made>, index: &Arc<dyn TextIndex>, clock: &Arc<Hand>) -> SourceIndex {
    SourceIndex::new(made.clone(), index.clone(), None).with_clock(clock.clone())
}

fn word(word: u8) -> BTreeMap<u8, u8> {
    BTreeMap::from([(1, word)])
}

#[test]
fn what_is_overlooked_is_found_when_the_last_close_look_is_too_old() {
    let (made, clock) = (overlooking(&["a"]), Hand::new());
    let shared: Arc<dyn TextIndex> = Arc::new(MemoryIndex::default());
    put(&made, "a", 1, &word(1));
    put(&made, "b", 1, &word(1));
    let index = opened(&made, &shared, &clock);
    update(&index);
    put(&made, "a", 1, &word(2));
    assert_eq!(now(&index).pending, 0);
    clock.pass(CLOSE - Duration::from_secs(2));
    assert_eq!(now(&opened(&made, &shared, &clock)).pending, 0);
    assert_eq!(made.closely.load(Ordering::SeqCst), 0);
    clock.pass(Duration::from_secs(2));
    // Nobody notes what was not brought in.
    for index in [&index, &opened(&made, &shared, &clock)] {
        let known = now(index);
        assert_eq!((known.fresh.len(), known.pending), (1, 1));
        index.remember();
    }
    assert_eq!(now(&opened(&made, &shared, &clock)).pending, 1);
    let later = opened(&made, &shared, &clock);
    assert_eq!(later.step(&|| false).unwrap(), Step::Done(0));
    assert_eq!(held(&*shared, &now(&later)), said(&*made));
    // All of it is noted for the next process with that or one step more.
    later.step(&|| false).unwrap();
    made.closely.store(0, Ordering::SeqCst);
    assert_eq!(now(&opened(&made, &shared, &clock)).pending, 0);
    assert_eq!(made.closely.load(Ordering::SeqCst), 0);
}

#[test]
fn who_waits_for_it_has_everything_looked_at() {
    let (made, clock) = (overlooking(&["a"]), Hand::new());
    let shared: Arc<dyn TextIndex> = Arc::new(MemoryIndex::default());
    put(&made, "a", 1, &word(1));
    let index = opened(&made, &shared, &clock);
    update(&index);
    put(&made, "a", 1, &word(2));
    assert_eq!(now(&index).pending, 0);
    assert_eq!(index.known_closely().pending, 1);
    assert_eq!(update(&index).documents, 1);
    assert_eq!(held(&*shared, &now(&index)), said(&*made));
    // What an emptied index was found to be says nothing.
    index.clear().unwrap();
    put(&made, "b", 1, &word(1));
    assert_eq!(update(&index).sessions, 2);
}

#[test]
fn a_search_notes_what_it_had_to_look_at() {
    let (made, clock) = (overlooking(&[]), Hand::new());
    let shared: Arc<dyn TextIndex> = Arc::new(MemoryIndex::default());
    put(&made, "a", 1, &word(1));
    update(&opened(&made, &shared, &clock));
    clock.pass(CLOSE);
    let looked = |remembers: bool| {
        made.closely.store(0, Ordering::SeqCst);
        let index = opened(&made, &shared, &clock);
        assert_eq!(now(&index).pending, 0);
        if remembers {
            index.remember();
        }
        made.closely.load(Ordering::SeqCst)
    };
    assert_eq!([false, true, true].map(looked), [1, 1, 0]);
    // A clock that was put back: what it had noted is to come, and is worth nothing.
    clock.pass(CLOSE);
    assert_eq!(looked(true), 1);
    clock.0.fetch_sub(600_000, Ordering::SeqCst);
    assert_eq!([false, true, true].map(looked), [1, 1, 0]);
}

#[test]
fn a_process_looks_again_before_an_answer_would_have_to() {
    let (made, clock) = (overlooking(&["a"]), Hand::new());
    let shared: Arc<dyn TextIndex> = Arc::new(MemoryIndex::default());
    for at in 0..40 {
        put(&made, &format!("s{at}"), 1, &word(at));
    }
    put(&made, "a", 1, &word(1));
    let index = opened(&made, &shared, &clock);
    update(&index);
    assert!(!index.go_round().unwrap());
    put(&made, "a", 1, &word(2));
    clock.pass(AGAIN);
    let mut rounds = 0;
    while index.go_round().unwrap() {
        index.step(&|| false).unwrap();
        rounds += 1;
        assert!(rounds < 1_000);
    }
    assert_eq!(held(&*shared, &now(&index)), said(&*made));
    // No answer pays for it.
    made.closely.store(0, Ordering::SeqCst);
    clock.pass(AGAIN - Duration::from_secs(1));
    now(&index);
    assert_eq!(made.closely.load(Ordering::SeqCst), 0);
}

#[test]
fn a_process_that_keeps_indexes_in_step_goes_round_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let made = overlooking(&["a"]);
    put(&made, "a", 1, &word(1));
    let shared: Arc<dyn TextIndex> = Arc::new(MemoryIndex::default());
    // It was known long ago, and has changed since.
    let before = opened(&made, &shared, &Hand::new());
    update(&before);
    put(&made, "a", 1, &word(2));
    let sources: Vec<Arc<dyn Source>> = vec![made.clone()];
    let own = shared.clone();
    let open = move |file: &Path| {
        std::fs::write(file, "").unwrap();
        Ok(own.clone())
    };
    let all = Arc::new(Indexes::new(&sources, dir.path(), true, Box::new(open)));
    let indexer = Indexer::start(all).unwrap();
    let began = Instant::now();
    while held(&*shared, &now(&before)) != said(&*made) {
        assert!(began.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(indexer);
}

/// A source with a mark of the whole, of which a quick look overlooks everything in these sessions.
fn overlooking_with_a_mark(ids: &[&str]) -> Arc<Made> {
    let mut made = Arc::into_inner(overlooking(ids)).unwrap();
    made.together = true;
    Arc::new(made)
}

fn set(made: &Made, mark: Option<u64>) {
    *made.mark.lock().unwrap() = mark.map(|mark| Stamp(mark, mark));
}

#[test]
fn the_mark_of_the_whole_stands_for_it_behind_a_close_look_alone() {
    let (made, clock) = (overlooking_with_a_mark(&["a"]), Hand::new());
    let shared: Arc<dyn TextIndex> = Arc::new(MemoryIndex::default());
    let open = || opened(&made, &shared, &clock);
    put(&made, "a", 1, &word(1));
    put(&made, "b", 1, &word(1));
    set(&made, Some(1));
    update(&open());
    let closely = || made.closely.swap(0, Ordering::SeqCst);
    closely();
    // While it is the same, nobody looks at anything, however long that is.
    clock.pass(2 * CLOSE);
    made.compared.store(0, Ordering::SeqCst);
    open().remember();
    assert_eq!(now(&open()).pending, 0);
    assert_eq!((closely(), made.compared.load(Ordering::SeqCst)), (0, 0));
    // What is overlooked is not taken for what is known.
    put(&made, "a", 1, &word(2));
    set(&made, Some(2));
    let index = open();
    for step in [Step::Done(0), Step::Done(0), Step::Idle] {
        assert_eq!(index.step(&|| false).unwrap(), step);
    }
    assert!(closely() > 0);
    let known = now(&open());
    assert_eq!(held(&*shared, &known), said(&*made));
    assert_eq!(known.pending, 0);
    assert_eq!(closely(), 0);
    // An answer does not wait for it; what looks behind it finds it.
    put(&made, "a", 1, &word(3));
    set(&made, Some(3));
    let index = open();
    assert_eq!((now(&index).pending, closely()), (0, 0));
    index.remember();
    assert!(closely() > 0);
    assert_eq!(held(&*shared, &now(&index)), said(&*made));
}

#[test]
fn what_was_looked_at_is_noted_with_the_mark_of_the_whole() {
    let (made, clock) = (overlooking_with_a_mark(&["a"]), Hand::new());
    let shared: Arc<dyn TextIndex> = Arc::new(MemoryIndex::default());
    put(&made, "a", 1, &word(1));
    set(&made, Some(1));
    update(&opened(&made, &shared, &clock));
    made.closely.store(0, Ordering::SeqCst);
    // It is written to all the time: a quick look is enough, until the last close one is too old.
    set(&made, None);
    clock.pass(CLOSE - Duration::from_secs(2));
    now(&opened(&made, &shared, &clock));
    assert_eq!(made.closely.load(Ordering::SeqCst), 0);
    clock.pass(Duration::from_secs(2));
    let index = opened(&made, &shared, &clock);
    now(&index);
    index.remember();
    assert_eq!(made.closely.swap(0, Ordering::SeqCst), 1);
    now(&opened(&made, &shared, &clock));
    assert_eq!(made.closely.load(Ordering::SeqCst), 0);
}

#[derive(Debug, Clone)]
enum Move {
    Say(u8, u8, u8),
    Pass(u16),
    Restart,
    Step,
    Round,
    Remember,
    Update,
}

fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        3 => (0u8..4, 0u8..3, 0u8..3).prop_map(|(s, m, w)| Move::Say(s, m, w)),
        4 => (1u16..200).prop_map(Move::Pass),
        2 => Just(Move::Restart),
        2 => Just(Move::Step),
        2 => Just(Move::Round),
        1 => Just(Move::Remember),
        1 => Just(Move::Update),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    /// Whatever is overlooked: nothing that an index tells is older than it may be, in whichever process.
    #[test]
    fn nothing_is_overlooked_for_longer_than_that(
        marked in any::<bool>(),
        moves in proptest::collection::vec(moves(), 1..60),
    ) {
        let made = match marked {
            true => overlooking_with_a_mark(&["s0", "s1", "s2"]),
            false => overlooking(&["s0", "s1", "s2"]),
        };
        let clock = Hand::new();
        let shared: Arc<dyn TextIndex> = Arc::new(MemoryIndex::default());
        let mut index = opened(&made, &shared, &clock);
        let mut model: BTreeMap<u8, BTreeMap<u8, u8>> = BTreeMap::new();
        // Since when a session is another than the index has it.
        let mut other: BTreeMap<String, i64> = BTreeMap::new();
        for (count, one) in (1..).zip(moves) {
            match one {
                Move::Say(s, m, w) => {
                    // It has none while it may still be written to.
                    set(&made, None);
                    let words = model.entry(s).or_default();
                    words.insert(m, w);
                    put(&made, &format!("s{s}"), 1, words);
                    other.entry(format!("s{s}")).or_insert_with(|| clock.millis());
                }
                Move::Pass(seconds) => {
                    clock.pass(Duration::from_secs(seconds.into()));
                    if marked && made.mark.lock().unwrap().is_none() {
                        set(&made, Some(count));
                    }
                }
                Move::Restart => index = opened(&made, &shared, &clock),
                Move::Step => drop(index.step(&|| false).unwrap()),
                Move::Round => drop(index.go_round().unwrap()),
                Move::Remember => index.remember(),
                Move::Update => {
                    update(&index);
                    prop_assert_eq!(held(&*shared, &now(&index)), said(&*made));
                }
            }
            let known = now(&index);
            prop_assert_eq!(known.fresh.len() + known.stale.len(), model.len());
            let (told, true_now) = (held(&*shared, &known), said(&*made));
            for s in model.keys().map(|s| format!("s{s}")) {
                let of = |all: &Bodies| {
                    let own = all.iter().filter(|((id, _), _)| *id == s);
                    own.map(|(key, body)| (key.clone(), body.clone())).collect::<Bodies>()
                };
                if !known.fresh.contains_key(&*s) {
                    continue;
                }
                if of(&told) == of(&true_now) {
                    other.remove(&s);
                    continue;
                }
                let since = other.get(&s).copied().unwrap();
                let late = Duration::from_millis(u64::try_from(clock.millis() - since).unwrap());
                prop_assert!(s != "s3" && late <= CLOSE + Duration::from_secs(1), "{} {:?}", s, late);
            }
        }
    }
}
